// Memory that peers can map: what alloc_shareable has made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"

namespace ronde {

struct Region {
  uint32_t id = 0;   ///< never 0, never used twice in a process
  size_t bytes = 0;  ///< whole pages
  UniqueFd fd;
  Mapping memory;
};

/// The region that holds [data, data+bytes) entirely and where in it `data` is; nullptr where there is none. Thread-safe.
std::shared_ptr<Region> find_region(const void* data, size_t bytes, uint64_t* offset);

}  // namespace ronde
