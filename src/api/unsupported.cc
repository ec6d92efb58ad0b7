// The functions that cannot do their work: all belong to NCCL's device-side API.
#include "api/border.h"
#include "api/device_api.h"
#include "api/export.h"

namespace {

ncclResult_t unsupported(std::string_view call) {
  return ronde::border(call, []() -> ronde::Result<> {
    return ronde::fail(
        ronde::Code::invalid_usage,
        "ronde has no device-side API: kernels cannot communicate by themselves; call collectives from the host instead");
  });
}

// What cannot return a code: a team without ranks, a rank or a count that is none. The last error has the text.
ncclTeam_t no_team(std::string_view call) {
  unsupported(call);
  return {0, 0, 0};
}

int no_number(std::string_view call) {
  unsupported(call);
  return -1;
}

}  // namespace

RONDE_API(ncclResult_t, ncclDevCommCreate, (ncclComm_t, const void*, void*)) { return unsupported("DevCommCreate"); }
RONDE_API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t, const void*)) { return unsupported("DevCommDestroy"); }

RONDE_API(ncclTeam_t, ncclTeamWorld, (ncclComm_t)) { return no_team("TeamWorld"); }
RONDE_API(ncclTeam_t, ncclTeamLsa, (ncclComm_t)) { return no_team("TeamLsa"); }
RONDE_API(ncclTeam_t, ncclTeamRail, (ncclComm_t)) { return no_team("TeamRail"); }
RONDE_API(int, ncclTeamRankToWorld, (ncclComm_t, ncclTeam_t, int)) { return no_number("TeamRankToWorld"); }
RONDE_API(int, ncclTeamRankToLsa, (ncclComm_t, ncclTeam_t, int)) { return no_number("TeamRankToLsa"); }

RONDE_API(ncclResult_t, ncclLsaBarrierCreateRequirement, (ncclTeam_t, int, void*, void*)) {
  return unsupported("LsaBarrierCreateRequirement");
}
RONDE_API(ncclResult_t, ncclGinBarrierCreateRequirement, (ncclComm_t, ncclTeam_t, int, void*, void*)) {
  return unsupported("GinBarrierCreateRequirement");
}
RONDE_API(int, ncclLLA2ACalcSlots, (int, int)) { return no_number("LLA2ACalcSlots"); }
RONDE_API(ncclResult_t, ncclLLA2ACreateRequirement, (int, int, void*, void*)) { return unsupported("LLA2ACreateRequirement"); }
