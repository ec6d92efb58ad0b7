#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "tools/topo/facts.h"
#include "tools/topo/tree.h"
#include "topo/paths.h"

namespace ronde::topo::tool {
namespace {

const char* meaning(Distance distance) {
  switch (distance) {
    case Distance::loc:
      return "the same device, or parts of one";
    case Distance::nvl:
      return "NVLink or xGMI, directly or through NVLink switches";
    case Distance::nvb:
      return "NVLink through another GPU";
    case Distance::c2c:
      return "coherent links to the CPU";
    case Distance::pix:
      return "PCI, through one switch at most";
    case Distance::pxb:
      return "PCI, through several switches";
    case Distance::p2c:
      return "coherent links to the CPU, then PCI";
    case Distance::pxn:
      return "NVLink to another GPU, then PCI";
    case Distance::phb:
      return "through a NUMA node";
    case Distance::sys:
      return "through several NUMA nodes";
    case Distance::net:
      return "through the network";
    case Distance::dis:
      return "no way";
  }
  return "";
}

struct Table {
  std::vector<NodeId> nodes;
  std::vector<std::vector<std::string>> cells;  ///< by row and column
  std::set<Distance> used;
};

Table table_of(const Machine& machine) {
  Table table;
  table.nodes = path_ends(machine);
  const Wiring wiring(machine);
  Routing routing;
  routing.network = machine.hosts.size() > 1;
  for (const NodeId from : table.nodes) {
    const auto paths = paths_from(wiring, from, routing);
    std::vector<std::string> row;
    for (const NodeId to : table.nodes) {
      const Path& path = paths[static_cast<size_t>(to)];
      table.used.insert(path.distance);
      row.push_back(from == to     ? "-"
                    : path.found() ? fmt::format("{} {}", to_string(path.distance), gbps(path.rate))
                                   : to_string(path.distance));
    }
    table.cells.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::vector<NodeId> path_ends(const Machine& machine) {
  std::vector<NodeId> ends;
  for (const NodeKind kind : {NodeKind::gpu, NodeKind::cpu_rank, NodeKind::port}) {
    for (const NodeId id : machine.of_kind(kind)) ends.push_back(id);
  }
  return ends;
}

std::string matrix(const Machine& machine, const Look& look) {
  const Table table = table_of(machine);
  if (table.nodes.size() < 2) return "";
  std::vector<std::string> names;
  for (const NodeId id : table.nodes) names.push_back(short_name(machine, id));
  size_t head = 0;
  size_t wide = 0;
  for (const std::string& name : names) head = std::max(head, name.size());
  for (const auto& row : table.cells) {
    for (const std::string& cell : row) wide = std::max(wide, cell.size());
  }
  wide = std::max(wide, head) + 2;
  size_t at_once = names.size();
  const auto width = static_cast<size_t>(std::max(look.width, 0));
  if (width > 0) at_once = width > head + wide ? (width - head) / wide : 1;
  std::string text = "paths, GB/s\n";
  for (size_t first = 0; first < names.size(); first += at_once) {
    const size_t end = std::min(first + at_once, names.size());
    std::string line = std::string(head, ' ');
    for (size_t column = first; column < end; ++column) line += fmt::format("{:>{}}", names[column], wide);
    text += toned(line, Tone::title, look) + "\n";
    for (size_t row = 0; row < names.size(); ++row) {
      text += toned(fmt::format("{:<{}}", names[row], head), Tone::title, look);
      for (size_t column = first; column < end; ++column) text += fmt::format("{:>{}}", table.cells[row][column], wide);
      text += "\n";
    }
  }
  for (const Distance distance : table.used) {
    // A device and itself is a dash.
    if (distance != Distance::loc || !machine.of_kind(NodeKind::pci_function).empty())
      text += toned(fmt::format("{}: {}", to_string(distance), meaning(distance)), Tone::quiet, look) + "\n";
  }
  return text;
}

}  // namespace ronde::topo::tool
