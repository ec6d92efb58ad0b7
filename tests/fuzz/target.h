// What fuzzing feeds: each target reads one input. A crash, a report of a sanitizer, a hang, and a broken promise (require)
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "topo/machine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace ronde::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

/// Ends the process with a message where `promise` does not hold.
void require(bool promise, const std::string& what);

/// Everything that is done with a Machine that somebody gave: it has no faults, comes back from its own text, is itself when
/// merged with itself, and channels found on it fit on its links. Of large ones a part.
void plan(const topo::Machine& machine);

}  // namespace ronde::fuzz
