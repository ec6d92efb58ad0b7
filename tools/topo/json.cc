#include "tools/topo/json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "tools/topo/facts.h"
#include "tools/topo/tree.h"
#include "topo/paths.h"

namespace ronde::topo::tool {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(int32_t index) { return index == kNone ? Json() : Json(index); }

Json node_json(const Machine& m, NodeId id) {
  Json json = {{"id", id},
               {"kind", to_string(m.node(id).kind)},
               {"label", describe(m, id)},
               {"host", or_null(m.node(id).host)},
               {"parent", or_null(m.node(id).parent)}};
  for (const Fact& fact : facts_of(m, id)) std::visit([&](const auto& value) { json[fact.name] = value; }, fact.value);
  return json;
}

Json links_json(const Machine& m) {
  Json links = Json::array();
  for (const Link& link : m.links) {
    links.push_back({{"a", link.a},
                     {"b", link.b},
                     {"kind", to_string(link.kind)},
                     {"count", link.count},
                     {"rate_MBps", link.rate},
                     {"source", to_string(link.source)}});
  }
  return links;
}

Json paths_json(const Machine& m) {
  Json paths = Json::array();
  const auto ends = path_ends(m);
  if (ends.size() > kMostColumns) return paths;
  const Wiring wiring(m);
  Routing routing;
  routing.network = m.hosts.size() > 1;
  for (const NodeId from : ends) {
    const auto found = paths_from(wiring, from, routing);
    for (const NodeId to : ends) {
      const Path& path = found[static_cast<size_t>(to)];
      if (from == to) continue;
      paths.push_back({{"from", from}, {"to", to}, {"type", to_string(path.distance)}, {"rate_MBps", path.rate}});
    }
  }
  return paths;
}

Json set_json(const ChannelSet& set) {
  Json channels = Json::array();
  for (const graph::Channel& channel : set.channels) {
    Json json = {{"rate_MBps", channel.rate}};
    if (channel.ring.empty()) {
      json["parent"] = channel.parent;
    } else {
      json["ring"] = channel.ring;
    }
    channels.push_back(std::move(json));
  }
  Json json = {{"shape", shape_name(set.shape)}, {"devices", set.devices}, {"bound_MBps", set.bound}, {"channels", channels}};
  if (!set.why_not.empty()) json["error"] = set.why_not;
  return json;
}

}  // namespace

std::string to_json(const Reading& reading, const std::vector<ChannelSet>& sets) {
  const Machine& m = reading.machine;
  Json json = {{"hosts", Json::array()}, {"nodes", Json::array()}};
  for (const Host& host : m.hosts) json["hosts"].push_back({{"hash", fmt::format("0x{:x}", host.hash)}});
  for (size_t i = 0; i < m.nodes.size(); ++i) json["nodes"].push_back(node_json(m, static_cast<NodeId>(i)));
  json["links"] = links_json(m);
  json["paths"] = paths_json(m);
  if (!sets.empty()) {
    json["channels"] = Json::array();
    for (const ChannelSet& set : sets) json["channels"].push_back(set_json(set));
  }
  json["notes"] = reading.notes;
  // Names in files may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ronde::topo::tool
