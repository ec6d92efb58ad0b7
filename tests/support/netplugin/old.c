/* A version that is too old. */
const struct {
  const char* name;
  int (*functions[24])(void);
} ncclNetPlugin_v5 = {"Old", {0}};
