/* A structure without functions. */
const struct {
  const char* name;
  int (*functions[24])(void);
} ncclNetPlugin_v10 = {"Incomplete", {0}};
