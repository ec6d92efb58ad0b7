// Whole text files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ronde {

/// The contents of a regular file of at most `most` bytes. Errors name the file and say why not.
Result<std::string> read_file(const std::string& path, size_t most);

/// Writes `text` to a file, which has either its old contents or all of the new ones, whoever looks and whenever this fails: through a
/// temporary file beside it. What is there and no regular file (/dev/stderr) is written to as it is. Errors name the file and say why not.
Result<> write_file(const std::string& path, std::string_view text);

}  // namespace ronde
