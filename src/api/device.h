// The device of the ranks that a thread makes.
#pragma once

#include <optional>

#include "base/result.h"

namespace ronde {

/// The GPU of the calling thread's next rank: its current one; nothing: a CPU rank. The thread's choice (rondeSetDevice) wins over RONDE_DEVICE.
/// invalid_usage, naming who asked for it, where that is a GPU and none can be used.
Result<std::optional<int>> gpu_of_next_rank();

}  // namespace ronde
