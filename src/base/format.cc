// The one file that compiles fmt's implementation. Header-only fmt in every file would double the time of a build, and its shared library may not be
// needed at run time; so the others see declarations alone, and what they call is emitted here.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace ronde {

// Used by nobody: taking the address makes the compiler emit the function. All of fmt::format ends in the first; what the compiler inlines of
// integers and floats may call the others.
[[gnu::used]] std::string (*const emitted_vformat)(fmt::string_view, fmt::format_args) = &fmt::vformat;
[[gnu::used]] const auto emitted_thousands_sep = &fmt::detail::thousands_sep_impl<char>;
[[gnu::used]] const auto emitted_decimal_point = &fmt::detail::decimal_point_impl<char>;

}  // namespace ronde
