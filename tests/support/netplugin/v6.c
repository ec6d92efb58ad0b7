#include <stddef.h>

#include "example.h"

typedef struct {
  char* name;
  char* path;
  uint64_t guid;
  int memory;
  int speed;
  int port;
  float latency;
  int most_comms;
  int most_receives;
} Properties;

static int init(Log log) { return example_init(log, NULL, 0); }

static int properties(int device, Properties* out) {
  out->latency = 1;
  out->most_comms = 1 << 16;
  out->most_receives = 8;
  return example_properties(device, &out->name, &out->path, &out->guid, &out->speed, &out->port, &out->memory);
}

static int connect_to(int device, void* handle, void** comm) { return example_connect(device, handle, -1, comm); }

static int reg(void* comm, void* data, int bytes, int kind, void** registration) {
  return example_reg(comm, data, (size_t)bytes, kind, registration);
}

static int send_to(void* comm, void* data, int bytes, int tag, void* registration, void** request) {
  return example_send(comm, data, (size_t)bytes, tag, registration, request);
}

static int receive(void* comm, int n, void** data, int* bytes, int* tags, void** registrations, void** request) {
  return example_receive(comm, n, data, (size_t)bytes[0], tags, registrations, request);
}

const struct {
  const char* name;
  int (*init)(Log);
  int (*devices)(int*);
  int (*properties)(int, Properties*);
  int (*listen)(int, void*, void**);
  int (*connect)(int, void*, void**);
  int (*accept)(void*, void**);
  int (*reg)(void*, void*, int, int, void**);
  int (*reg_dma_buffer)(void*, void*, size_t, int, uint64_t, int, void**);
  int (*dereg)(void*, void*);
  int (*send)(void*, void*, int, int, void*, void**);
  int (*receive)(void*, int, void**, int*, int*, void**, void**);
  int (*flush)(void*, int, void**, int*, void**, void**);
  int (*test)(void*, int*, int*);
  int (*close_send)(void*);
  int (*close_receive)(void*);
  int (*close_listen)(void*);
} ncclNetPlugin_v6 = {"Example",
                      init,
                      example_devices,
                      properties,
                      example_listen,
                      connect_to,
                      example_accept,
                      reg,
                      NULL,
                      example_dereg,
                      send_to,
                      receive,
                      NULL,
                      example_test,
                      example_close_send,
                      example_close_receive,
                      example_close_listen};
