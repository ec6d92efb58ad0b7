// Words as users write them in settings and files, and as they are shown.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <strings.h>

namespace ronde {

/// Equal, whatever the case of ASCII letters.
inline bool same_word(std::string_view a, std::string_view b) { return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0; }

/// For terminals and logs: what files and other programs say, with '?' for all that is not printable ASCII.
inline std::string printable(std::string_view text) {
  std::string safe(text);
  std::replace_if(safe.begin(), safe.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return safe;
}

}  // namespace ronde
