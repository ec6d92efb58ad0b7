#include <stdio.h>

#include "example.h"

typedef struct {
  int count, least, most;
} Domains;

/* The first two of the interface's tables of constants: 7 algorithms by 3 protocols, and that for each of 3 kinds of link. */
typedef struct {
  double base[7][3];
  double hardware[3][7][3];
} Constants;

static int init(void** context, uint64_t id, size_t ranks, size_t nodes, Log log, Domains* domains, Constants* constants) {
  char text[256];
  snprintf(text, sizeof text, "v5 ranks %zu nodes %zu id %d domains %d of %d to %d constants %g", ranks, nodes, id != 0,
           domains->count, domains->least, domains->most, constants->base[0][0] + constants->hardware[2][6][2]);
  constants->base[1][2] = constants->hardware[0][0][0] = 1.5; /* it may */
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
  int (*init)(void**, uint64_t, size_t, size_t, Log, Domains*, Constants*);
  int (*get)(void*, int, size_t, int, float**, int, int, int, int*);
  int (*finalize)(void*);
} ncclTunerPlugin_v5 = {"Example", init, get, example_end};
