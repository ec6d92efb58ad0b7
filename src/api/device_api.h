// The host functions of NCCL's device-side API, which NCCL declares in nccl_device.h. ronde has no device-side API: they are
// exported so that a program which mentions them can be loaded, and all of them say so. Structures are known to NCCL's header
// alone and stay opaque.
#pragma once

#include "nccl.h"

extern "C" {

/// Returned in registers, so the layout matters: ranks of the team, this rank in it, distance of neighbours in the communicator.
struct ncclTeam {
  int nRanks, rank, stride;
};
typedef struct ncclTeam ncclTeam_t;

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void* requirements, void* devComm);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const void* devComm);

ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int nBarriers, void* handle, void* requirements);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nBarriers, void* handle, void* requirements);
int ncclLLA2ACalcSlots(int maxElts, int maxEltSize);
ncclResult_t ncclLLA2ACreateRequirement(int nBlocks, int nSlots, void* handle, void* requirements);
}
