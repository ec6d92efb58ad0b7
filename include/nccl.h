/* nccl.h - collective communication between the ranks of a job: NCCL's C API (2.28.9) as ronde implements it.
 *
 * Names, numbers and layouts are those of NCCL 2.28.9, so a program built against either header runs with either library.
 * C99 and C++; no CUDA header is needed. ronde.h holds what this API has no word for (CPU ranks, host streams).
 *
 * What holds for every function unless its own text says otherwise:
 *
 * - Return value: ncclSuccess, or another ncclResult_t, and then ncclGetLastError has the text. A NULL pointer, or a communicator
 *   that is not live, is ncclInvalidArgument.
 * - Streams: collectives and messages are put on `stream` and return; they are complete in stream order, and their buffers belong
 *   to the library until then. A rank on a GPU takes a CUDA stream. A rank on the CPU takes a host stream of ronde.h, or NULL (or
 *   CUDA's special handles 1 and 2): with these the call returns when its result is ready, inside a group when the group ends.
 * - Ranks: a communicator has `nranks` ranks, 0 to nranks - 1. All make the same collective calls in the same order; ranks that
 *   differ in call, count, type, operation or root get ncclInvalidUsage. Messages match per pair and direction, in call order.
 * - Counts are in elements of `datatype`. With a count of 0 a collective checks its arguments and moves nothing; a message of 0
 *   elements is a message and has to be matched.
 * - Buffers are aligned to their element; 16 bytes are faster. "In place" means that the two buffers overlap exactly as described
 *   at the function; any other overlap is undefined.
 * - Groups: between ncclGroupStart and ncclGroupEnd calls are collected; they happen, and report their errors, at ncclGroupEnd.
 * - Threads: different threads may use different communicators at the same time. Two threads in one communicator at once are
 *   ncclInvalidUsage; ncclCommAbort, ncclCommRevoke, ncclCommGetAsyncError and ncclGetLastError may be called at any time.
 * - Non-blocking communicators (ncclConfig_t.blocking = 0): calls may return ncclInProgress. Poll ncclCommGetAsyncError until it
 *   says something else before the next call on that communicator, and do not read outputs before.
 * - Interposition: every function `ncclX` is a weak alias of `pncclX`; a profiler may define ncclX and call pncclX.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""

#define NCCL_VERSION_CODE 22809
/** Version code of X.Y.Z, comparable with NCCL_VERSION_CODE: X*1000 + Y*100 + Z up to 2.8, X*10000 + Y*100 + Z since. */
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

/* CUDA's stream type, as CUDA declares it. C11 and C++ allow the repetition; in strict C99 include CUDA's header first. */
#ifndef __DRIVER_TYPES_H__
typedef struct CUstream_st* cudaStream_t;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The struct tags below are NCCL's: they are part of C++ symbol names in other people's libraries. */

/** A communicator: one rank's membership in a group of ranks. Opaque; live from its init until Destroy or Abort. */
typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

/** Memory that was registered by all ranks together. Opaque. */
typedef struct ncclWindow_vidmem* ncclWindow_t;

#define NCCL_UNIQUE_ID_BYTES 128
/** Names one communicator to be made: produced once by ncclGetUniqueId, carried to all ranks as plain bytes by the caller. */
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

/** What a call has to say. After every code from ncclUnhandledCudaError to ncclInternalError, and ncclRemoteError, the
 *  communicator can only be asked (ncclCommGetAsyncError) and ended (ncclCommAbort). */
typedef enum {
  ncclSuccess = 0,            /**< done, or enqueued */
  ncclUnhandledCudaError = 1, /**< a CUDA call failed */
  ncclSystemError = 2,        /**< a call of the operating system failed, out of memory included */
  ncclInternalError = 3,      /**< a defect of the library */
  ncclInvalidArgument = 4,    /**< an argument is out of its range; the call did nothing, the communicator is as before */
  ncclInvalidUsage = 5,       /**< arguments are fine but not now or not together: ranks disagree, wrong order, unsupported */
  ncclRemoteError = 6,        /**< a peer ended, did not come in time, or the communicator was aborted meanwhile */
  ncclInProgress = 7,         /**< not an error: a non-blocking communicator is still at work */
  ncclNumResults = 8          /**< number of codes */
} ncclResult_t;

/* ---- Communicators ---- */

/** Value of a number in ncclConfig_t, of a pointer in it, and of a time, that nobody set. */
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f

/** Color of a rank that joins no child of ncclCommSplit. */
#define NCCL_SPLIT_NOCOLOR -1

/** ncclConfig_t.CTAPolicy: bits. */
#define NCCL_CTA_POLICY_DEFAULT 0x00    /**< as many thread blocks as the fastest result takes */
#define NCCL_CTA_POLICY_EFFICIENCY 0x01 /**< fewer where the loss of speed is small */
#define NCCL_CTA_POLICY_ZERO 0x02       /**< none where copy engines can do the work */

/** Flags of ncclCommShrink. */
#define NCCL_SHRINK_DEFAULT 0x00 /**< the parent is healthy and stays usable */
#define NCCL_SHRINK_ABORT 0x01   /**< what runs in the parent is aborted first */

/** The only flag of ncclCommRevoke. */
#define NCCL_REVOKE_DEFAULT 0x00

/** Flags of ncclCommWindowRegister, and the alignment of the buffer that it takes, in bytes. */
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01 /**< every rank will use the window at the same offset in a call */
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

/** Settings of one communicator. Start from NCCL_CONFIG_INITIALIZER and assign fields; the rest is chosen by the library.
 *  Environment variables win over fields. A structure of any older release is accepted (size and version say which). A value out
 *  of its range is ncclInvalidArgument. */
typedef struct ncclConfig_v22800 {
  size_t size;             /**< set by the initializer: sizeof of the caller's structure */
  unsigned int magic;      /**< set by the initializer */
  unsigned int version;    /**< set by the initializer: NCCL_VERSION_CODE of the caller's header */
  int blocking;            /**< 1 (default): calls return when done; 0: calls may return ncclInProgress */
  int cgaClusterSize;      /**< thread blocks per cluster, 0 or more */
  int minCTAs;             /**< fewest channels, above 0; needs maxCTAs. NCCL_MIN_NCHANNELS and NCCL_MIN_CTAS win */
  int maxCTAs;             /**< most channels, at least minCTAs. NCCL_MAX_NCHANNELS and NCCL_MAX_CTAS win */
  const char* netName;     /**< network to use, as its plugin calls itself; NULL: choose. Copied by the call */
  int splitShare;          /**< 1: children of ncclCommSplit share the parent's resources; 0 (default) */
  int trafficClass;        /**< traffic class of network connections, as the network counts it */
  const char* commName;    /**< name in logs; NULL: none. Copied by the call */
  int collnetEnable;       /**< 1: reductions in the network; 0 (default) */
  int CTAPolicy;           /**< NCCL_CTA_POLICY_ bits, 0 to 3 */
  int shrinkShare;         /**< 1: children of ncclCommShrink share the parent's resources; 0 (default) */
  int nvlsCTAs;            /**< thread blocks of NVLink SHARP kernels, above 0 */
  int nChannelsPerNetPeer; /**< channels of a pair of ranks across the network, 1 to 64 */
  int nvlinkCentricSched;  /**< 1: schedule for NVLink first; 0 (default) */
} ncclConfig_t;

/* clang-format off */
/** An ncclConfig_t in which nothing is set. */
#define NCCL_CONFIG_INITIALIZER {                                                               \
  sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),           \
  NCCL_CONFIG_UNDEF_INT /* blocking */, NCCL_CONFIG_UNDEF_INT /* cgaClusterSize */,             \
  NCCL_CONFIG_UNDEF_INT /* minCTAs */, NCCL_CONFIG_UNDEF_INT /* maxCTAs */,                     \
  NCCL_CONFIG_UNDEF_PTR /* netName */, NCCL_CONFIG_UNDEF_INT /* splitShare */,                  \
  NCCL_CONFIG_UNDEF_INT /* trafficClass */, NCCL_CONFIG_UNDEF_PTR /* commName */,               \
  NCCL_CONFIG_UNDEF_INT /* collnetEnable */, NCCL_CONFIG_UNDEF_INT /* CTAPolicy */,             \
  NCCL_CONFIG_UNDEF_INT /* shrinkShare */, NCCL_CONFIG_UNDEF_INT /* nvlsCTAs */,                \
  NCCL_CONFIG_UNDEF_INT /* nChannelsPerNetPeer */, NCCL_CONFIG_UNDEF_INT /* nvlinkCentricSched */ }
/* clang-format on */

/** Estimate of a group: see ncclGroupSimulateEnd. Start from NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_v22200 {
  size_t size;          /**< set by the initializer */
  unsigned int magic;   /**< set by the initializer */
  unsigned int version; /**< set by the initializer */
  float estimatedTime;  /**< microseconds; -1 before the call */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER \
  { sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_UNDEF_FLOAT }

/** Version code of the library that is loaded (not of this header). */
ncclResult_t ncclGetVersion(int* version);
ncclResult_t pncclGetVersion(int* version);

/** Makes the id of one communicator, on one rank, which then answers the others: it has to take part in the init or outlive it.
 *  With NCCL_COMM_ID the id is that address instead. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);
ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId);

/** Joins the communicator of `commId` as `rank` of `nranks`, with the settings of `config` (NULL: none). Returns when all ranks
 *  have come; *comm is NULL until then. A thread that makes several ranks calls this for each inside one group. On a GPU the rank
 *  belongs to the thread's current device. ncclInvalidArgument: nranks < 1, rank outside 0..nranks-1, a bad config.
 *  ncclInvalidUsage: the ranks disagree on nranks, a rank came twice, or library versions differ. ncclRemoteError: not everyone
 *  came in time, or one ended. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config);
ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config);

/** ncclCommInitRankConfig without settings. */
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);

/** ncclCommInitRankConfig with `nId` ids (1 to nranks, the same in the same order on every rank) that share the work of bringing
 *  the ranks together. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                      ncclConfig_t* config);
ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                       ncclConfig_t* config);

/** Makes a communicator of `ndev` ranks that all live in this process: comms[0..ndev-1], rank i on devlist[i] (NULL: device i).
 *  On the CPU the device numbers are checked and else ignored. ncclInvalidArgument: ndev < 1 or no such device. ncclInvalidUsage:
 *  a device twice. */
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist);
ncclResult_t pncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist);

/** Finishes what the communicator has to do with its peers, so that Destroy is local. Called by all ranks. A non-blocking communicator
 *  returns ncclInProgress while something is left; ncclCommGetAsyncError says when it is done. NULL is ncclSuccess; a second call is
 *  ncclInvalidArgument; after ncclCommRevoke it is ncclInvalidUsage. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommFinalize(ncclComm_t comm);

/** Frees the communicator, finalizing it first where that was not done. The handle is dead afterwards. On a communicator that has
 *  failed this is ncclCommAbort. NULL is ncclSuccess. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);

/** Ends everything that runs in the communicator and frees it. Local: needs no peer, returns in bounded time, callable from any
 *  thread; calls that it interrupts return ncclRemoteError. NULL is ncclSuccess. */
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);

/** Ends everything that runs in the communicator but keeps it, so that it can be split, shrunk, destroyed or aborted; other calls
 *  are ncclInvalidUsage. Local; callable from any thread. `flags` is NCCL_REVOKE_DEFAULT. NULL is ncclSuccess. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags);

/** Divides a communicator: ranks with the same `color` (0 or more) form a child, ordered by `key`, then by their rank in `comm`.
 *  A rank with NCCL_SPLIT_NOCOLOR gets NULL. Called by all ranks of `comm`, with nothing of it unfinished. config NULL: the
 *  parent's settings. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config);

/** Makes a communicator without the `excludeRanksCount` (above 0) ranks in excludeRanksList, in the old order. Called by the
 *  ranks that stay, and only by them: a caller in the list is ncclInvalidArgument. shrinkFlags: NCCL_SHRINK_DEFAULT or, after an
 *  error, NCCL_SHRINK_ABORT. config NULL: the parent's settings. */
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                            ncclConfig_t* config, int shrinkFlags);
ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
                             ncclConfig_t* config, int shrinkFlags);

/** The state of the communicator into *asyncError: ncclSuccess, ncclInProgress (non-blocking work goes on), or the first error of
 *  what was enqueued or of a peer. Does not block. */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);

/** What a code means in general; never NULL, static. */
const char* ncclGetErrorString(ncclResult_t result);
const char* pncclGetErrorString(ncclResult_t result);

/** Text of the process's last failure or warning ("" before the first). `comm` is ignored and may be NULL. Never NULL; the text
 *  is the calling thread's copy (at most 1023 bytes), good until the thread's next call of this function. */
const char* ncclGetLastError(ncclComm_t comm);
const char* pncclGetLastError(ncclComm_t comm);

/** Reads the settings of the log (NCCL_DEBUG and its kin) again at the next line. Kept for old programs. */
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

/** Number of ranks. */
ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t pncclCommCount(const ncclComm_t comm, int* count);

/** The CUDA device of this rank; on the CPU the rank itself, whatever devlist ncclCommInitAll was given. */
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device);

/** This rank. */
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank);

/* ---- Memory ---- */

/** Allocates `size` bytes that peers can reach without a copy: device memory, or shared memory for ranks on the CPU. */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);
ncclResult_t pncclMemAlloc(void** ptr, size_t size);

/** Frees what ncclMemAlloc returned. NULL is ncclSuccess. Nothing enqueued may still use it. */
ncclResult_t ncclMemFree(void* ptr);
ncclResult_t pncclMemFree(void* ptr);

/** Announces a buffer of `size` bytes that will be used often. Local. *handle is NULL, with ncclSuccess, where registration
 *  brings nothing. The buffer has to live until ncclCommDeregister. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);

/** Takes an announcement back. A NULL handle is ncclSuccess, an unknown one ncclInvalidUsage. */
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle);

/** Makes a window of a buffer of every rank; called by all. `winFlags`: NCCL_WIN_ bits. *win is NULL, with ncclSuccess, where
 *  windows are not supported. buff NULL or size 0 is ncclInvalidArgument. */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags);

/** Ends a window; local. A NULL window is ncclSuccess. */
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/* ---- Reductions and types ---- */

/** Only says that the next type is as wide as any enumeration of this header: an int. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;

/** A reduction: one of the built-in five, or a handle of ncclRedOpCreatePreMulSum. Holds any positive int. */
typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2, /**< NaN wins */
  ncclMin = 3, /**< NaN wins */
  ncclAvg = 4, /**< the sum divided by the number of ranks; integers truncate towards zero */
  ncclNumOps = 5,
  ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

/** The type of an element. */
typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/** Where the scalar of a reduction is, and when it is read. */
typedef enum {
  ncclScalarDevice = 0,       /**< in memory of the device; read when the collective runs */
  ncclScalarHostImmediate = 1 /**< in host memory; read before the creating call returns */
} ncclScalarResidence_t;

/** Makes the reduction "multiply each input by *scalar, then sum" for `comm`. `scalar` points to one element of `datatype`, which
 *  the collectives that use *op have to have too. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                                      ncclComm_t comm);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
                                       ncclComm_t comm);

/** Ends a reduction made for `comm`, as soon as the last call that uses it has returned. A built-in or unknown one is
 *  ncclInvalidArgument. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- Collectives ---- */

/** Reduces sendbuff[count] of all ranks into recvbuff[count] of rank `root`; the others' recvbuff is not used and may be NULL.
 *  In place: sendbuff == recvbuff at the root. */
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
                         ncclComm_t comm, cudaStream_t stream);

/** Copies buff[count] of rank `root` into buff[count] of all others: ncclBroadcast in place. */
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);

/** Copies sendbuff[count] of rank `root` into recvbuff[count] of every rank, the root included; the others' sendbuff is not used
 *  and may be NULL. In place: sendbuff == recvbuff. */
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                            ncclComm_t comm, cudaStream_t stream);

/** Reduces sendbuff[count] of all ranks into recvbuff[count] of every rank; all get the same bits. In place: sendbuff ==
 *  recvbuff. */
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream);

/** Reduces sendbuff[nranks * recvcount] of all ranks and leaves block r of the result in recvbuff[recvcount] of rank r.
 *  In place: recvbuff == sendbuff + rank * recvcount elements. */
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream);

/** Gathers sendbuff[sendcount] of all ranks, in rank order, into recvbuff[nranks * sendcount] of every rank.
 *  In place: sendbuff == recvbuff + rank * sendcount elements. */
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
                            cudaStream_t stream);

/** Moves block r (count elements) of sendbuff[nranks * count] to rank r, which has it as block `rank of the sender` of
 *  recvbuff[nranks * count]. Not in place. */
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream);
ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                           cudaStream_t stream);

/** Gathers sendbuff[count] of all ranks, in rank order, into recvbuff[nranks * count] of rank `root`; the others' recvbuff is not
 *  used and may be NULL. In place: at the root sendbuff == recvbuff + root * count elements. */
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                         cudaStream_t stream);

/** Moves block r (count elements) of sendbuff[nranks * count] of rank `root` into recvbuff[count] of rank r; the others' sendbuff
 *  is not used and may be NULL. In place: at the root recvbuff == sendbuff + root * count elements. */
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                         cudaStream_t stream);
ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                          cudaStream_t stream);

/* ---- Messages ---- */

/** Sends sendbuff[count] to rank `peer`, which calls ncclRecv with the same count and type. Messages that need each other go into
 *  one group; a message to oneself needs its ncclRecv in the same group (otherwise ncclInvalidUsage). On a host thread with
 *  stream NULL a small message returns once copied. */
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream);

/** Receives recvbuff[count] from rank `peer`, which calls ncclSend with the same count and type. */
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream);

/* ---- Groups ---- */

/** Opens a group of the calling thread. Groups nest; only the outermost end acts. */
ncclResult_t ncclGroupStart(void);
ncclResult_t pncclGroupStart(void);

/** Closes a group: everything in it starts together and makes progress together, whatever communicators and streams it uses. If
 *  any call of the group failed, nothing of it happens and that call's code is returned. Blocking and non-blocking communicators
 *  do not mix (ncclInvalidArgument). Without a start: ncclInvalidUsage. ncclInProgress: poll the non-blocking communicators
 *  before their streams are used. */
ncclResult_t ncclGroupEnd(void);
ncclResult_t pncclGroupEnd(void);

/** Closes a group without doing it, and sets simInfo->estimatedTime to the time that it would take, in microseconds. simInfo may
 *  be NULL. ncclInvalidArgument where NCCL_SIM_INFO_INITIALIZER did not make it: the group is closed all the same. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

#ifdef __cplusplus
}
#endif

#endif /* NCCL_H_ */
