/* A program that knows nccl.h alone. Prints what the library says of itself and how it takes a call without a communicator. */
#include <nccl.h>
#include <stdio.h>

int main(void) {
  int version = 0;
  const ncclResult_t asked = ncclGetVersion(&version);
  const ncclResult_t reduced = ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL);
  printf("version %d %d allreduce %d %s\n", (int)asked, version, (int)reduced, ncclGetErrorString(reduced));
  return 0;
}
