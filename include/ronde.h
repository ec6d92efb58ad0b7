/* ronde.h - what NCCL's API has no word for: CPU ranks, host streams, and why a call ran as it did.
 *
 * C99 and C++. Everything else is nccl.h. Unless a function says otherwise it may be called from any thread, returns
 * ncclInvalidArgument for a NULL pointer or a handle that is not live, and leaves its text for ncclGetLastError.
 */
#ifndef RONDE_H_
#define RONDE_H_

#include <stddef.h>

#include "nccl.h"

#define RONDE_MAJOR 0
#define RONDE_MINOR 1
#define RONDE_PATCH 0
/** Version as major * 10000 + minor * 100 + patch. */
#define RONDE_VERSION_CODE (RONDE_MAJOR * 10000 + RONDE_MINOR * 100 + RONDE_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/** What runs a rank. */
typedef enum {
  rondeDeviceAuto = 0, /**< a usable GPU where there is one, otherwise the CPU; RONDE_DEVICE overrides */
  rondeDeviceCpu = 1,  /**< the rank's buffers are host memory and its streams are host streams */
  rondeDeviceCuda = 2  /**< the calling thread's current GPU */
} rondeDevice_t;

/** ronde's own version (RONDE_VERSION_CODE of the library that is loaded). */
ncclResult_t rondeGetVersion(int* version);

/** Chooses the device of the ranks that the calling thread initialises from now on; wins over RONDE_DEVICE, unless it is rondeDeviceAuto.
 *  rondeDeviceCuda is ncclInvalidUsage where no GPU can be used. */
ncclResult_t rondeSetDevice(rondeDevice_t device);
/** The device that the calling thread's next rank would get; never rondeDeviceAuto. ncclInvalidUsage, from here as from every init, where
 *  RONDE_DEVICE asks for one that cannot be used. */
ncclResult_t rondeGetDevice(rondeDevice_t* device);
/** The device of a communicator's rank. */
ncclResult_t rondeCommGetDevice(ncclComm_t comm, rondeDevice_t* device);

/** A host stream: calls on it return at once and run in order. Destroy waits for what is queued. The handle is good
 *  for every `stream` argument of a CPU rank, in any communicator of the process. */
ncclResult_t rondeStreamCreate(cudaStream_t* stream);
ncclResult_t rondeStreamDestroy(cudaStream_t stream);
/** Waits for all work queued so far; the calling thread runs what has not been started. Returns the first error of that work,
 *  once. */
ncclResult_t rondeStreamSynchronize(cudaStream_t stream);
/** ncclSuccess when nothing is queued or running, ncclInProgress otherwise, or the first error, once. Never blocks. */
ncclResult_t rondeStreamQuery(cudaStream_t stream);

/** Copies the text of the communicator's first fatal error, or of its last failed call, into `text` (at most `size` bytes with
 *  the final 0); "" where nothing has failed. */
ncclResult_t rondeCommGetLastError(ncclComm_t comm, char* text, size_t size);

/** Names of the calls that rondeExplain knows. */
typedef enum {
  rondeAllReduce = 0,
  rondeBroadcast = 1,
  rondeReduce = 2,
  rondeAllGather = 3,
  rondeReduceScatter = 4,
  rondeAlltoAll = 5,
  rondeGather = 6,
  rondeScatter = 7,
  rondeSend = 8,
  rondeRecv = 9
} rondeCall_t;

/** What ronde would do for a call. Set `size` to sizeof(rondeChoice_t) before the call. */
typedef struct {
  size_t size;
  char algorithm[24]; /**< ring, tree, hd, direct, oneshot, chain, hier, file, message, copy, none */
  char protocol[16];  /**< Simple */
  char transport[24]; /**< inproc, shm, NET/<name of the network>, several of them ("shm+NET/Socket"), self; of GPUs P2P/CUDA, P2P/CUMEM, P2P/IPC,
                           SHM/CUDA */
  int channels;
  size_t sliceBytes;
  double microseconds; /**< estimate of the cost model; below 0 where there is none */
  char reason[256];    /**< one sentence: why this one */
} rondeChoice_t;

/** What would be chosen for a call of `count` elements (counted as that call's argument is) of `type`. `op` and `root` are
 *  ignored where the call has none; `root` is the peer of rondeSend and rondeRecv. */
ncclResult_t rondeExplain(ncclComm_t comm, rondeCall_t call, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                          rondeChoice_t* choice);

/** Forms of rondeExplainAll's text. */
typedef enum {
  rondeText = 0, /**< lines for people */
  rondeJson = 1  /**< one JSON object; docs/tuning.md has its keys */
} rondeForm_t;

/** As rondeExplain, with every algorithm that there is: what the model expects of it, and why it was not chosen. Copies the text, at most `size` bytes
 *  with the final 0, and sets `needed`, unless it is NULL, to the bytes that all of it takes; `text` may be NULL where `size` is 0.
 *  Of a single rank, and of a count of 0, it tells what the model would choose, where rondeExplain says copy or none.
 *  ncclInvalidArgument for rondeSend and rondeRecv, which have no alternatives. */
ncclResult_t rondeExplainAll(ncclComm_t comm, rondeCall_t call, size_t count, ncclDataType_t type, ncclRedOp_t op, int root, rondeForm_t form,
                             char* text, size_t size, size_t* needed);

#ifdef __cplusplus
}
#endif

#endif /* RONDE_H_ */
