#include "gpu-emulator/driver/fatbin.h"

#include <fmt/core.h>

#include <cstring>
#include <string_view>

namespace emu::driver {
namespace {

constexpr uint32_t kFatbin = 0xba55ed50;
constexpr uint32_t kWrapper = 0x466243b1;  // what nvcc puts around a fatbin that is linked in: magic, version, pointer to it
constexpr uint32_t kElf = 0x464c457f;
constexpr uint16_t kPtx = 1;
constexpr uint64_t kCompressed = 0xe000;  // flags: LZ4, zstd, and their predecessor

template <class T>
T read(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

CUresult from_fatbin(const char* image, int capability, std::string& ptx, std::string& why) {
  const auto header = read<uint16_t>(image + 6);
  const auto size = read<uint64_t>(image + 8);
  const char* at = image + header;
  const char* const end = at + size;
  int best = 0;
  std::string seen;
  while (end - at >= 64) {
    const auto kind = read<uint16_t>(at);
    const auto entry_header = read<uint32_t>(at + 4);
    const auto bytes = read<uint64_t>(at + 8);
    const auto arch = static_cast<int>(read<uint32_t>(at + 28));
    const bool packed = (read<uint64_t>(at + 40) & kCompressed) != 0 || read<uint64_t>(at + 56) != 0;
    if (entry_header < 64 || entry_header > static_cast<uint64_t>(end - at) ||
        bytes > static_cast<uint64_t>(end - at) - entry_header) {
      why = "the fatbin ends within an entry";
      return CUDA_ERROR_INVALID_IMAGE;
    }
    seen += fmt::format(" {}{}{}", kind == kPtx ? "compute_" : "sm_", arch, packed ? " (compressed)" : "");
    if (kind == kPtx && !packed && arch <= capability && arch > best) {
      best = arch;
      const char* text = at + entry_header;
      ptx.assign(text, strnlen(text, bytes));
    }
    at += entry_header + bytes;
  }
  if (best > 0) return CUDA_SUCCESS;
  why = fmt::format(
      "the fatbin has no plain PTX for compute capability {}.{}; it has:{}. The emulator runs PTX only: give nvcc -gencode "
      "arch=compute_NN,code=compute_NN of at most that capability, and --compress-mode=none",
      capability / 10, capability % 10, seen.empty() ? " nothing" : seen);
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

}  // namespace

CUresult ptx_of(const void* image, int capability, std::string& ptx, std::string& why) {
  const auto* bytes = static_cast<const char*>(image);
  auto magic = read<uint32_t>(bytes);
  if (magic == kWrapper) {
    bytes = static_cast<const char*>(read<const void*>(bytes + 8));
    magic = read<uint32_t>(bytes);
  }
  if (magic == kFatbin) return from_fatbin(bytes, capability, ptx, why);
  if (magic == kElf) {
    why = "the image is machine code; the emulator runs PTX only";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  ptx = bytes;
  if (ptx.find(".version") != std::string::npos) return CUDA_SUCCESS;
  why = "the image is neither a fatbin nor PTX";
  return CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace emu::driver
