// Values as hwloc writes them.
#include <algorithm>

#include "topo/hwloc_parts.h"

namespace ronde::topo {

std::optional<CpuMask> parse_hwloc_set(std::string_view text) {
  if (text.empty() || text.find("...") != std::string_view::npos) return CpuMask();
  std::string words;
  for (;;) {
    const size_t comma = text.find(',');
    std::string_view word = text.substr(0, comma);
    if (word.substr(0, 2) == "0x") word.remove_prefix(2);
    words += word.empty() ? "0" : std::string(word);
    if (comma == std::string_view::npos) break;
    words += ',';
    text.remove_prefix(comma + 1);
  }
  return CpuMask::parse(words);
}

void set_hwloc_link(double gbps, Pci& pci) {
  struct Generation {
    int32_t speed;
    double per_lane;
  };
  constexpr Generation kGenerations[] = {{2500, 0.25},
                                         {5000, 0.5},
                                         {8000, 8.0 / 8 * 128 / 130},
                                         {16000, 16.0 / 8 * 128 / 130},
                                         {32000, 32.0 / 8 * 128 / 130},
                                         {64000, 64.0 / 8 * 242 / 256}};
  // Of the pairs of speed and width that make it up the widest, all of which carry the same.
  for (const int32_t width : {16, 8, 4, 2, 1, 32, 12}) {
    for (const Generation& generation : kGenerations) {
      const double rate = generation.per_lane * width;
      if (gbps < rate * 0.99 || gbps > rate * 1.01) continue;
      pci.speed = generation.speed;
      pci.width = width;
      return;
    }
  }
}

}  // namespace ronde::topo
