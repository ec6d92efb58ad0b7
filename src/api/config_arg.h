// The structures with a size that callers hand in: read whatever release they were compiled against.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "comm/options.h"
#include "nccl.h"
#include "ronde.h"

namespace ronde {

/// Reads an ncclConfig_t of any release from 2.14 on, by its `size` and `version`; fields newer than those we know are not looked
/// at. nullptr is a config in which nothing is set (Split and Shrink then take the parent's). Copies strings. invalid_argument,
/// naming field, value and range: for another magic, a size that no header has had (larger ones, by a little, count as a later
/// release's), a version older than the size or not 2.x, a value out of range.
Result<CommOptions> parse_config(const ncclConfig_t* config);

/// The options of a child: what `own` does not set is the parent's.
CommOptions inherit(const CommOptions& parent, const CommOptions& own);

/// Checks size, magic and version of an ncclSimInfo_t. nullptr is fine.
Result<> check_sim_info(const ncclSimInfo_t* info);

/// Fills the caller's rondeChoice_t from `choice`, as far as the caller's size goes; its size field stays. invalid_argument for a
/// size that no header has had.
Result<> store_choice(const rondeChoice_t& choice, rondeChoice_t* out);

}  // namespace ronde
