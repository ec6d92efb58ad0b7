#include <cuda_runtime.h>
#include <nccl.h>

static cudaStream_t stream;

int main(void) { return stream != NULL; }
