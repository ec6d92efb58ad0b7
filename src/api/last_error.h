// The text behind ncclGetLastError: the process's last failure or warning at the border.
#pragma once

#include <string_view>

#include "base/result.h"

namespace ronde {

/// Bytes kept of a text, the final 0 included; longer ones are cut.
inline constexpr int kLastErrorBytes = 1024;

/// Makes `text` the process's last error. Any thread; never throws, never waits for long.
void set_last_error(std::string_view text) noexcept;

/// The process's last error, "" before the first, in a buffer of the calling thread that holds until its next call. Never
/// nullptr.
const char* last_error() noexcept;

/// Reports a failed call: logs "<call>: <what>" as WARN (the call once, where what begins with it) and makes it the last error. Never
/// throws.
void report_error(std::string_view call, const Error& error) noexcept;

}  // namespace ronde
