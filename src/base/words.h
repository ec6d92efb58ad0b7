// Words as users write them in settings.
#pragma once

#include <string_view>
#include <strings.h>

namespace ronde {

/// Equal, whatever the case of ASCII letters.
inline bool same_word(std::string_view a, std::string_view b) { return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace ronde
