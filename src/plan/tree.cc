// Tree: two binary trees over the ring's order, each carrying half of the data; a rank that is inner in one is a leaf in the
// other (so each sends about the data once), and the depth is logarithmic. Tree t uses link t. All-reduce goes up and down in two
// lanes; the root hands from one to the other through a FIFO to itself, so that slices pipeline. Broadcast and reduce lay both
// trees over the other n-1 ranks and hang the tops of both below the root: the root then moves each half once, and the other
// ranks keep the property above, which a tree re-rooted at an arbitrary rank would lose.
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

Place place(const std::vector<int>& line, int position, uint32_t tree) {
  const int n = static_cast<int>(line.size());
  int x = 1;
  while (position_of(x, n, tree) != position) ++x;
  const auto peer = [&](int y) { return Peer{line[static_cast<size_t>(position_of(y, n, tree))], tree}; };
  const Node here = node(x, n);
  Place it;
  if (here.parent != 0) it.parent.push_back(peer(here.parent));
  if (here.left != 0) it.children.push_back(peer(here.left));
  if (here.right != 0) it.children.push_back(peer(here.right));
  std::sort(it.children.begin(), it.children.end(), [](const Peer& a, const Peer& b) { return a.rank < b.rank; });
  return it;
}

void all_reduce(Builder& b, const std::vector<int>& ring, uint32_t tree) {
  const Place here = place(ring, b.position(b.rank()), tree);
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

/// `others` are all ranks but the root, in the order of the ring.
void rooted(Builder& b, const CollSpec& spec, const std::vector<int>& others, uint32_t tree) {
  const bool reduce = spec.coll == Coll::reduce;
  const Peer root{spec.root, tree};
  if (b.rank() == spec.root) {
    const int n = static_cast<int>(others.size());
    const int top = position_of(static_cast<int>(std::bit_floor(others.size())), n, tree);
    const Peer child{others[static_cast<size_t>(top)], tree};
    if (reduce) b.add(tree, {.in = only(child), .src = input(tree), .dst = output(tree), .flags = kMoveFinal});
    if (!reduce) b.add(tree, {.src = input(tree), .dst = output(tree), .out = only(child)});
    return;
  }
  const auto at = std::find(others.begin(), others.end(), b.rank());
  Place here = place(others, static_cast<int>(at - others.begin()), tree);
  if (here.parent.empty()) here.parent.push_back(root);
  if (reduce) b.add(tree, {.in = here.children, .src = input(tree), .out = here.parent});
  if (!reduce) b.add(tree, {.in = here.parent, .dst = output(tree), .out = here.children});
}

Result<Program> build(const CollSpec& spec, const Channel& channel, int rank) {
  if (spec.ranks == 1) return alone(spec, channel);
  Builder b(spec, channel, rank, 2);
  std::vector<int> line = channel.ring;
  if (has_root(spec.coll)) {
    std::rotate(line.begin(), std::find(line.begin(), line.end(), spec.root), line.end());
    line.erase(line.begin());
  }
  for (uint32_t tree = 0; tree < 2; ++tree) {
    if (has_root(spec.coll)) {
      rooted(b, spec, line, tree);
    } else {
      all_reduce(b, line, tree);
    }
  }
  return b.take();
}

}  // namespace

constinit const Algorithm kTree{"tree", supports, canonical, build};

}  // namespace ronde
