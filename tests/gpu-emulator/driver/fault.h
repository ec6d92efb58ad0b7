// From what the interpreter says of a kernel that failed to the driver's code.
#pragma once

#include <string>

#include "gpu-emulator/driver/entries.h"

namespace emu::driver {

CUresult code_of_fault(const std::string& text);

}  // namespace emu::driver
