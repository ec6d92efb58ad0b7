// What the parts of Memory share.
#pragma once

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "gpu-emulator/memory.h"

namespace emu {

enum class MemoryKind : uint8_t { plain, shared_in, own_host, enrolled, mapped };

inline size_t whole_pages(size_t bytes) { return (bytes + ronde::page_size() - 1) & ~(ronde::page_size() - 1); }

inline void* pointer_to(uint64_t address) { return reinterpret_cast<void*>(address); }
inline uint64_t address_of(const void* at) { return reinterpret_cast<uint64_t>(at); }

/// Addresses that nobody may touch.
inline Result<uint64_t> reserve_addresses(size_t bytes, void* hint = nullptr) {
  void* at = mmap(hint, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return ronde::system_failure(errno, fmt::format("reserving {} bytes of addresses for emulated GPUs", bytes),
                                 "raise `ulimit -v`, or lower RONDE_EMU_MEMORY");
  }
  return address_of(at);
}

/// Memory that was taken from kernels keeps its second address, as pages of nobody: a kernel that is just touching it shall be
/// found by its next lookup, not end the process.
inline void retire(std::byte* shadow, size_t bytes) {
  mmap(shadow, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

inline void forbid(uint64_t address, size_t bytes) {
  mmap(pointer_to(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

struct Memory::Owned {
  Allocation facts;
  MemoryKind kind = MemoryKind::plain;
  int fd = -1;          // mapped: borrowed, for the host's own access
  uint64_t offset = 0;  // plain: in the window; mapped: in the descriptor
};

/// Offsets into one memfd that is mapped once for the interpreter. Twice the capacity, so that freed memory is not soon given out
/// again.
struct Memory::Window {
  ronde::UniqueFd fd;
  ronde::Mapping shadow;
  uint64_t base = 0;
  size_t bytes = 0;
  std::map<uint64_t, size_t> gaps;  // offset and bytes of what is free
  uint64_t cursor = 0;
  size_t used = 0;
  uint64_t peers = 0;

  ~Window() {
    if (base != 0) munmap(pointer_to(base), bytes);
  }

  /// First fit from the cursor on, then from the start; `bytes`: there is no room.
  uint64_t take(size_t length) {
    for (const uint64_t least : {cursor, uint64_t{0}}) {
      for (auto it = gaps.begin(); it != gaps.end(); ++it) {
        const uint64_t first = it->first;
        const uint64_t last = first + it->second;
        const uint64_t offset = std::max(first, least);
        if (offset > last || last - offset < length) continue;
        gaps.erase(it);
        if (offset > first) gaps[first] = offset - first;
        if (last > offset + length) gaps[offset + length] = last - offset - length;
        cursor = offset + length;
        return offset;
      }
    }
    return bytes;
  }

  void give(uint64_t offset, size_t length) {
    auto next = gaps.lower_bound(offset);
    if (next != gaps.end() && next->first == offset + length) {
      length += next->second;
      next = gaps.erase(next);
    }
    if (next != gaps.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += length;
        return;
      }
    }
    gaps[offset] = length;
  }
};

}  // namespace emu
