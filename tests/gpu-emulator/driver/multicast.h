// Multicast objects: one address for a copy of memory on each of several devices, which may belong to several processes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "gpu-emulator/driver/vmm.h"

namespace emu::driver {

/// What all processes see of an object: it lies in the object's own memfd.
struct MulticastTable {
  struct Binding {
    std::atomic<int> bound;  ///< set last
    int device;
    int pid;  ///< and descriptor there: the memory
    int fd;
    uint64_t memory_offset;
    uint64_t offset;
    uint64_t bytes;
  };
  static constexpr size_t kBindings = 1024;
  int devices;                  ///< that must be added
  std::atomic<uint64_t> added;  ///< bit d: device d is
  std::atomic<uint32_t> bindings;
  Binding binding[kBindings];
};

struct Multicast {
  ronde::Mapping file;
  MulticastTable* table = nullptr;
  size_t bytes = 0;
  std::mutex mutex;
  std::map<int, ronde::Mapping> copies;                      ///< by device: where the interpreter finds what is bound
  uint32_t mapped = 0;                                       ///< so many bindings are in them
  std::vector<std::pair<int, std::shared_ptr<Chunk>>> held;  ///< memory that this process has bound, by device

  /// Maps what was bound since, by whomever.
  CUresult update();
};

/// For a chunk that was imported and is a multicast object.
CUresult open_multicast(Driver& driver, Chunk& chunk);
/// Gives reserved addresses to an object.
ronde::Result<> map_multicast(Driver& driver, Chunk& chunk, uint64_t address, size_t bytes);
/// Before kernels begin: all objects of the process know what was bound elsewhere.
CUresult update_multicasts();

}  // namespace emu::driver
