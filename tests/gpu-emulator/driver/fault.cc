#include "gpu-emulator/driver/fault.h"

#include <array>
#include <utility>

namespace emu::driver {

CUresult code_of_fault(const std::string& text) {
  static const std::array<std::pair<const char*, CUresult>, 5> kinds = {{
      {"misaligned", CUDA_ERROR_MISALIGNED_ADDRESS},
      {"an access of", CUDA_ERROR_ILLEGAL_ADDRESS},
      {"a multimem access of", CUDA_ERROR_ILLEGAL_ADDRESS},
      {"not at its end after", CUDA_ERROR_LAUNCH_TIMEOUT},
      {"assert", CUDA_ERROR_ASSERT},
  }};
  for (const auto& [words, code] : kinds) {
    if (text.find(words) != std::string::npos) return code;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace emu::driver
