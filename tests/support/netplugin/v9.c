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
  int part[4];
  size_t largest_message;
  size_t largest_collective;
} Properties;

static int init(Log log) { return example_init(log, NULL, 0); }

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
  return example_properties(device, &out->name, &out->path, &out->guid, &out->speed, &out->port, &out->memory);
}

static int connect_to(int device, void* handle, void** comm, void** device_handle) {
  *device_handle = NULL;
  return example_connect(device, handle, -1, comm);
}

static int accept_from(void* listener, void** comm, void** device_handle) {
  *device_handle = NULL;
  return example_accept(listener, comm);
}

static int send_to(void* comm, void* data, size_t bytes, int tag, void* registration, void** request) {
  return example_send(comm, data, bytes, tag, registration, request);
}

static int receive(void* comm, int n, void** data, size_t* bytes, int* tags, void** registrations, void** request) {
  return example_receive(comm, n, data, bytes[0], tags, registrations, request);
}

const struct {
  const char* name;
  int (*init)(Log);
  int (*devices)(int*);
  int (*properties)(int, Properties*);
  int (*listen)(int, void*, void**);
  int (*connect)(int, void*, void**, void**);
  int (*accept)(void*, void**, void**);
  int (*reg)(void*, void*, size_t, int, void**);
  int (*reg_dma_buffer)(void*, void*, size_t, int, uint64_t, int, void**);
  int (*dereg)(void*, void*);
  int (*send)(void*, void*, size_t, int, void*, void**);
  int (*receive)(void*, int, void**, size_t*, int*, void**, void**);
  int (*flush)(void*, int, void**, int*, void**, void**);
  int (*test)(void*, int*, int*);
  int (*close_send)(void*);
  int (*close_receive)(void*);
  int (*close_listen)(void*);
  int (*device_registration)(void*, void*, void**);
  int (*consumed)(void*, int, void*);
  int (*make_device)(int*, void*);
} ncclNetPlugin_v9 = {"Example",
                      init,
                      example_devices,
                      properties,
                      example_listen,
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
                      NULL};
