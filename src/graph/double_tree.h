// Two binary trees over the same nodes, for halves of the data.
#pragma once

#include <vector>

namespace ronde::graph {

/// The parents of nodes 0..n-1, -1 for the root; n at least 1. Every node has two children at most. In the second tree nodes that
/// have children in the first have none, except one where n is odd, which then has none in either.
std::vector<int> binary_tree(int n, bool second);

/// The most edges that end at one node, in both trees together.
int most_edges(int n);

}  // namespace ronde::graph
