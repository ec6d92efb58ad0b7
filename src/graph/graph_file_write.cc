#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "graph/graph_file.h"
#include "graph/graph_file_words.h"

namespace ronde::graph {
namespace {

using topo::Distance;
using topo::kNone;
using topo::Machine;
using topo::NodeId;
using topo::NodeKind;
using topo::Path;

/// The part of a channel inside one host.
class Cut {
 public:
  Cut(const topo::Wiring& wiring, std::span<const NodeId> devices, const Channel& channel, std::span<const int> members)
      : wiring_(wiring),
        machine_(wiring.machine()),
        devices_(devices),
        channel_(channel),
        members_(members),
        place_(devices.size(), kNone) {
    for (size_t i = 0; i < members.size(); ++i) place_[static_cast<size_t>(members[i])] = static_cast<int>(i);
  }

  Result<HostChannel> run() { return channel_.ring.empty() ? tree() : ring(); }
  Distance inside() const { return inside_; }    ///< of the farthest hop inside the host
  Distance outside() const { return outside_; }  ///< of the farthest port from its device

 private:
  bool here(int device) const { return device >= 0 && place_[static_cast<size_t>(device)] != kNone; }
  Error pieces(const char* what, int device) const {
    return fail(
        Code::invalid_usage,
        fmt::format("writing a graph file: a channel passes the devices of the host of {} {}, which no graph file can say; "
                    "ask for orders that pass each host's devices one after another, or unset RONDE_GRAPH_DUMP_FILE",
                    describe(machine_, node(device)), what));
  }

  Result<HostChannel> ring() {
    const std::vector<int>& ring = channel_.ring;
    const size_t n = ring.size();
    // Where it comes in; the first device where it never leaves.
    size_t start = n;
    for (size_t i = 0; i < n; ++i) {
      if (!here(ring[i]) || here(ring[(i + n - 1) % n])) continue;
      if (start != n) return pieces("in several pieces", ring[i]);
      start = i;
    }
    const bool leaves = start != n;
    if (!leaves) start = 0;
    HostChannel cut;
    for (size_t i = 0; i < members_.size(); ++i) cut.order.push_back(place_[static_cast<size_t>(ring[(start + i) % n])]);
    for (size_t i = 0; i + (leaves ? 1 : 0) < members_.size(); ++i) near(ring[(start + i) % n], ring[(start + i + 1) % n]);
    if (!leaves) return cut;
    const size_t before = (start + n - 1) % n;
    const size_t last = (start + members_.size() - 1) % n;
    cut.in = port_on(before, ring[before], ring[start]);
    cut.out = port_on(last, ring[last], ring[(last + 1) % n]);
    return cut;
  }

  Result<HostChannel> tree() {
    HostChannel cut;
    std::vector<int> child(devices_.size(), kNone);
    int root = kNone;
    for (const int device : members_) {
      const int parent = channel_.parent[static_cast<size_t>(device)];
      if (!here(parent)) {
        if (root != kNone) return pieces("in several pieces", device);
        root = device;
        continue;
      }
      if (child[static_cast<size_t>(parent)] != kNone) return pieces("with branches", device);
      child[static_cast<size_t>(parent)] = device;
      near(device, parent);
    }
    for (int device = root; device != kNone; device = child[static_cast<size_t>(device)])
      cut.order.push_back(place_[static_cast<size_t>(device)]);
    // Trees leave a host where its chain begins, upwards; where that is the root of all, downwards.
    if (root != kNone) cut.in = cut.out = tree_port(root);
    return cut;
  }

  NodeId tree_port(int root) {
    const int parent = channel_.parent[static_cast<size_t>(root)];
    if (parent >= 0) return port_on(static_cast<size_t>(root), root, parent);
    for (size_t device = 0; device < devices_.size(); ++device) {
      if (!here(static_cast<int>(device)) && here(channel_.parent[device]))
        return port_on(device, static_cast<int>(device), channel_.parent[device]);
    }
    return kNone;
  }

  Distance between(NodeId from, NodeId to) const { return path_between(wiring_, from, to, {.forwarding_gpus = 1}).distance; }
  NodeId node(int device) const { return devices_[static_cast<size_t>(device)]; }

  void near(int from, int to) { inside_ = std::max(inside_, between(node(from), node(to))); }

  /// The port of this host that a hop passes, of whose ends one is here.
  NodeId port_on(size_t hop, int from, int to) {
    Path way;
    if (channel_.hops.empty())
      way = path_between(wiring_, node(from), node(to), {.network = true});
    else
      way.arcs = channel_.hops[hop];
    const NodeId near_end = node(here(from) ? from : to);
    for (const NodeId id : nodes_of(machine_, node(from), way)) {
      if (machine_.node(id).kind != NodeKind::port || machine_.node(id).host != machine_.node(near_end).host) continue;
      outside_ = std::max(outside_, between(near_end, id));
      return id;
    }
    return kNone;
  }

  const topo::Wiring& wiring_;
  const Machine& machine_;
  std::span<const NodeId> devices_;
  const Channel& channel_;
  std::span<const int> members_;
  std::vector<int> place_;  ///< in members, by device
  Distance inside_ = Distance::loc;
  Distance outside_ = Distance::loc;
};

void append_device(std::string& out, const Machine& machine, std::span<const NodeId> devices, int place) {
  const bool cpu = machine.node(devices[static_cast<size_t>(place)]).kind == NodeKind::cpu_rank;
  fmt::format_to(std::back_inserter(out), "      <{}=\"{:x}\"/>\n", cpu ? "cpurank rank" : "gpu dev",
                 number_of(machine, devices, static_cast<size_t>(place)));
}

void append_port(std::string& out, const Machine& machine, NodeId port) {
  if (port != kNone && machine.port(port).dev >= 0)
    fmt::format_to(std::back_inserter(out), "      <net dev=\"{:x}\"/>\n", machine.port(port).dev);
}

}  // namespace

std::string to_graph_xml(std::span<const FileGraph> graphs, const Machine& machine, std::span<const NodeId> devices) {
  std::string out = "<graphs version=\"1\">\n";
  for (const FileGraph& graph : graphs) {
    fmt::format_to(std::back_inserter(out),
                   "  <graph id=\"{}\" pattern=\"{}\" crossnic=\"{}\" nchannels=\"{}\" speedintra=\"{}\" speedinter=\"{}\" "
                   "latencyinter=\"{:g}\" typeintra=\"{}\" typeinter=\"{}\" samechannels=\"{}\">\n",
                   graph.id, static_cast<int>(graph.pattern), graph.cross_nic, graph.channels.size(),
                   static_cast<double>(graph.rate_intra) / 1000, static_cast<double>(graph.rate_inter) / 1000,
                   graph.latency_inter, to_string(graph.type_intra), to_string(graph.type_inter), graph.same_channels);
    for (const HostChannel& channel : graph.channels) {
      out += "    <channel>\n";
      append_port(out, machine, channel.in);
      for (const int device : channel.order) append_device(out, machine, devices, device);
      append_port(out, machine, channel.out);
      out += "    </channel>\n";
    }
    out += "  </graph>\n";
  }
  return out + "</graphs>\n";
}

Result<FileGraph> graph_of(const Machine& machine, std::span<const NodeId> devices, std::span<const Channel> channels,
                           Shape shape, std::span<const int> members) {
  const topo::Wiring wiring(machine);
  FileGraph graph;
  graph.id = shape == Shape::ring ? kRingGraph : kTreeGraph;
  graph.pattern = shape == Shape::ring ? Pattern::ring : Pattern::tree;
  for (const Channel& channel : channels) {
    Cut cut(wiring, devices, channel, members);
    RONDE_TRY(HostChannel part, cut.run());
    graph.rate_intra = graph.rate_inter = channel.rate;
    graph.type_intra = std::max(graph.type_intra, cut.inside());
    graph.type_inter = std::max(graph.type_inter, cut.outside());
    if (part.in != part.out) graph.cross_nic = 1;
    graph.channels.push_back(std::move(part));
  }
  return graph;
}

}  // namespace ronde::graph
