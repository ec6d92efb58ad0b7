// What can be asked without a communicator: versions and texts.
#include "api/border.h"
#include "api/export.h"
#include "api/last_error.h"
#include "base/log.h"
#include "nccl.h"
#include "ronde.h"

using ronde::border;
using ronde::Done;
using ronde::require_pointer;
using ronde::Result;

RONDE_API(ncclResult_t, ncclGetVersion, (int* version)) {
  return border("GetVersion", [&]() -> Result<> {
    RONDE_TRY(require_pointer(version, "version"));
    *version = NCCL_VERSION_CODE;
    return Done{};
  });
}

RONDE_EXTENSION(ncclResult_t, rondeGetVersion, (int* version)) {
  return border("rondeGetVersion", [&]() -> Result<> {
    RONDE_TRY(require_pointer(version, "version"));
    *version = RONDE_VERSION_CODE;
    return Done{};
  });
}

// The texts are NCCL's: programs and their tests compare them.
RONDE_API(const char*, ncclGetErrorString, (ncclResult_t result)) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}

RONDE_API(const char*, ncclGetLastError, (ncclComm_t)) { return ronde::last_error(); }

RONDE_API(void, ncclResetDebugInit, (void)) { ronde::log_reset(); }

// Exported by NCCL without a declaration or a twin; old binaries may hold a reference to it.
RONDE_EXTENSION(void, ncclResetDebugInitInternal, (void)) { ronde::log_reset(); }
