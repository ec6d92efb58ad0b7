#include <nccl.h>
static cudaStream_t before;

#include <cuda_runtime.h>
static cudaStream_t* after = &before;

int main(void) { return *after != NULL; }
