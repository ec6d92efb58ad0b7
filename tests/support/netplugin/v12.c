#include <stddef.h>

#include "example.h"

typedef struct {
  char* name;
  char* path;
  uint64_t guid;
  int memory;
  int registers_globally;
  int forces_flush;
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
  int offload;
  int offload_version;
  int parts;
  int part[8];
  size_t largest_message;
  size_t largest_collective;
  int most_in_request;
  int16_t rail;
  int16_t plane;
} Properties;

typedef struct {
  int traffic_class;
} Config;

static int init(void** context, uint64_t id, Config* config, Log log, Profile profile) {
  const int code = example_init(log, profile, 1);
  return code != 0 ? code : example_context(context, id, config->traffic_class);
}

static int properties(int device, Properties* out) {
  out->latency = 1;
  out->most_comms = 1 << 16;
  out->most_receives = 8;
  out->registers_globally = 0;
  out->forces_flush = 0;
  out->offload = out->offload_version = 0;
  out->parts = 1;
  out->part[0] = device;
  out->largest_message = out->largest_collective = example_largest();
  out->most_in_request = 1;
  out->rail = out->plane = 0;
  return example_properties(device, &out->name, &out->path, &out->guid, &out->speed, &out->port, &out->memory);
}

static int listen_at(void* context, int device, void* handle, void** comm) {
  (void)context;
  return example_listen(device, handle, comm);
}

static int connect_to(void* context, int device, void* handle, void** comm, void** device_handle) {
  (void)context;
  *device_handle = NULL;
  return example_connect(device, handle, example_count("traffic_class"), comm);
}

static int accept_from(void* listener, void** comm, void** device_handle) {
  *device_handle = NULL;
  return example_accept(listener, comm);
}

static int send_to(void* comm, void* data, size_t bytes, int tag, void* registration, void* profile, void** request) {
  (void)profile;
  return example_send(comm, data, bytes, tag, registration, request);
}

static int receive(void* comm, int n, void** data, size_t* bytes, int* tags, void** registrations, void** profiles,
                   void** request) {
  (void)profiles;
  return example_receive(comm, n, data, bytes[0], tags, registrations, request);
}

const struct {
  const char* name;
  int (*init)(void**, uint64_t, Config*, Log, Profile);
  int (*devices)(int*);
  int (*properties)(int, Properties*);
  int (*listen)(void*, int, void*, void**);
  int (*connect)(void*, int, void*, void**, void**);
  int (*accept)(void*, void**, void**);
  int (*reg)(void*, void*, size_t, int, void**);
  int (*reg_dma_buffer)(void*, void*, size_t, int, uint64_t, int, void**);
  int (*dereg)(void*, void*);
  int (*send)(void*, void*, size_t, int, void*, void*, void**);
  int (*receive)(void*, int, void**, size_t*, int*, void**, void**, void**);
  int (*flush)(void*, int, void**, int*, void**, void**);
  int (*test)(void*, int*, int*);
  int (*close_send)(void*);
  int (*close_receive)(void*);
  int (*close_listen)(void*);
  int (*device_registration)(void*, void*, void**);
  int (*consumed)(void*, int, void*);
  int (*make_device)(int*, void*);
  int (*finalize)(void*);
  int (*set_attributes)(void*, void*);
} ncclNetPlugin_v12 = {"Example",
                       init,
                       example_devices,
                       properties,
                       listen_at,
                       connect_to,
                       accept_from,
                       example_reg,
                       NULL,
                       example_dereg,
                       send_to,
                       receive,
                       NULL,
                       example_test,
                       example_close_send,
                       example_close_receive,
                       example_close_listen,
                       NULL,
                       NULL,
                       NULL,
                       example_finalize,
                       NULL};
