// The entry points as the emulator exports them.
#pragma once

#include "device/driver_entries.h"

namespace emu::driver {
using namespace ronde::cu;

#define EMU_DECLARE(name, suffix, since, parameters) [[gnu::visibility("default")]] CUresult name##suffix parameters;
extern "C" {
RONDE_CU_ENTRIES(EMU_DECLARE)
/// Not the driver's: the emulator's text about the last kernel, copy or module that failed, "" while there is none. Stays valid.
[[gnu::visibility("default")]] const char* emuLastError();
}
#undef EMU_DECLARE

}  // namespace emu::driver
