// Tree: two binary trees over the ring's order, each carrying half of the data; a rank that is inner in one is a leaf in the
// other (so each sends about the data once), and the depth is logarithmic. Tree t uses link t. All-reduce goes up and down in two
// lanes; the root hands from one to the other through a FIFO to itself, so that slices pipeline. Broadcast and reduce lay both
// trees over the other n-1 ranks and hang the tops of both below the root: the root then moves each half once, and the other
// ranks keep the property above, which a tree re-rooted at an arbitrary rank would lose.
// With several nodes the trees join the nodes, and a chain from the rank that stands in the tree passes through the others of its
// node; tree t begins the chain at the node's rank t, so that two ranks share the traffic between nodes.
#include <algorithm>
#include <bit>

#include "plan/build.h"

namespace ronde {
namespace {

bool supports(const CollSpec& spec) {
  return spec.coll == Coll::all_reduce || spec.coll == Coll::broadcast || spec.coll == Coll::reduce;
}

/// With three ranks both trees of an all-reduce are a root with two leaves, folded in one Move.
bool canonical(const CollSpec& spec) {
  return !has_reduction(spec.coll) || spec.ranks <= (spec.coll == Coll::all_reduce ? 3 : 2);
}

/// The in-order binary tree over 1..n: the number of trailing zeros is a node's height, odd numbers are leaves.
struct Node {
  int parent = 0;  ///< 0: none
  int left = 0;
  int right = 0;
};
Node node(int x, int n) {
  Node it;
  const int size = x & -x;
  it.parent = (x | (size << 1)) & ~size;
  if (it.parent > n) it.parent = x & ~size;
  if (size == 1) return it;
  it.left = x - size / 2;
  for (int step = size / 2; step > 0 && it.right == 0; step /= 2) {
    if (x + step <= n) it.right = x + step;
  }
  return it;
}

/// The neighbours of one rank in tree t over `line`; an absent parent is the top's.
struct Place {
  std::vector<Peer> parent;
  std::vector<Peer> children;  ///< ascending
};

/// Tree 0 puts node x at position x-1; tree 1 is its mirror image (n even) or shifted by one (n odd): inner nodes then meet
/// leaves.
int position_of(int x, int n, uint32_t tree) {
  if (tree == 0) return x - 1;
  return n % 2 == 0 ? n - x : x % n;
}

/// What a tree joins: chains of ranks, of which the first stands in the tree. On one node each rank is a chain; so it is with
/// three ranks, which then fold in one Move.
using Chains = std::vector<std::vector<int>>;
Chains chains_of(const CollSpec& spec, const Channel& channel, uint32_t tree) {
  Chains chains = nodes_of(channel);
  if (chains.size() > 1 && spec.ranks > 3) {
    for (auto& chain : chains) std::rotate(chain.begin(), chain.begin() + static_cast<int>(tree % chain.size()), chain.end());
    return chains;
  }
  chains.clear();
  for (int rank : channel.ring) chains.push_back({rank});
  return chains;
}

void add_child(Place& it, int rank, uint32_t tree) {
  const auto before = [](const Peer& a, const Peer& b) { return a.rank < b.rank; };
  const Peer child{rank, tree};
  it.children.insert(std::upper_bound(it.children.begin(), it.children.end(), child, before), child);
}

/// The neighbours in its chain of the k-th rank.
Place place_in(const std::vector<int>& chain, size_t k, uint32_t tree) {
  Place it;
  if (k > 0) it.parent.push_back({chain[k - 1], tree});
  if (k + 1 < chain.size()) add_child(it, chain[k + 1], tree);
  return it;
}

/// The neighbours of `rank`, one of the ranks of `line`, in tree and chain.
Place place(const Chains& line, int rank, uint32_t tree) {
  const int n = static_cast<int>(line.size());
  size_t c = 0;
  while (std::find(line[c].begin(), line[c].end(), rank) == line[c].end()) ++c;
  const size_t k = static_cast<size_t>(std::find(line[c].begin(), line[c].end(), rank) - line[c].begin());
  Place it = place_in(line[c], k, tree);
  if (k > 0) return it;
  int x = 1;
  while (position_of(x, n, tree) != static_cast<int>(c)) ++x;
  const auto head = [&](int y) { return line[static_cast<size_t>(position_of(y, n, tree))][0]; };
  const Node here = node(x, n);
  if (here.parent != 0) it.parent.push_back({head(here.parent), tree});
  if (here.left != 0) add_child(it, head(here.left), tree);
  if (here.right != 0) add_child(it, head(here.right), tree);
  return it;
}

void all_reduce(Builder& b, const Place& here, uint32_t tree) {
  const size_t up = 2 * tree;
  const size_t down = up + 1;
  const Peer self{b.rank(), tree};
  if (here.parent.empty()) {
    b.add(up, {.in = here.children, .src = input(tree), .dst = output(tree), .out = only(self), .flags = kMoveFinal});
    b.add(down, {.in = only(self), .dst = output(tree), .out = here.children});
  } else {
    b.add(up, {.in = here.children, .src = input(tree), .out = here.parent});
    b.add(down, {.in = here.parent, .dst = output(tree), .out = here.children});
  }
}

/// The neighbours of `rank` where the tree joins all chains but the root's, and its top hangs below the root.
Place place_below(int root, Chains chains, int rank, uint32_t tree) {
  const auto holds = [](const std::vector<int>& chain, int one) {
    return std::find(chain.begin(), chain.end(), one) != chain.end();
  };
  std::rotate(chains.begin(), std::find_if(chains.begin(), chains.end(), [&](const auto& chain) { return holds(chain, root); }),
              chains.end());
  std::vector<int> own = std::move(chains.front());
  std::rotate(own.begin(), std::find(own.begin(), own.end(), root), own.end());
  chains.erase(chains.begin());
  if (!holds(own, rank)) {
    Place it = place(chains, rank, tree);
    if (it.parent.empty()) it.parent.push_back({root, tree});
    return it;
  }
  Place it = place_in(own, static_cast<size_t>(std::find(own.begin(), own.end(), rank) - own.begin()), tree);
  const int n = static_cast<int>(chains.size());
  if (rank == root)
    add_child(it, chains[static_cast<size_t>(position_of(static_cast<int>(std::bit_floor(chains.size())), n, tree))][0], tree);
  return it;
}

void rooted(Builder& b, bool reduce, const Place& here, uint32_t tree) {
  const bool root = here.parent.empty();
  if (reduce && root) b.add(tree, {.in = here.children, .src = input(tree), .dst = output(tree), .flags = kMoveFinal});
  if (reduce && !root) b.add(tree, {.in = here.children, .src = input(tree), .out = here.parent});
  if (!reduce && root) b.add(tree, {.src = input(tree), .dst = output(tree), .out = here.children});
  if (!reduce && !root) b.add(tree, {.in = here.parent, .dst = output(tree), .out = here.children});
}

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  if (spec.ranks == 1) return alone(spec, channel);
  Builder b(spec, channel, rank, 2);
  for (uint32_t tree = 0; tree < 2; ++tree) {
    const Chains chains = chains_of(spec, channel, tree);
    if (has_root(spec.coll)) {
      rooted(b, spec.coll == Coll::reduce, place_below(spec.root, chains, rank, tree), tree);
    } else {
      all_reduce(b, place(chains, rank, tree), tree);
    }
  }
  return b.take();
}

}  // namespace

constinit const Algorithm kTree{"tree", supports, canonical, build};

}  // namespace ronde
