// What the dynamic linker sees of a shared library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ronde::test {

struct Library {
  std::string soname;
  std::vector<std::string> needed;
  std::vector<std::string> exports;     ///< "W name" for weak, "T name" for strong functions, "D name" for data; sorted by name
  std::vector<std::string> self_bound;  ///< own exported functions that the library itself reaches through the dynamic linker
  uint64_t flags_1 = 0;                 ///< DF_1_ bits
  bool defines_versions = false;
  uint64_t loaded_bytes = 0;  ///< of the file that are mapped: debug information does not count
};

/// Reads a 64-bit ELF file; nullopt where `path` is none.
std::optional<Library> read_library(const std::string& path);

}  // namespace ronde::test
