#include <algorithm>
#include <cctype>

#include "plan/build.h"

namespace ronde {

std::span<const Algorithm> algorithms() {
  static const Algorithm all[] = {kRing, kTree, kDirect, kOneshot, kHalvingDoubling, kChain, kHier};
  return all;
}

const Algorithm* find_algorithm(std::string_view name) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (const Algorithm& one : algorithms()) {
    if (std::equal(name.begin(), name.end(), one.name.begin(), one.name.end(), same)) return &one;
  }
  return nullptr;
}

}  // namespace ronde
