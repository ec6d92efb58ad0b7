#include "graph/graph_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/graph_file_words.h"
#include "topo/xml_dom.h"

namespace ronde::graph {
namespace {

using pugi::xml_node;
using topo::Distance;
using topo::Machine;
using topo::NodeId;
using topo::XmlDocument;

constexpr int64_t kMaxRate = 100000000;  // MB/s

class Reader {
 public:
  Reader(const XmlDocument& document, const Machine& machine, std::span<const NodeId> devices)
      : doc_(document), machine_(machine), devices_(devices) {}

  Result<std::vector<FileGraph>> run() {
    const xml_node root = doc_.root();
    if (std::string_view(root.name()) == "system")
      return doc_.error(root, "this is a topology file (NCCL_TOPO_FILE), not a graph file; expected <graphs>");
    if (std::string_view(root.name()) != "graphs") return doc_.error(root, "expected <graphs>, the root of a graph file");
    RONDE_TRY(doc_.integer(root, "version", 1, 1, 1));
    RONDE_TRY(doc_.no_text());
    RONDE_TRY(index());
    std::vector<FileGraph> graphs;
    std::set<int> ids;
    for (const xml_node element : root.children()) {
      if (std::string_view(element.name()) != "graph") return doc_.error(element, "expected <graph>");
      RONDE_TRY(FileGraph one, graph(element));
      if (!ids.insert(one.id).second) return doc_.error(element, "id", "a graph of this number stands further up");
      graphs.push_back(std::move(one));
    }
    return graphs;
  }

 private:
  /// What numbers stand for.
  Result<> index() {
    for (size_t i = 0; i < devices_.size(); ++i) {
      const NodeId id = devices_[i];
      auto& numbers = machine_.node(id).kind == topo::NodeKind::cpu_rank ? cpus_ : gpus_;
      const auto [place, is_new] = numbers.emplace(number_of(machine_, devices_, i), static_cast<int>(i));
      if (is_new) continue;
      return doc_.error(doc_.root(),
                        fmt::format("no graph file can be read for devices of one number, {} and {}",
                                    describe(machine_, devices_[static_cast<size_t>(place->second)]), describe(machine_, id)));
    }
    std::set<int32_t> hosts;
    for (const NodeId id : devices_) hosts.insert(machine_.node(id).host);
    for (const NodeId id : machine_.of_kind(topo::NodeKind::port)) {
      if (hosts.count(machine_.node(id).host) != 0 && machine_.port(id).dev >= 0) ports_.emplace(machine_.port(id).dev, id);
    }
    return Done{};
  }

  Result<FileGraph> graph(xml_node element) {
    FileGraph graph;
    RONDE_TRY(const int64_t id, doc_.integer(element, "id", -1, 0, 255));
    if (id < 0) return doc_.error(element, "no id: 0 is a ring's, 1 a tree's");
    graph.id = static_cast<int>(id);
    RONDE_TRY(const int64_t pattern, doc_.integer(element, "pattern", 0, 1, 6));
    if (pattern == 0) return doc_.error(element, "no pattern: 4 is a ring, 1 to 3 are trees");
    graph.pattern = static_cast<Pattern>(pattern);
    RONDE_TRY(const int64_t cross_nic, doc_.integer(element, "crossnic", 0, 0, 2));
    graph.cross_nic = static_cast<int>(cross_nic);
    RONDE_TRY(const int64_t same, doc_.integer(element, "samechannels", 0, 0, 1));
    graph.same_channels = static_cast<int>(same);
    RONDE_TRY(graph.rate_intra, rate(element, "speedintra"));
    RONDE_TRY(graph.rate_inter, rate(element, "speedinter"));
    RONDE_TRY(graph.latency_inter, doc_.real(element, "latencyinter"));
    RONDE_TRY(graph.type_intra, distance(element, "typeintra"));
    RONDE_TRY(graph.type_inter, distance(element, "typeinter"));
    for (const xml_node child : element.children()) {
      if (std::string_view(child.name()) != "channel") return doc_.error(child, "expected <channel>");
      RONDE_TRY(HostChannel one, channel(child));
      if (graph.pattern <= Pattern::ring) RONDE_TRY(passes_all(child, one));
      graph.channels.push_back(std::move(one));
    }
    const auto channels = static_cast<int64_t>(graph.channels.size());
    RONDE_TRY(const int64_t stated, doc_.integer(element, "nchannels", channels, 0, kMaxRate));
    if (stated != channels) return doc_.error(element, "nchannels", fmt::format("but the graph holds {}", channels));
    return graph;
  }

  Result<int64_t> rate(xml_node element, const char* attribute) {
    RONDE_TRY(const double gbps, doc_.real(element, attribute));
    if (gbps * 1000 > kMaxRate) return doc_.error(element, attribute, fmt::format("more than {} GB/s", kMaxRate / 1000));
    return std::llround(gbps * 1000);
  }

  Result<Distance> distance(xml_node element, const char* attribute) {
    const std::string_view word = XmlDocument::text(element, attribute);
    if (word.empty()) return Distance::loc;
    for (int i = 0; i <= static_cast<int>(Distance::dis); ++i) {
      if (word == to_string(static_cast<Distance>(i))) return static_cast<Distance>(i);
    }
    return doc_.error(element, attribute,
                      "expected a type of path: LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET or DIS");
  }

  Result<HostChannel> channel(xml_node element) {
    HostChannel channel;
    for (const xml_node child : element.children()) {
      const std::string_view name = child.name();
      if (name == "gpu" || name == "cpurank") {
        RONDE_TRY(const int64_t number, numbered(child, name == "gpu" ? "dev" : "rank"));
        const auto& numbers = name == "gpu" ? gpus_ : cpus_;
        const auto found = numbers.find(number);
        if (found == numbers.end()) return doc_.error(child, fmt::format("no device of this communicator has number {}", number));
        channel.order.push_back(found->second);
      } else if (name == "net") {
        RONDE_TRY(const int64_t number, numbered(child, "dev"));
        const auto found = ports_.find(number);
        if (found == ports_.end()) return doc_.error(child, fmt::format("no port of this host has number {}", number));
        NodeId& end = channel.order.empty() ? channel.in : channel.out;
        if (end != topo::kNone) return doc_.error(child, "expected one <net> before the devices and one after them");
        end = found->second;
      } else {
        return doc_.error(child, "expected <net>, <gpu> or <cpurank>");
      }
    }
    return channel;
  }

  /// Numbers of devices are in hexadecimal, with or without 0x.
  Result<int64_t> numbered(xml_node element, const char* attribute) {
    RONDE_TRY(const auto value, doc_.hexadecimal(element, attribute));
    if (!value || *value > INT32_MAX) return doc_.error(element, attribute, "expected the hexadecimal number of a device");
    return static_cast<int64_t>(*value);
  }

  Result<> passes_all(xml_node element, const HostChannel& channel) {
    std::vector<char> passed(devices_.size());
    for (const int device : channel.order) {
      char& seen = passed[static_cast<size_t>(device)];
      if (seen != 0)
        return doc_.error(element, "passes " + describe(machine_, devices_[static_cast<size_t>(device)]) + " more than once");
      seen = 1;
    }
    const auto missed = std::find(passed.begin(), passed.end(), 0);
    if (missed == passed.end()) return Done{};
    return doc_.error(element, "does not pass " + describe(machine_, devices_[static_cast<size_t>(missed - passed.begin())]));
  }

  const XmlDocument& doc_;
  const Machine& machine_;
  std::span<const NodeId> devices_;
  std::map<int64_t, int> gpus_;
  std::map<int64_t, int> cpus_;
  std::map<int64_t, NodeId> ports_;  ///< of equal numbers the first
};

}  // namespace

int64_t number_of(const Machine& machine, std::span<const NodeId> devices, size_t place) {
  const NodeId id = devices[place];
  const int number = machine.node(id).kind == topo::NodeKind::cpu_rank ? machine.cpu_rank(id).rank : machine.gpu(id).dev;
  return number >= 0 ? number : static_cast<int64_t>(place);
}

Result<std::vector<FileGraph>> from_graph_xml(std::string_view text, const std::string& file, const Machine& machine,
                                              std::span<const NodeId> devices) {
  RONDE_TRY(const std::unique_ptr<XmlDocument> document, XmlDocument::parse(text, file));
  return Reader(*document, machine, devices).run();
}

}  // namespace ronde::graph
