// The layout of a queue in device memory, as its maker on the host and the kernels know it.
#pragma once

#include <cstdint>

namespace ronde::gpu {

/// Bytes of a queue before its first slot: its tail, alone on its cache lines.
inline constexpr uint64_t kQueueHead = 128;
/// Bytes of a slot before its data.
inline constexpr uint64_t kSlotHead = 64;

}  // namespace ronde::gpu
