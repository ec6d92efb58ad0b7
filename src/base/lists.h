// Lists as texts show them.
#pragma once

#include <string>
#include <vector>

namespace ronde {

/// "rank 3", "ranks 1, 3", "ranks 0-7, 9": in ascending order, whatever the order of `ranks`.
std::string rank_list(std::vector<int> ranks);
/// "a, b, c".
std::string comma_list(const std::vector<std::string>& words);

}  // namespace ronde
