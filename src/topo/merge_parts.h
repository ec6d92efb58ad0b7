// What merging several Machines of one host consists of.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "topo/assembly.h"
#include "topo/machine.h"

namespace ronde::topo {

/// Fills in the details of one node from another description of it. Contradictions go to the notes; what was there first counts.
class Facts {
 public:
  enum class Cpus : uint8_t {
    either,  ///< those that any description has
    both,    ///< those that all descriptions have
  };

  Facts(Notes& notes, Cpus cpus) : notes_(notes), cpus_(cpus) {}

  /// The node that the next calls take facts from.
  void about(const Machine& machine, NodeId id) {
    machine_ = &machine;
    id_ = id;
  }
  void unite(Pci& mine, const Pci& theirs);
  void unite(Numa& mine, const Numa& theirs);
  void unite(Gpu& mine, const Gpu& theirs);
  void unite(CpuRank& mine, const CpuRank& theirs);
  void unite(Port& mine, const Port& theirs);
  /// "what, of which the first counts: whom: mine, not theirs".
  void contradiction(const char* what, const std::string& mine, const std::string& theirs);

 private:
  template <class T>
  void fill(const char* what, T& mine, const T& theirs, const T& unknown);

  Notes& notes_;
  const Cpus cpus_;
  const Machine* machine_ = nullptr;
  NodeId id_ = kNone;
};

/// A node of a HostUnion.
struct UnionItem {
  NodeKind kind = NodeKind::numa;
  int parent = kNone;
  std::vector<int> children;
  std::optional<Pci> pci;
  std::variant<std::monostate, Numa, Gpu, CpuRank, Port> detail;
  int view = kNone;     ///< the last description that it was found in
  NodeId node = kNone;  ///< in the result
};

/// Everything that several descriptions say of one host. The first one is taken as it is; of the others what it lacks.
class HostUnion {
 public:
  explicit HostUnion(uint64_t hash) : hash_(hash) {}
  uint64_t hash() const { return hash_; }

  /// The item of a node, found or new; kNone where by what earlier descriptions say it cannot be there. `items` has those of
  /// all nodes of `machine`, at first kUnplaced, and is written to; `view` is the number of this description.
  int place(const Machine& machine, NodeId id, int view, std::vector<int>& items, Facts& facts);
  static constexpr int kUnplaced = -2;

  std::vector<UnionItem>& items() { return items_; }
  UnionItem& item(int index) { return items_[static_cast<size_t>(index)]; }
  /// Adds all nodes to an Assembly and fills UnionItem::node.
  void emit(Assembly& assembly);

 private:
  /// What things of one identity are found by. Where several have the same, they are taken in order.
  using Key = std::tuple<int, int64_t, int64_t, std::string>;
  struct Chain {
    std::vector<int> items;
    int view = kNone;
    size_t next = 0;
  };

  std::vector<Key> keys(const Machine& machine, NodeId id, const std::vector<int>& items) const;
  int find(const Machine& machine, NodeId id, int view, const std::vector<int>& items);
  int take(const Key& key, int view);
  int create(const Machine& machine, NodeId id, int view, int parent);
  int unite(const Machine& machine, NodeId id, int index, Facts& facts);
  int root_of(int index) const;
  void emit(Assembly& assembly, int index, NodeId parent);

  uint64_t hash_;
  int first_view_ = kNone;
  std::vector<UnionItem> items_;
  std::vector<int> roots_;
  std::map<Key, Chain> chains_;
};

}  // namespace ronde::topo
