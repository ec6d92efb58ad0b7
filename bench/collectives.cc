#include "bench/collectives.h"

#include <array>

namespace ronde::bench {
namespace {

// Shapes.

Shape whole(size_t elements, size_t, int) { return {elements, elements, elements, 0, 0}; }

/// Elements per rank: rounded down to whole 16 bytes.
size_t per_rank(size_t elements, size_t element_bytes, int nranks) {
  const size_t unit = 16 / element_bytes;
  return elements / static_cast<size_t>(nranks) / unit * unit;
}

Shape one_to_all(size_t elements, size_t element_bytes, int nranks) {
  const size_t share = per_rank(elements, element_bytes, nranks);
  return {share, share * static_cast<size_t>(nranks), share, share, 0};
}

Shape all_to_one(size_t elements, size_t element_bytes, int nranks) {
  const size_t share = per_rank(elements, element_bytes, nranks);
  return {share * static_cast<size_t>(nranks), share, share, 0, share};
}

Shape all_to_all(size_t elements, size_t element_bytes, int nranks) {
  const size_t share = per_rank(elements, element_bytes, nranks);
  return {share * static_cast<size_t>(nranks), share * static_cast<size_t>(nranks), share, 0, 0};
}

// Traffic.

Traffic twice_but_one(const Shape& shape, size_t element_bytes, int nranks) {
  return {static_cast<double>(shape.larger() * element_bytes), 2.0 * (nranks - 1) / nranks};
}

Traffic all_but_one(const Shape& shape, size_t element_bytes, int nranks) {
  return {static_cast<double>(shape.larger() * element_bytes), (nranks - 1.0) / nranks};
}

Traffic once(const Shape& shape, size_t element_bytes, int) { return {static_cast<double>(shape.larger() * element_bytes), 1}; }

Traffic others(const Shape& shape, size_t element_bytes, int nranks) {
  return {static_cast<double>(shape.count * element_bytes) * (nranks - 1), 1};
}

// Steps.

int one_step(int) { return 1; }

int dimensions(int nranks) {
  int steps = 0;
  while ((1 << steps) < nranks) ++steps;
  return steps > 0 ? steps : 1;
}

// Calls.

void* at(void* buffer, size_t elements, ncclDataType_t type) { return static_cast<char*>(buffer) + elements * type_size(type); }

ncclResult_t start_sendrecv(const Call& c) {
  const int next = (c.rank + 1) % c.nranks;
  const int previous = (c.rank + c.nranks - 1) % c.nranks;
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) result = ncclSend(c.send, c.count, c.type, next, c.comm, c.stream);
  if (result == ncclSuccess) result = ncclRecv(c.recv, c.count, c.type, previous, c.comm, c.stream);
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

/// An all-gather: in step k each rank swaps the 2^k blocks that it has with the rank whose number differs in bit k. The first
/// step brings the own block from the send buffer to its place too.
ncclResult_t start_hypercube(const Call& c) {
  const auto width = size_t{1} << c.step;
  const int partner = c.rank ^ static_cast<int>(width);
  const size_t own = static_cast<size_t>(c.rank) & ~(width - 1);
  const bool first = c.step == 0;
  const void* from = first ? c.send : at(c.recv, own * c.count, c.type);
  void* own_place = at(c.recv, static_cast<size_t>(c.rank) * c.count, c.type);
  ncclResult_t result = ncclGroupStart();
  const auto then = [&result](ncclResult_t next) {
    if (result == ncclSuccess) result = next;
  };
  if (first && c.send != own_place) {
    then(ncclSend(c.send, c.count, c.type, c.rank, c.comm, c.stream));
    then(ncclRecv(own_place, c.count, c.type, c.rank, c.comm, c.stream));
  }
  if (partner < c.nranks) {
    then(ncclSend(from, c.count * width, c.type, partner, c.comm, c.stream));
    then(ncclRecv(at(c.recv, (own ^ width) * c.count, c.type), c.count * width, c.type, partner, c.comm, c.stream));
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

// Results.

std::vector<Piece> reduction(const Shape& shape, int, int, int) { return {{0, shape.recv, Piece::kReduced, 0}}; }

std::vector<Piece> reduction_at_root(const Shape& shape, int rank, int nranks, int root) {
  return rank == root ? reduction(shape, rank, nranks, root) : std::vector<Piece>{};
}

std::vector<Piece> reduction_share(const Shape& shape, int rank, int, int) {
  return {{0, shape.recv, Piece::kReduced, static_cast<size_t>(rank) * shape.count}};
}

std::vector<Piece> of_root(const Shape& shape, int, int, int root) { return {{0, shape.recv, root, 0}}; }

std::vector<Piece> share_of_root(const Shape& shape, int rank, int, int root) {
  return {{0, shape.recv, root, static_cast<size_t>(rank) * shape.count}};
}

std::vector<Piece> of_all(const Shape& shape, int, int nranks, int) {
  std::vector<Piece> pieces;
  for (int r = 0; r < nranks; ++r) pieces.push_back({static_cast<size_t>(r) * shape.count, shape.count, r, 0});
  return pieces;
}

std::vector<Piece> of_all_at_root(const Shape& shape, int rank, int nranks, int root) {
  return rank == root ? of_all(shape, rank, nranks, root) : std::vector<Piece>{};
}

std::vector<Piece> share_of_all(const Shape& shape, int rank, int nranks, int) {
  std::vector<Piece> pieces;
  for (int r = 0; r < nranks; ++r) {
    pieces.push_back({static_cast<size_t>(r) * shape.count, shape.count, r, static_cast<size_t>(rank) * shape.count});
  }
  return pieces;
}

std::vector<Piece> of_previous(const Shape& shape, int rank, int nranks, int) {
  return {{0, shape.recv, (rank + nranks - 1) % nranks, 0}};
}

constexpr std::array kCollectives = {
    Collective{.name = "all_reduce",
               .reduces = true,
               .same_everywhere = true,
               .call = rondeAllReduce,
               .shape = whole,
               .traffic = twice_but_one,
               .steps = one_step,
               .start = [](const Call& c) { return ncclAllReduce(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream); },
               .result = reduction},
    Collective{.name = "all_gather",
               .same_everywhere = true,
               .call = rondeAllGather,
               .shape = one_to_all,
               .traffic = all_but_one,
               .steps = one_step,
               .start = [](const Call& c) { return ncclAllGather(c.send, c.recv, c.count, c.type, c.comm, c.stream); },
               .result = of_all},
    Collective{.name = "reduce_scatter",
               .reduces = true,
               .call = rondeReduceScatter,
               .shape = all_to_one,
               .traffic = all_but_one,
               .steps = one_step,
               .start = [](const Call& c) { return ncclReduceScatter(c.send, c.recv, c.count, c.type, c.op, c.comm, c.stream); },
               .result = reduction_share},
    Collective{.name = "broadcast",
               .rooted = true,
               .same_everywhere = true,
               .call = rondeBroadcast,
               .shape = whole,
               .traffic = once,
               .steps = one_step,
               .start = [](const Call& c) { return ncclBroadcast(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream); },
               .result = of_root},
    Collective{.name = "reduce",
               .reduces = true,
               .rooted = true,
               .call = rondeReduce,
               .shape = whole,
               .traffic = once,
               .steps = one_step,
               .start = [](const Call& c) { return ncclReduce(c.send, c.recv, c.count, c.type, c.op, c.root, c.comm, c.stream); },
               .result = reduction_at_root},
    Collective{.name = "alltoall",
               .checks_in_place = false,
               .call = rondeAlltoAll,
               .shape = all_to_all,
               .traffic = all_but_one,
               .steps = one_step,
               .start = [](const Call& c) { return ncclAlltoAll(c.send, c.recv, c.count, c.type, c.comm, c.stream); },
               .result = share_of_all},
    Collective{.name = "sendrecv",
               .checks_in_place = false,
               .call = rondeSend,
               .shape = whole,
               .traffic = once,
               .steps = one_step,
               .start = start_sendrecv,
               .result = of_previous},
    Collective{.name = "gather",
               .rooted = true,
               .call = rondeGather,
               .shape = one_to_all,
               .traffic = all_but_one,
               .steps = one_step,
               .start = [](const Call& c) { return ncclGather(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream); },
               .result = of_all_at_root},
    Collective{.name = "scatter",
               .rooted = true,
               .call = rondeScatter,
               .shape = all_to_one,
               .traffic = all_but_one,
               .steps = one_step,
               .start = [](const Call& c) { return ncclScatter(c.send, c.recv, c.count, c.type, c.root, c.comm, c.stream); },
               .result = share_of_root},
    Collective{.name = "hypercube",
               .same_everywhere = true,
               .power_of_two = true,
               .call = rondeSend,
               .shape = one_to_all,
               .traffic = others,
               .steps = dimensions,
               .start = start_hypercube,
               .result = of_all},
};

}  // namespace

std::span<const Collective> collectives() { return kCollectives; }

const Collective* collective_of_program(std::string_view program) {
  constexpr std::string_view suffix = "_perf";
  if (const size_t slash = program.rfind('/'); slash != std::string_view::npos) program.remove_prefix(slash + 1);
  for (const Collective& row : kCollectives) {
    if (program.size() == row.name.size() + suffix.size() && program.substr(0, row.name.size()) == row.name &&
        program.ends_with(suffix)) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace ronde::bench
