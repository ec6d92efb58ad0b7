#include "example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMostSets = 32 };

typedef struct {
  char log[256];
  int get_code, channels, sets, off;
  struct {
    int algorithm, protocol;
    float cost;
  } set[kMostSets];
} Example;

static void note(const Example* example, const char* what, const char* text) {
  FILE* file;
  if (example->log[0] == '\0' || (file = fopen(example->log, "a")) == NULL) return;
  fprintf(file, "%s %s\n", what, text);
  fclose(file);
}

int example_init(void** context, const char* told, Log log) {
  static int contexts = 0;
  Example* example = calloc(1, sizeof *example);
  const char* path = getenv("NCCL_TUNER_CONFIG_FILE");
  FILE* file = path != NULL ? fopen(path, "r") : NULL;
  char line[512], word[256];
  int code = 0, odd = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    int* const at = &example->set[example->sets].algorithm;
    if (sscanf(line, "log %255s", example->log) == 1) continue;
    if (sscanf(line, "init %d", &code) == 1) continue;
    if (sscanf(line, "get %d", &example->get_code) == 1) continue;
    if (sscanf(line, "channels %d", &example->channels) == 1) continue;
    if (sscanf(line, "say %255s", word) == 1) log(2, ~0ul, "example.c", 7, "%s and %d", word, 42);
    if (strncmp(line, "odd", 3) == 0) odd = 1;
    if (example->sets < kMostSets && sscanf(line, "set %d %d %255s", at, &example->set[example->sets].protocol, word) == 3) {
      example->set[example->sets++].cost = strtof(word, NULL);
    }
  }
  if (file != NULL) fclose(file);
  example->off = odd && __atomic_fetch_add(&contexts, 1, __ATOMIC_RELAXED) % 2 == 0;
  note(example, "init", told);
  *context = example;
  if (code != 0) free(example);
  return code;
}

int example_get(void* context, const char* asked, float** table, int algorithms, int protocols, int* channels) {
  Example* example = context;
  float* cost = (float*)table;
  char text[1024];
  int i, length = snprintf(text, sizeof text, "%s table", asked);
  for (i = 0; i < algorithms * protocols && length < (int)sizeof text - 32; ++i) {
    length += snprintf(text + length, sizeof text - (size_t)length, " %g", (double)cost[i]);
  }
  note(example, "get", text);
  if (*channels != 0) note(example, "error", "channels do not begin at 0");
  for (i = 0; i < example->sets && !example->off; ++i)
    cost[example->set[i].algorithm * protocols + example->set[i].protocol] = example->set[i].cost;
  *channels = example->channels;
  return example->get_code;
}

int example_end(void* context) {
  note(context, "end", "");
  free(context);
  return 0;
}
