// The device of the ranks that a thread makes.
#pragma once

#include "base/result.h"

namespace ronde {

/// invalid_usage, naming who asked for it, where the calling thread's next rank would get a device that this version does not have. The thread's
/// choice (rondeSetDevice) wins over RONDE_DEVICE.
Result<> check_device();

}  // namespace ronde
