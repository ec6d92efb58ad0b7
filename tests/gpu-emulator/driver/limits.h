// What a multiprocessor of the emulated GPUs has, whatever their compute capability.
#pragma once

namespace emu::driver {

constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kRegistersPerMultiprocessor = 65536;
constexpr int kBlocksPerMultiprocessor = 32;
constexpr int kSharedPerMultiprocessor = 228 << 10;
constexpr int kSharedBytes = 48 << 10;        ///< of a block, without asking for more
constexpr int kSharedBytesOptIn = 227 << 10;  ///< of a block
constexpr int kSharedReserved = 1 << 10;      ///< taken from each block by the system

}  // namespace emu::driver
