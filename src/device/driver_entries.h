// The entry points of CUDA's driver API that are known here: X(name, version suffix, first driver version, parameters). All return CUresult.
// What cuGetProcAddress gives for a name depends on the version that is asked for: with the number here it is the function that has
// these parameters, whatever the driver; dlsym finds the same under name and suffix.
#pragma once

#include "device/driver_abi.h"

// clang-format off: one entry a line.
#define RONDE_CU_START(X) \
  X(cuInit, , 2000, (unsigned)) \
  X(cuDriverGetVersion, , 2020, (int*)) \
  X(cuGetProcAddress, _v2, 12000, (const char*, void**, int, uint64_t, CUdriverProcAddressQueryResult*)) \
  X(cuGetErrorName, , 6000, (CUresult, const char**)) \
  X(cuGetErrorString, , 6000, (CUresult, const char**)) \
  X(cuDeviceGet, , 2000, (CUdevice*, int)) \
  X(cuDeviceGetCount, , 2000, (int*)) \
  X(cuDeviceGetName, , 2000, (char*, int, CUdevice)) \
  X(cuDeviceGetAttribute, , 2000, (int*, CUdevice_attribute, CUdevice)) \
  X(cuDeviceTotalMem, _v2, 3020, (size_t*, CUdevice)) \
  X(cuDeviceGetUuid, , 9020, (CUuuid*, CUdevice)) \
  X(cuDeviceGetUuid, _v2, 11040, (CUuuid*, CUdevice)) \
  X(cuDeviceGetPCIBusId, , 4010, (char*, int, CUdevice)) \
  X(cuDeviceGetByPCIBusId, , 4010, (CUdevice*, const char*)) \
  X(cuDeviceCanAccessPeer, , 4000, (int*, CUdevice, CUdevice)) \
  X(cuDeviceGetP2PAttribute, , 8000, (int*, CUdevice_P2PAttribute, CUdevice, CUdevice))

#define RONDE_CU_CONTEXTS(X) \
  X(cuDevicePrimaryCtxRetain, , 7000, (CUcontext*, CUdevice)) \
  X(cuDevicePrimaryCtxRelease, _v2, 11000, (CUdevice)) \
  X(cuDevicePrimaryCtxReset, _v2, 11000, (CUdevice)) \
  X(cuDevicePrimaryCtxGetState, , 7000, (CUdevice, unsigned*, int*)) \
  X(cuCtxGetCurrent, , 4000, (CUcontext*)) \
  X(cuCtxSetCurrent, , 4000, (CUcontext)) \
  X(cuCtxPushCurrent, _v2, 4000, (CUcontext)) \
  X(cuCtxPopCurrent, _v2, 4000, (CUcontext*)) \
  X(cuCtxGetDevice, , 2000, (CUdevice*)) \
  X(cuCtxGetFlags, , 7000, (unsigned*)) \
  X(cuCtxSynchronize, , 2000, ()) \
  X(cuCtxEnablePeerAccess, , 4000, (CUcontext, unsigned)) \
  X(cuCtxDisablePeerAccess, , 4000, (CUcontext)) \
  X(cuCtxCreate, _v2, 3020, (CUcontext*, unsigned, CUdevice)) \
  X(cuCtxDestroy, _v2, 4000, (CUcontext)) \
  X(cuCtxGetStreamPriorityRange, , 5050, (int*, int*)) \
  X(cuCtxGetLimit, , 3010, (size_t*, CUlimit)) \
  X(cuCtxSetLimit, , 3010, (CUlimit, size_t)) \
  X(cuCtxGetApiVersion, , 3020, (CUcontext, unsigned*))

#define RONDE_CU_MEMORY(X) \
  X(cuMemAlloc, _v2, 3020, (CUdeviceptr*, size_t)) \
  X(cuMemFree, _v2, 3020, (CUdeviceptr)) \
  X(cuMemHostAlloc, , 2020, (void**, size_t, unsigned)) \
  X(cuMemAllocHost, _v2, 3020, (void**, size_t)) \
  X(cuMemFreeHost, , 2000, (void*)) \
  X(cuMemHostGetDevicePointer, _v2, 3020, (CUdeviceptr*, void*, unsigned)) \
  X(cuMemHostGetFlags, , 2030, (unsigned*, void*)) \
  X(cuMemHostRegister, _v2, 6050, (void*, size_t, unsigned)) \
  X(cuMemHostUnregister, , 4000, (void*)) \
  X(cuMemGetInfo, _v2, 3020, (size_t*, size_t*)) \
  X(cuMemGetAddressRange, _v2, 3020, (CUdeviceptr*, size_t*, CUdeviceptr)) \
  X(cuPointerGetAttribute, , 4000, (void*, CUpointer_attribute, CUdeviceptr)) \
  X(cuPointerGetAttributes, , 7000, (unsigned, CUpointer_attribute*, void**, CUdeviceptr))

#define RONDE_CU_COPIES(X) \
  X(cuMemcpy, , 4000, (CUdeviceptr, CUdeviceptr, size_t)) \
  X(cuMemcpyAsync, , 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
  X(cuMemcpyPeer, , 4000, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t)) \
  X(cuMemcpyPeerAsync, , 4000, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
  X(cuMemcpyHtoD, _v2, 3020, (CUdeviceptr, const void*, size_t)) \
  X(cuMemcpyDtoH, _v2, 3020, (void*, CUdeviceptr, size_t)) \
  X(cuMemcpyDtoD, _v2, 3020, (CUdeviceptr, CUdeviceptr, size_t)) \
  X(cuMemcpyHtoDAsync, _v2, 3020, (CUdeviceptr, const void*, size_t, CUstream)) \
  X(cuMemcpyDtoHAsync, _v2, 3020, (void*, CUdeviceptr, size_t, CUstream)) \
  X(cuMemcpyDtoDAsync, _v2, 3020, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
  X(cuMemsetD8, _v2, 3020, (CUdeviceptr, unsigned char, size_t)) \
  X(cuMemsetD16, _v2, 3020, (CUdeviceptr, unsigned short, size_t)) \
  X(cuMemsetD32, _v2, 3020, (CUdeviceptr, unsigned, size_t)) \
  X(cuMemsetD8Async, , 3020, (CUdeviceptr, unsigned char, size_t, CUstream)) \
  X(cuMemsetD16Async, , 3020, (CUdeviceptr, unsigned short, size_t, CUstream)) \
  X(cuMemsetD32Async, , 3020, (CUdeviceptr, unsigned, size_t, CUstream))

#define RONDE_CU_VMM(X) \
  X(cuMemGetAllocationGranularity, , 10020, (size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags)) \
  X(cuMemAddressReserve, , 10020, (CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long)) \
  X(cuMemAddressFree, , 10020, (CUdeviceptr, size_t)) \
  X(cuMemCreate, , 10020, (CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long)) \
  X(cuMemRelease, , 10020, (CUmemGenericAllocationHandle)) \
  X(cuMemMap, , 10020, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long)) \
  X(cuMemUnmap, , 10020, (CUdeviceptr, size_t)) \
  X(cuMemSetAccess, , 10020, (CUdeviceptr, size_t, const CUmemAccessDesc*, size_t)) \
  X(cuMemGetAccess, , 10020, (unsigned long long*, const CUmemLocation*, CUdeviceptr)) \
  X(cuMemExportToShareableHandle, , 10020, (void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType, unsigned long long)) \
  X(cuMemImportFromShareableHandle, , 10020, (CUmemGenericAllocationHandle*, void*, CUmemAllocationHandleType)) \
  X(cuMemRetainAllocationHandle, , 11000, (CUmemGenericAllocationHandle*, void*)) \
  X(cuMemGetAllocationPropertiesFromHandle, , 10020, (CUmemAllocationProp*, CUmemGenericAllocationHandle)) \
  X(cuMemGetHandleForAddressRange, , 11070, (void*, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long))

#define RONDE_CU_IPC(X) \
  X(cuIpcGetMemHandle, , 4010, (CUipcMemHandle*, CUdeviceptr)) \
  X(cuIpcOpenMemHandle, _v2, 11000, (CUdeviceptr*, CUipcMemHandle, unsigned)) \
  X(cuIpcCloseMemHandle, , 4010, (CUdeviceptr))

#define RONDE_CU_STREAMS(X) \
  X(cuStreamCreate, , 2000, (CUstream*, unsigned)) \
  X(cuStreamCreateWithPriority, , 5050, (CUstream*, unsigned, int)) \
  X(cuStreamDestroy, _v2, 4000, (CUstream)) \
  X(cuStreamQuery, , 2000, (CUstream)) \
  X(cuStreamSynchronize, , 2000, (CUstream)) \
  X(cuStreamWaitEvent, , 3020, (CUstream, CUevent, unsigned)) \
  X(cuStreamGetCtx, , 9020, (CUstream, CUcontext*)) \
  X(cuStreamGetFlags, , 5050, (CUstream, unsigned*)) \
  X(cuStreamGetPriority, , 5050, (CUstream, int*)) \
  X(cuStreamGetId, , 12000, (CUstream, unsigned long long*)) \
  X(cuStreamGetDevice, , 12080, (CUstream, CUdevice*)) \
  X(cuStreamWriteValue32, _v2, 11070, (CUstream, CUdeviceptr, uint32_t, unsigned)) \
  X(cuStreamWriteValue64, _v2, 11070, (CUstream, CUdeviceptr, uint64_t, unsigned)) \
  X(cuStreamWaitValue32, _v2, 11070, (CUstream, CUdeviceptr, uint32_t, unsigned)) \
  X(cuStreamWaitValue64, _v2, 11070, (CUstream, CUdeviceptr, uint64_t, unsigned)) \
  X(cuLaunchHostFunc, , 10000, (CUstream, CUhostFn, void*))

#define RONDE_CU_EVENTS(X) \
  X(cuEventCreate, , 2000, (CUevent*, unsigned)) \
  X(cuEventRecord, , 2000, (CUevent, CUstream)) \
  X(cuEventRecordWithFlags, , 11010, (CUevent, CUstream, unsigned)) \
  X(cuEventQuery, , 2000, (CUevent)) \
  X(cuEventSynchronize, , 2000, (CUevent)) \
  X(cuEventElapsedTime, , 2000, (float*, CUevent, CUevent)) \
  X(cuEventElapsedTime, _v2, 12080, (float*, CUevent, CUevent)) \
  X(cuEventDestroy, _v2, 4000, (CUevent))

#define RONDE_CU_MODULES(X) \
  X(cuModuleLoadData, , 2000, (CUmodule*, const void*)) \
  X(cuModuleLoadDataEx, , 2010, (CUmodule*, const void*, unsigned, CUjit_option*, void**)) \
  X(cuModuleLoadFatBinary, , 2000, (CUmodule*, const void*)) \
  X(cuModuleUnload, , 2000, (CUmodule)) \
  X(cuModuleGetFunction, , 2000, (CUfunction*, CUmodule, const char*)) \
  X(cuModuleGetGlobal, _v2, 3020, (CUdeviceptr*, size_t*, CUmodule, const char*)) \
  X(cuLibraryLoadData, , 12000, (CUlibrary*, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned)) \
  X(cuLibraryUnload, , 12000, (CUlibrary)) \
  X(cuLibraryGetKernel, , 12000, (CUkernel*, CUlibrary, const char*)) \
  X(cuLibraryGetModule, , 12000, (CUmodule*, CUlibrary)) \
  X(cuLibraryGetGlobal, , 12000, (CUdeviceptr*, size_t*, CUlibrary, const char*)) \
  X(cuKernelGetFunction, , 12000, (CUfunction*, CUkernel)) \
  X(cuKernelGetName, , 12030, (const char**, CUkernel)) \
  X(cuKernelGetAttribute, , 12000, (int*, CUfunction_attribute, CUkernel, CUdevice)) \
  X(cuKernelSetAttribute, , 12000, (CUfunction_attribute, int, CUkernel, CUdevice)) \
  X(cuFuncGetAttribute, , 2020, (int*, CUfunction_attribute, CUfunction)) \
  X(cuFuncSetAttribute, , 9000, (CUfunction, CUfunction_attribute, int)) \
  X(cuFuncGetModule, , 11000, (CUmodule*, CUfunction)) \
  X(cuFuncGetName, , 12030, (const char**, CUfunction)) \
  X(cuFuncGetParamInfo, , 12040, (CUfunction, size_t, size_t*, size_t*)) \
  X(cuFuncLoad, , 12040, (CUfunction))

#define RONDE_CU_LAUNCHES(X) \
  X(cuLaunchKernel, , 4000, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)) \
  X(cuLaunchKernelEx, , 11060, (const CUlaunchConfig*, CUfunction, void**, void**)) \
  X(cuLaunchCooperativeKernel, , 9000, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**)) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, , 6050, (int*, CUfunction, int, size_t)) \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, , 7000, (int*, CUfunction, int, size_t, unsigned))

#define RONDE_CU_GRAPHS(X) \
  X(cuStreamBeginCapture, _v2, 10010, (CUstream, CUstreamCaptureMode)) \
  X(cuStreamEndCapture, , 10000, (CUstream, CUgraph*)) \
  X(cuStreamIsCapturing, , 10000, (CUstream, CUstreamCaptureStatus*)) \
  X(cuStreamGetCaptureInfo, _v2, 11030, (CUstream, CUstreamCaptureStatus*, uint64_t*, CUgraph*, const CUgraphNode**, size_t*)) \
  X(cuStreamGetCaptureInfo, _v3, 12030, (CUstream, CUstreamCaptureStatus*, uint64_t*, CUgraph*, const CUgraphNode**, const CUgraphEdgeData**, size_t*)) \
  X(cuStreamUpdateCaptureDependencies, , 11030, (CUstream, CUgraphNode*, size_t, unsigned)) \
  X(cuStreamUpdateCaptureDependencies, _v2, 12030, (CUstream, CUgraphNode*, const CUgraphEdgeData*, size_t, unsigned)) \
  X(cuThreadExchangeStreamCaptureMode, , 10010, (CUstreamCaptureMode*)) \
  X(cuGraphCreate, , 10000, (CUgraph*, unsigned)) \
  X(cuGraphDestroy, , 10000, (CUgraph)) \
  X(cuGraphInstantiateWithFlags, , 11040, (CUgraphExec*, CUgraph, unsigned long long)) \
  X(cuGraphLaunch, , 10000, (CUgraphExec, CUstream)) \
  X(cuGraphExecDestroy, , 10000, (CUgraphExec)) \
  X(cuGraphAddKernelNode, _v2, 12000, (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_KERNEL_NODE_PARAMS*)) \
  X(cuGraphAddHostNode, , 10000, (CUgraphNode*, CUgraph, const CUgraphNode*, size_t, const CUDA_HOST_NODE_PARAMS*)) \
  X(cuGraphAddEmptyNode, , 10000, (CUgraphNode*, CUgraph, const CUgraphNode*, size_t)) \
  X(cuGraphGetNodes, , 10000, (CUgraph, CUgraphNode*, size_t*)) \
  X(cuGraphNodeGetType, , 10000, (CUgraphNode, CUgraphNodeType*)) \
  X(cuGraphUpload, , 11010, (CUgraphExec, CUstream)) \
  X(cuUserObjectCreate, , 11030, (CUuserObject*, void*, CUhostFn, unsigned, unsigned)) \
  X(cuUserObjectRetain, , 11030, (CUuserObject, unsigned)) \
  X(cuUserObjectRelease, , 11030, (CUuserObject, unsigned)) \
  X(cuGraphRetainUserObject, , 11030, (CUgraph, CUuserObject, unsigned, unsigned)) \
  X(cuGraphReleaseUserObject, , 11030, (CUgraph, CUuserObject, unsigned))

#define RONDE_CU_MULTICAST(X) \
  X(cuMulticastCreate, , 12010, (CUmemGenericAllocationHandle*, const CUmulticastObjectProp*)) \
  X(cuMulticastAddDevice, , 12010, (CUmemGenericAllocationHandle, CUdevice)) \
  X(cuMulticastBindMem, , 12010, (CUmemGenericAllocationHandle, size_t, CUmemGenericAllocationHandle, size_t, size_t, unsigned long long)) \
  X(cuMulticastBindAddr, , 12010, (CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t, unsigned long long)) \
  X(cuMulticastUnbind, , 12010, (CUmemGenericAllocationHandle, CUdevice, size_t, size_t)) \
  X(cuMulticastGetGranularity, , 12010, (size_t*, const CUmulticastObjectProp*, CUmulticastGranularity_flags))

#define RONDE_CU_ENTRIES(X) \
  RONDE_CU_START(X) RONDE_CU_CONTEXTS(X) RONDE_CU_MEMORY(X) RONDE_CU_COPIES(X) RONDE_CU_VMM(X) RONDE_CU_IPC(X) \
  RONDE_CU_STREAMS(X) RONDE_CU_EVENTS(X) RONDE_CU_MODULES(X) RONDE_CU_LAUNCHES(X) RONDE_CU_GRAPHS(X) RONDE_CU_MULTICAST(X)
// clang-format on
