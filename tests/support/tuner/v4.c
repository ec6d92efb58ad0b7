#include <stdio.h>

#include "example.h"

static int init(size_t ranks, size_t nodes, Log log, void** context) {
  char text[128];
  snprintf(text, sizeof text, "v4 ranks %zu nodes %zu", ranks, nodes);
  return example_init(context, text, log);
}

static int get(void* context, int function, size_t bytes, int ops, float** table, int algorithms, int protocols, int registered,
               int* channels) {
  char text[128];
  snprintf(text, sizeof text, "function %d bytes %zu ops %d registered %d size %dx%d", function, bytes, ops, registered,
           algorithms, protocols);
  return example_get(context, text, table, algorithms, protocols, channels);
}

const struct {
  const char* name;
  int (*init)(size_t, size_t, Log, void**);
  int (*get)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*destroy)(void*);
} ncclTunerPlugin_v4 = {"Example", init, get, example_end};
