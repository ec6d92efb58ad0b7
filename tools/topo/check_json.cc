#include <nlohmann/json.hpp>

#include "graph/load.h"
#include "tools/topo/check.h"
#include "tools/topo/facts.h"

namespace ronde::topo::tool {
namespace {

using Json = nlohmann::ordered_json;

Json row_json(const Checked& checked) {
  const ChannelSet& set = checked.set;
  Json json = {{"hosts", checked.two ? "two" : "one"}, {"shape", shape_name(set.shape)}, {"devices", set.devices.size()}};
  if (set.channels.empty()) {
    json["error"] = set.why_not;
    return json;
  }
  json.update({{"channels", set.channels.size()},
               {"rate_MBps", set.channels[0].rate},
               {"total_MBps", graph::total_rate(set.channels)},
               {"bound_MBps", set.bound},
               {"search_ms", set.ms},
               {"slow", checked.slow()},
               {"below_nccl", checked.below()},
               {"faults", checked.faults}});
  if (checked.nccl.rate > 0) json.update({{"nccl_MBps", checked.nccl.rate}, {"nccl_search_ms", checked.nccl.ms}});
  return json;
}

}  // namespace

std::string to_json(const std::vector<FileChecked>& files, const Tally& tally) {
  Json all = Json::array();
  for (const FileChecked& file : files) {
    Json json = {{"file", file.name}};
    if (!file.reading.ok()) {
      json["error"] = file.reading.error().what;
    } else {
      const Machine& machine = file.reading->machine;
      json["devices"] = devices_of(machine).size();
      json["nics"] = machine.of_kind(NodeKind::nic).size();
      json["searches"] = Json::array();
      for (const Checked& each : file.rows) json["searches"].push_back(row_json(each));
    }
    all.push_back(std::move(json));
  }
  const Json json = {{"files", std::move(all)},
                     {"machines", tally.machines},
                     {"refused", tally.refused},
                     {"wrong", tally.wrong},
                     {"slow", tally.slow}};
  // Names of files may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ronde::topo::tool
