// The one file that compiles fmt's implementation. Header-only fmt in every file would double the time of a build, and its shared library may not be
// needed at run time; so the others see declarations alone, and what they call is emitted here.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace ronde {

/// Used by nobody: taking the address makes the compiler emit the inline function. With fmt/core.h alone it is all that fmt::format needs.
[[gnu::used]] std::string (*const emitted_vformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;

}  // namespace ronde
