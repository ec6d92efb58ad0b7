#include "graph/double_tree.h"

#include <algorithm>

namespace ronde::graph {
namespace {

/// In the tree in which 1..n stand in order: a number with b as its lowest bit has its children at a distance of b / 2, the
/// right one nearer where the tree ends. Odd numbers have none. 0 for the root.
int parent_in_order(int number, int n) {
  const int low = number & -number;
  const int up = (number ^ low) | (low << 1);
  return up <= n ? up : number ^ low;
}

}  // namespace

std::vector<int> binary_tree(int n, bool second) {
  // The second has other numbers for the nodes, odd for even: mirrored, or where that changes nothing, shifted by one.
  const bool mirrored = n % 2 == 0;
  const auto number = [&](int node) { return !second ? node + 1 : mirrored ? n - node : node == 0 ? n : node; };
  std::vector<int> node_of(static_cast<size_t>(n) + 1, -1);
  for (int node = 0; node < n; ++node) node_of[static_cast<size_t>(number(node))] = node;
  std::vector<int> parent;
  for (int node = 0; node < n; ++node) parent.push_back(node_of[static_cast<size_t>(parent_in_order(number(node), n))]);
  return parent;
}

int most_edges(int n) {
  std::vector<int> edges(static_cast<size_t>(n), 0);
  for (const bool second : {false, true}) {
    const std::vector<int> parent = binary_tree(n, second);
    for (size_t node = 0; node < parent.size(); ++node) {
      if (parent[node] == -1) continue;
      ++edges[node];
      ++edges[static_cast<size_t>(parent[node])];
    }
  }
  return *std::max_element(edges.begin(), edges.end());
}

}  // namespace ronde::graph
