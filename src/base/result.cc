#include "base/result.h"

#include <cstring>

#include <fmt/core.h>

namespace ronde {

Error system_failure(int errno_value, std::string attempted, std::string remedy, Scope scope, Where at) {
  char buffer[128];
  const char* words = strerror_r(errno_value, buffer, sizeof buffer);  // the GNU form: returns the text
  std::string what = fmt::format("{}: {} (errno {})", attempted, words, errno_value);
  if (!remedy.empty()) what += "; " + remedy;
  return Error{Code::system_error, scope, std::move(what), at};
}

}  // namespace ronde
