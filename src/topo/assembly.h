// Puts a Machine together from what a source knows (a file, the running host): keeps what was stated, fills in what was not,
// derives the links.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topo/machine.h"
#include "topo/speeds.h"

namespace ronde::topo {

/// Sentences about what was replaced or ignored, each reason once with all that it concerns.
class Notes {
 public:
  void add(std::string reason, std::string whom);
  /// "reason: first, second, third and 5 more"; in the order in which reasons first came.
  std::vector<std::string> sentences() const;

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> groups_;
  std::map<std::string, size_t> places_;  ///< in groups_, by reason: a broken file has many
};

/// The other end of a GPU's NVLink or xGMI links, as sources name it.
struct Target {
  enum class Kind : uint8_t {
    any,        ///< a GPU or, where no GPU has that address, nothing
    nv_switch,  ///< `address` has more than 16 bits of domain where the source sees "the switch" only
    cpu,
  };
  Kind kind = Kind::any;
  std::optional<PciAddress> address;
  int rank = -1;        ///< where there is no address
  NodeId node = kNone;  ///< the GPU itself, where the source knows it
};

/// The most links of one GPU to one other, and to its CPU.
inline constexpr int kMaxPeerLinks = 1024;

/// Where a text named things first, to notice those that it names twice. Each function returns the line of the first, or 0 for a
/// new one.
class FirstLines {
 public:
  int numa(int32_t host, int id, int line) { return first(numas_, {host, id}, line); }
  int rank(int rank, int line) { return first(ranks_, rank, line); }
  /// Addresses that several functions share are no error, unless one of them is a GPU.
  int address(int32_t host, const PciAddress& address, bool gpu, int line, Notes& notes);

 private:
  template <class Map>
  static int first(Map& map, typename Map::key_type key, int line) {
    const auto [place, is_new] = map.emplace(key, line);
    return is_new ? 0 : place->second;
  }
  std::map<std::pair<int32_t, int>, int> numas_;
  std::map<int, int> ranks_;
  std::map<std::pair<int32_t, PciAddress>, std::pair<int, bool>> addresses_;
};

/// Add in preorder: a parent, then all of its descendants, then what follows. All functions that add return the new node's id.
class Assembly {
 public:
  /// The index of the host with that identity, new or not; 0 is one unnamed host.
  int32_t host(uint64_t hash);
  NodeId numa(int32_t host, Numa numa);
  /// kind: pci_switch or pci_function.
  NodeId pci(NodeKind kind, NodeId parent, Pci pci);
  /// A GPU with its own PCI function; without, one whose function is not known or, below a pci_function, a part of that GPU.
  NodeId gpu(NodeId parent, std::optional<Pci> pci, Gpu gpu);
  NodeId cpu_rank(NodeId numa, CpuRank rank);
  /// Without a PCI function: virtual, or of unknown place.
  NodeId nic(NodeId parent, std::optional<Pci> pci);
  NodeId port(NodeId nic, Port port);

  /// `count` links of kind nvlink or xgmi, as `gpu` itself sees them. Its links to all of a host's, or domain's, NVLink switches
  /// become one.
  void peer(NodeId gpu, LinkKind kind, Target target, int count);
  /// A direct path between two PCI switches of one host.
  void pci_peer(NodeId pci_switch, PciAddress target);

  Notes& notes() { return notes_; }
  const Machine& so_far() const { return m_; }
  /// The Machine, in which check() finds nothing. Call once, last; only notes() is of use afterwards.
  Machine finish();

 private:
  struct Peer {
    NodeId gpu;
    LinkKind kind;
    Target target;
    int count;
  };
  /// Links between two nodes as each of them counts them.
  struct Counts {
    int low = 0;
    int high = 0;
  };

  NodeId add(NodeKind kind, NodeId parent, std::optional<Pci> pci, size_t table_size);
  void parent_links();
  Link parent_link(NodeId id, const std::vector<NodeId>& children, const std::vector<Link>& links);
  Link function_link(NodeId id);
  Link switch_link(NodeId id, const std::vector<NodeId>& children, const std::vector<Link>& links);
  void peer_links();
  NodeId other_end(const Peer& peer);
  /// What joins GPUs as one NVLink switch: those of a host; or of a domain (0: the one that has no name), where the host is
  /// kNone.
  using SwitchKey = std::pair<int32_t, uint64_t>;
  SwitchKey switch_of(const Peer& peer) const;
  void add_switches();
  Link peer_link(LinkKind kind, NodeId low, NodeId high, const Counts& counts);
  Rate per_link(NodeId node, LinkKind kind) const;
  void index_gpus();
  /// True for a GPU that shares its PCI function, its parent, with others.
  bool is_part(NodeId gpu) const {
    return m_.node(gpu).pci == kNone && m_.node(m_.node(gpu).parent).kind == NodeKind::pci_function;
  }
  /// How many GPUs share a GPU's function, itself included.
  int parts(NodeId gpu) const;
  void c2c_links();
  void pci_peer_links();
  void socket_links();
  void network_links();

  Machine m_;
  std::map<uint64_t, int32_t> hosts_;  ///< by hash
  Notes notes_;
  std::vector<Peer> peers_;
  std::vector<std::pair<NodeId, PciAddress>> pci_peers_;
  // For finish().
  std::vector<std::pair<std::string, std::string>> link_notes_;  ///< last node first
  std::map<std::pair<int32_t, PciAddress>, NodeId> by_address_;  ///< GPUs by host and address
  std::map<int, NodeId> by_rank_;
  std::map<NodeId, int> parts_;  ///< GPUs of a pci_function
  std::map<SwitchKey, NodeId> nv_switches_;
};

}  // namespace ronde::topo
