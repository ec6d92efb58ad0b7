// What is known of a Machine's parts, as named values, and how tools show it.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "topo/machine.h"

namespace ronde::topo::tool {

/// One thing that is known of a node. Names end with the unit where the value has one.
struct Fact {
  std::string name;
  std::variant<int64_t, double, std::string> value;
  bool operator==(const Fact&) const = default;
};
std::string text_of(const Fact& fact);

/// All that is known of a node but its links and its place; nothing for what is unknown.
std::vector<Fact> facts_of(const Machine& machine, NodeId id);

/// Who is below whom.
struct Family {
  explicit Family(const Machine& machine);
  std::vector<std::vector<NodeId>> children;  ///< by node, in order
  std::vector<LinkId> up;                     ///< by node, the link to its parent; kNone without one
  std::vector<std::vector<LinkId>> across;    ///< by node, its links to others than parent and children
  const std::vector<NodeId>& below(NodeId id) const { return children[static_cast<size_t>(id)]; }
};
/// The other end of a link.
inline NodeId other_end(const Link& link, NodeId one) { return link.a == one ? link.b : link.a; }

/// Hosts of one build, numbers, names and addresses aside.
struct HostGroup {
  std::vector<int32_t> hosts;
};
/// All hosts in groups, in the order of their first hosts.
std::vector<HostGroup> alike(const Machine& machine, const Family& family);

/// What channels are made for: the GPUs, or where there are none the CPU ranks.
std::vector<NodeId> devices_of(const Machine& machine);
/// "gpu3", "cpu0", "mlx5_0", after "h2:" where there are several hosts.
std::string short_name(const Machine& machine, NodeId id);
/// "370.8", from MB/s.
std::string gbps(int64_t rate);
/// "370.8 GB/s", with "?" after the number where it is assumed.
std::string rate_of(const Link& link);
/// "0-3, 8".
std::string number_list(const std::vector<int>& numbers);
/// "3 GPUs", "1 GPU"; `plural` for words that take no s.
std::string counted(size_t count, const std::string& one, const std::string& plural = "");
std::string cpu_list(const CpuMask& cpus);

}  // namespace ronde::topo::tool
