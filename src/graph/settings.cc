#include "graph/settings.h"

#include <fmt/core.h>

namespace ronde::graph {
namespace {

/// The distance that a setting names; `otherwise` for "auto". Kind::distance counts the words as Distance does.
topo::Distance distance(const Config& config, Setting setting, topo::Distance otherwise) {
  const int64_t place = config.integer(setting);
  return place < 0 ? otherwise : static_cast<topo::Distance>(place);
}

}  // namespace

Limits limits_of(const Config& config) {
  Limits limits;
  Rules& rules = limits.rules;
  rules.asked = config.text(Setting::rings);
  rules.cross_nic = static_cast<CrossNic>(config.integer(Setting::cross_nic));
  rules.p2p_level = distance(config, Setting::p2p_level, rules.p2p_level);
  rules.gdr_level = distance(config, Setting::net_gdr_level, rules.gdr_level);
  rules.p2p = !config.flag(Setting::p2p_disable);
  rules.shm = !config.flag(Setting::shm_disable);
  rules.pxn = !config.flag(Setting::pxn_disable);
  rules.nvb = !config.flag(Setting::nvb_disable);
  return limits;
}

std::string describe(const Limits& limits) {
  const Rules& rules = limits.rules;
  return fmt::format(
      "channels {}-{} of {} MB/s, {} steps, CROSS_NIC {}, NET_GDR_LEVEL {}, P2P_LEVEL {}, p2p {}, shm {}, pxn {}, nvb {}, rings "
      "\"{}\"",
      limits.min_channels, limits.max_channels, limits.max_rate, limits.steps, static_cast<int>(rules.cross_nic),
      topo::to_string(rules.gdr_level), topo::to_string(rules.p2p_level), rules.p2p, rules.shm, rules.pxn, rules.nvb,
      rules.asked);
}

}  // namespace ronde::graph
