// What a module is made from: PTX text, or a fatbin that has PTX in it.
#pragma once

#include <string>

#include "gpu-emulator/driver/entries.h"

namespace emu::driver {

/// The PTX for a device of compute capability `capability` (90 for 9.0) in an image as cuModuleLoadData takes it: a
/// zero-terminated text or a fatbin; of several, that of the newest architecture that the device can run. `why` tells what is
/// wrong with the image otherwise.
CUresult ptx_of(const void* image, int capability, std::string& ptx, std::string& why);

}  // namespace emu::driver
