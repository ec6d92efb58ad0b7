#include "plan/build.h"

#include <algorithm>
#include <map>

namespace ronde {

Builder::Builder(const CollSpec& spec, const Channel& channel, int rank, size_t blocks, size_t scratch_blocks)
    : spec_(spec), channel_(channel) {
  program_.rank = rank;
  program_.channel = channel.index;
  program_.blocks = static_cast<uint32_t>(blocks);
  program_.scratch_blocks = static_cast<uint32_t>(scratch_blocks);
}

int Builder::position(int rank) const {
  return static_cast<int>(std::find(channel_.ring.begin(), channel_.ring.end(), rank) - channel_.ring.begin());
}

int Builder::at(int position) const {
  const int n = ranks();
  return channel_.ring[static_cast<size_t>(((position % n) + n) % n)];
}

std::vector<Peer> Builder::others() const {
  std::vector<Peer> list;
  for (int r = 0; r < ranks(); ++r) {
    if (r != rank()) list.push_back({r, 0});
  }
  return list;
}

void Builder::add(size_t lane, const Draft& draft) {
  Move move;
  move.in_first = intern_peers(program_.peers, draft.in);
  move.in_count = static_cast<uint16_t>(draft.in.size());
  move.out_first = intern_peers(program_.peers, draft.out);
  move.out_count = static_cast<uint16_t>(draft.out.size());
  move.src = draft.src.buf;
  move.src_block = draft.src.index;
  move.dst = draft.dst.buf;
  move.dst_block = draft.dst.index;
  move.n_blocks = draft.n_blocks;
  move.flags = draft.flags;
  if (move.src != Buf::none) {
    const auto below = [this](const Peer& peer) { return peer.rank < rank(); };
    move.src_at = static_cast<uint16_t>(std::count_if(draft.in.begin(), draft.in.end(), below));
  }
  if (program_.lanes.size() <= lane) program_.lanes.resize(lane + 1);
  program_.lanes[lane].push_back(move);
}

Program Builder::take() {
  std::erase_if(program_.lanes, [](const auto& lane) { return lane.empty(); });
  if (program_.lanes.size() > 1) {
    const std::vector<Peer> added = std::move(program_.peers);
    program_.peers.clear();
    for (auto& lane : program_.lanes) {
      for (Move& move : lane) {
        move.in_first = intern_peers(program_.peers, std::span(added).subspan(move.in_first, move.in_count));
        move.out_first = intern_peers(program_.peers, std::span(added).subspan(move.out_first, move.out_count));
      }
    }
  }
  return std::move(program_);
}

uint32_t intern_peers(std::vector<Peer>& table, std::span<const Peer> list) {
  if (list.empty()) return 0;
  auto found = std::search(table.begin(), table.end(), list.begin(), list.end());
  if (found == table.end()) found = table.insert(found, list.begin(), list.end());
  return static_cast<uint32_t>(found - table.begin());
}

std::vector<std::vector<int>> nodes_of(const Channel& channel) {
  if (channel.node_of.empty()) return {channel.ring};
  std::vector<std::vector<int>> nodes;
  std::map<int, size_t> index;
  for (int rank : channel.ring) {
    const size_t node = index.try_emplace(channel.node_of[static_cast<size_t>(rank)], nodes.size()).first->second;
    if (node == nodes.size()) nodes.emplace_back();
    nodes[node].push_back(rank);
  }
  return nodes;
}

NodeShape node_shape(const std::vector<int>& node_of) {
  std::map<int, int> sizes;
  for (const int node : node_of) ++sizes[node];
  if (sizes.size() < 2) return {};
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return {static_cast<int>(sizes.size()), least->second, most->second};
}

Program alone(const CollSpec& spec, const Channel& channel) {
  Builder b(spec, channel, 0, 1);
  b.add(0, {.src = input(0), .dst = output(0), .flags = has_reduction(spec.coll) ? kMoveFinal : uint8_t{0}});
  return b.take();
}

}  // namespace ronde
