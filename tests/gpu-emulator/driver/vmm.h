// Memory apart from addresses: what cuMemCreate makes, other processes' of it, and multicast objects.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "gpu-emulator/driver/driver.h"

namespace emu::driver {

struct Multicast;

/// A piece of memory with a handle; gone with the last handle and mapping.
struct Chunk {
  size_t bytes = 0;
  int device = kHost;
  CUmemLocation location{};
  unsigned long long handle_types = 0;
  ronde::UniqueFd fd;
  bool counted = false;                  ///< in the device's use of memory
  std::shared_ptr<Multicast> multicast;  ///< of an object that has no memory of its own
  ~Chunk();
};

constexpr size_t kGranularity = size_t{2} << 20;

/// The memory that is mapped at an address; nullptr: none.
std::shared_ptr<Chunk> mapped_chunk(uint64_t address);

}  // namespace emu::driver
