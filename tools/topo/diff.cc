#include "tools/topo/diff.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/words.h"
#include "tools/topo/facts.h"

namespace ronde::topo::tool {
namespace {

/// A Machine's nodes and links by what identifies them.
struct Named {
  const Machine& machine;
  std::vector<std::string> keys;  ///< by node
  std::map<std::string, NodeId> nodes;
  std::map<std::string, const Link*> links;
};

/// What identifies a node within its host; where nothing does, `ordinal` among its siblings.
std::string identity(const Machine& m, NodeId id, const std::string& parent, size_t ordinal) {
  const Node& node = m.node(id);
  const std::string kind = to_string(node.kind);
  if (node.kind == NodeKind::numa && m.numa(id).id >= 0) return fmt::format("{} {}", kind, m.numa(id).id);
  if (const Pci* pci = m.pci_of(id)) return kind + " " + to_string(pci->address);
  if (node.kind == NodeKind::port && !m.port(id).name.empty()) return kind + " " + m.port(id).name;
  if (node.kind == NodeKind::gpu && m.gpu(id).part >= 0) return fmt::format("{}, part {}", parent, m.gpu(id).part);
  if (node.kind == NodeKind::gpu && m.gpu(id).rank >= 0) return fmt::format("{} of rank {}", kind, m.gpu(id).rank);
  if (node.kind == NodeKind::cpu_rank && m.cpu_rank(id).rank >= 0) return fmt::format("{} of rank {}", kind, m.cpu_rank(id).rank);
  if (node.kind == NodeKind::network || node.kind == NodeKind::nv_switch) return kind;
  return parent.empty() ? fmt::format("{} number {}", kind, ordinal) : fmt::format("{} number {} of {}", kind, ordinal, parent);
}

/// Hosts go by their identity where all have one, else by their place.
std::string host_name(const Machine& m, int32_t host) {
  if (m.hosts.size() <= 1 || host == kNone) return "";
  const bool named = std::all_of(m.hosts.begin(), m.hosts.end(), [](const Host& h) { return h.hash != 0; });
  return named ? fmt::format(" of host {:x}", m.hosts[static_cast<size_t>(host)].hash) : fmt::format(" of host {}", host);
}

Named name_all(const Machine& m) {
  Named named{m, {}, {}, {}};
  std::map<std::string, size_t> siblings;
  for (size_t i = 0; i < m.nodes.size(); ++i) {
    const auto id = static_cast<NodeId>(i);
    const NodeId up = m.nodes[i].parent;
    std::string parent = up == kNone ? "" : named.keys[static_cast<size_t>(up)];
    const std::string host = host_name(m, m.nodes[i].host);
    if (!host.empty() && parent.size() > host.size()) parent.resize(parent.size() - host.size());
    const size_t ordinal = siblings[fmt::format("{}/{}", up, to_string(m.nodes[i].kind))]++;
    std::string key = identity(m, id, parent, ordinal) + host;
    // Bus ids of adapters may stand twice.
    for (int again = 2; named.nodes.count(key) != 0; ++again)
      key = identity(m, id, parent, ordinal) + fmt::format(" ({})", again) + host;
    named.nodes[key] = id;
    named.keys.push_back(key);
  }
  for (const Link& link : m.links) {
    const std::string& a = named.keys[static_cast<size_t>(link.a)];
    const std::string& b = named.keys[static_cast<size_t>(link.b)];
    // The parent of a node may be another one; its link upwards is the same.
    const bool up = m.node(link.a).parent == link.b && link.kind != LinkKind::c2c;
    named.links[up ? fmt::format("the link of {} upwards", a)
                   : fmt::format("{} between {} and {}", to_string(link.kind), std::min(a, b), std::max(a, b))] = &link;
  }
  return named;
}

std::string what_of(const Link& link) {
  return fmt::format("{} x{}, {} GB/s ({})", to_string(link.kind), link.count, gbps(link.rate), to_string(link.source));
}

class Diff {
 public:
  Diff(const Machine& one, const Machine& other, const std::string& a, const std::string& b)
      : one_(name_all(one)), other_(name_all(other)), a_(a), b_(b) {}

  std::vector<std::string> run() {
    if (one_.machine.hosts.size() == 1 && other_.machine.hosts.size() == 1) host();
    alone(one_.nodes, other_.nodes, a_);
    alone(other_.nodes, one_.nodes, b_);
    for (const NodeId id : shared()) node(id, other_.nodes.at(one_.keys[static_cast<size_t>(id)]));
    for (const auto& [key, link] : one_.links) links(key, *link);
    for (const auto& [key, link] : other_.links) {
      if (one_.links.count(key) == 0 && both_ends(other_, *link, one_))
        say("{}: only in {}: {}", printable(key), b_, what_of(*link));
    }
    return std::move(found_);
  }

 private:
  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    found_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void host() {
    const uint64_t a = one_.machine.hosts[0].hash;
    const uint64_t b = other_.machine.hosts[0].hash;
    if (a != b) say("identity of the host: {:x} in {}, {:x} in {}", a, a_, b, b_);
  }

  void alone(const std::map<std::string, NodeId>& here, const std::map<std::string, NodeId>& there, const std::string& name) {
    for (const auto& [key, id] : here) {
      if (there.count(key) == 0) say("only in {}: {}", name, printable(key));
    }
  }

  std::vector<NodeId> shared() const {
    std::vector<NodeId> ids;
    for (size_t i = 0; i < one_.keys.size(); ++i) {
      if (other_.nodes.count(one_.keys[i]) != 0) ids.push_back(static_cast<NodeId>(i));
    }
    return ids;
  }

  std::string parent_key(const Named& named, NodeId id) const {
    const NodeId parent = named.machine.node(id).parent;
    return parent == kNone ? "" : named.keys[static_cast<size_t>(parent)];
  }

  void node(NodeId a, NodeId b) {
    const std::string& key = one_.keys[static_cast<size_t>(a)];
    const std::string parent_a = parent_key(one_, a);
    const std::string parent_b = parent_key(other_, b);
    if (parent_a != parent_b) {
      say("{}: below {} in {}, below {} in {}", printable(key), printable(parent_a), a_, printable(parent_b), b_);
    }
    std::map<std::string, std::pair<std::string, std::string>> facts;
    for (const Fact& fact : facts_of(one_.machine, a)) facts[fact.name].first = text_of(fact);
    for (const Fact& fact : facts_of(other_.machine, b)) facts[fact.name].second = text_of(fact);
    for (const auto& [name, values] : facts) {
      if (values.first == values.second) continue;
      say("{}: {} {} in {}, {} in {}", printable(key), name, known(values.first), a_, known(values.second), b_);
    }
  }

  static std::string known(const std::string& value) { return value.empty() ? "unknown" : printable(value); }

  /// Links of what is only in one are not said again.
  static bool both_ends(const Named& named, const Link& link, const Named& there) {
    return there.nodes.count(named.keys[static_cast<size_t>(link.a)]) != 0 &&
           there.nodes.count(named.keys[static_cast<size_t>(link.b)]) != 0;
  }

  void links(const std::string& key, const Link& link) {
    const auto same = other_.links.find(key);
    if (same == other_.links.end()) {
      if (both_ends(one_, link, other_)) say("{}: only in {}: {}", printable(key), a_, what_of(link));
      return;
    }
    const std::string a = what_of(link);
    const std::string b = what_of(*same->second);
    if (a != b) say("{}: {} in {}, {} in {}", printable(key), a, a_, b, b_);
  }

  Named one_;
  Named other_;
  const std::string& a_;
  const std::string& b_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> differences(const Machine& one, const Machine& other, const std::string& a, const std::string& b) {
  std::vector<std::string> found = Diff(one, other, a, b).run();
  // Ranks, numbers and channels may follow the order.
  if (found.empty() && one != other) found.push_back("the same nodes and links, in another order");
  return found;
}

}  // namespace ronde::topo::tool
