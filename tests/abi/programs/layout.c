/* Prints every number and offset of nccl.h, and in C++ the types of its functions. Built against our header and, where there is
 * one, against NCCL's. */
#include <nccl.h>
#include <stddef.h>
#include <stdio.h>
#ifdef __cplusplus
#include <typeinfo>
#define SIGNATURE(f) printf("%s %s\n", #f, typeid(&f).name()), printf("p%s %s\n", #f, typeid(&p##f).name())
#endif

#define NUMBER(x) printf("%s %.0f\n", #x, (double)(x))
#define SIZE(T) printf("sizeof %s %d\n", #T, (int)sizeof(T))
#define FIELD(T, f) printf("%s.%s offset %d size %d\n", #T, #f, (int)offsetof(T, f), (int)sizeof(((T*)0)->f))

static void constants(void) {
  NUMBER(NCCL_MAJOR), NUMBER(NCCL_MINOR), NUMBER(NCCL_PATCH), NUMBER(NCCL_VERSION_CODE), NUMBER(sizeof(NCCL_SUFFIX));
  NUMBER(NCCL_VERSION(2, 8, 4)), NUMBER(NCCL_VERSION(2, 28, 9));
  NUMBER(NCCL_UNIQUE_ID_BYTES), NUMBER(NCCL_CONFIG_UNDEF_INT), NUMBER(NCCL_UNDEF_FLOAT), NUMBER(NCCL_SPLIT_NOCOLOR);
  NUMBER(NCCL_CONFIG_UNDEF_PTR == NULL), NUMBER(NCCL_COMM_NULL == NULL);
  NUMBER(NCCL_CTA_POLICY_DEFAULT), NUMBER(NCCL_CTA_POLICY_EFFICIENCY), NUMBER(NCCL_CTA_POLICY_ZERO);
  NUMBER(NCCL_SHRINK_DEFAULT), NUMBER(NCCL_SHRINK_ABORT), NUMBER(NCCL_REVOKE_DEFAULT);
  NUMBER(NCCL_WIN_DEFAULT), NUMBER(NCCL_WIN_COLL_SYMMETRIC), NUMBER(NCCL_WIN_REQUIRED_ALIGNMENT);
}

static void enumerations(void) {
  NUMBER(ncclSuccess), NUMBER(ncclUnhandledCudaError), NUMBER(ncclSystemError), NUMBER(ncclInternalError);
  NUMBER(ncclInvalidArgument), NUMBER(ncclInvalidUsage), NUMBER(ncclRemoteError), NUMBER(ncclInProgress), NUMBER(ncclNumResults);
  NUMBER(ncclInt8), NUMBER(ncclChar), NUMBER(ncclUint8), NUMBER(ncclInt32), NUMBER(ncclInt), NUMBER(ncclUint32),
      NUMBER(ncclInt64);
  NUMBER(ncclUint64), NUMBER(ncclFloat16), NUMBER(ncclHalf), NUMBER(ncclFloat32), NUMBER(ncclFloat), NUMBER(ncclFloat64);
  NUMBER(ncclDouble), NUMBER(ncclBfloat16), NUMBER(ncclFloat8e4m3), NUMBER(ncclFloat8e5m2), NUMBER(ncclNumTypes);
  NUMBER(ncclSum), NUMBER(ncclProd), NUMBER(ncclMax), NUMBER(ncclMin), NUMBER(ncclAvg), NUMBER(ncclNumOps), NUMBER(ncclMaxRedOp);
  NUMBER(ncclNumOps_dummy), NUMBER(ncclScalarDevice), NUMBER(ncclScalarHostImmediate);
  SIZE(ncclResult_t), SIZE(ncclDataType_t), SIZE(ncclRedOp_t), SIZE(ncclRedOp_dummy_t), SIZE(ncclScalarResidence_t);
}

static void structures(void) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
  SIZE(ncclComm_t), SIZE(ncclWindow_t), SIZE(cudaStream_t), SIZE(ncclUniqueId), SIZE(ncclConfig_t), SIZE(ncclSimInfo_t);
  FIELD(ncclUniqueId, internal);
  FIELD(ncclConfig_t, size), FIELD(ncclConfig_t, magic), FIELD(ncclConfig_t, version), FIELD(ncclConfig_t, blocking);
  FIELD(ncclConfig_t, cgaClusterSize), FIELD(ncclConfig_t, minCTAs), FIELD(ncclConfig_t, maxCTAs), FIELD(ncclConfig_t, netName);
  FIELD(ncclConfig_t, splitShare), FIELD(ncclConfig_t, trafficClass), FIELD(ncclConfig_t, commName);
  FIELD(ncclConfig_t, collnetEnable), FIELD(ncclConfig_t, CTAPolicy), FIELD(ncclConfig_t, shrinkShare);
  FIELD(ncclConfig_t, nvlsCTAs), FIELD(ncclConfig_t, nChannelsPerNetPeer), FIELD(ncclConfig_t, nvlinkCentricSched);
  NUMBER(config.size), NUMBER(config.magic), NUMBER(config.version), NUMBER(config.blocking), NUMBER(config.cgaClusterSize);
  NUMBER(config.minCTAs), NUMBER(config.maxCTAs), NUMBER(config.netName == NULL), NUMBER(config.splitShare);
  NUMBER(config.trafficClass), NUMBER(config.commName == NULL), NUMBER(config.collnetEnable), NUMBER(config.CTAPolicy);
  NUMBER(config.shrinkShare), NUMBER(config.nvlsCTAs), NUMBER(config.nChannelsPerNetPeer), NUMBER(config.nvlinkCentricSched);
  FIELD(ncclSimInfo_t, size), FIELD(ncclSimInfo_t, magic), FIELD(ncclSimInfo_t, version), FIELD(ncclSimInfo_t, estimatedTime);
  NUMBER(sim.size), NUMBER(sim.magic), NUMBER(sim.version), NUMBER(sim.estimatedTime);
}

#ifdef __cplusplus
static void signatures(void) {
  SIGNATURE(ncclGetVersion), SIGNATURE(ncclGetUniqueId), SIGNATURE(ncclCommInitRankConfig), SIGNATURE(ncclCommInitRank);
  SIGNATURE(ncclCommInitRankScalable), SIGNATURE(ncclCommInitAll), SIGNATURE(ncclCommFinalize), SIGNATURE(ncclCommDestroy);
  SIGNATURE(ncclCommAbort), SIGNATURE(ncclCommRevoke), SIGNATURE(ncclCommSplit), SIGNATURE(ncclCommShrink);
  SIGNATURE(ncclCommGetAsyncError), SIGNATURE(ncclGetErrorString), SIGNATURE(ncclGetLastError), SIGNATURE(ncclResetDebugInit);
  SIGNATURE(ncclCommCount), SIGNATURE(ncclCommCuDevice), SIGNATURE(ncclCommUserRank), SIGNATURE(ncclMemAlloc);
  SIGNATURE(ncclMemFree), SIGNATURE(ncclCommRegister), SIGNATURE(ncclCommDeregister), SIGNATURE(ncclCommWindowRegister);
  SIGNATURE(ncclCommWindowDeregister), SIGNATURE(ncclRedOpCreatePreMulSum), SIGNATURE(ncclRedOpDestroy), SIGNATURE(ncclReduce);
  SIGNATURE(ncclBcast), SIGNATURE(ncclBroadcast), SIGNATURE(ncclAllReduce), SIGNATURE(ncclReduceScatter),
      SIGNATURE(ncclAllGather);
  SIGNATURE(ncclAlltoAll), SIGNATURE(ncclGather), SIGNATURE(ncclScatter), SIGNATURE(ncclSend), SIGNATURE(ncclRecv);
  SIGNATURE(ncclGroupStart), SIGNATURE(ncclGroupEnd), SIGNATURE(ncclGroupSimulateEnd);
}
#endif

int main(void) {
  constants();
  enumerations();
  structures();
#ifdef __cplusplus
  signatures();
#endif
  return 0;
}
