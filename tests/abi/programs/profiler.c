/* A profiler: puts itself in front of ncclAllReduce and passes the call on. */
#include <nccl.h>
#include <stdio.h>

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  printf("seen %d\n", (int)count);
  return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}
