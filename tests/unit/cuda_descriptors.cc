// Descriptors between ranks: threads here, each as if it were a process of its own.
#include "transport/cuda/descriptors.h"

#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "support/catch.h"
#include "support/local_bootstrap.h"

using namespace ronde;
using namespace ronde::test;

namespace {

struct Told {
  Id name{}, secret{};
};

/// A memfd with a word in it.
UniqueFd word_file(uint64_t word) {
  Result<UniqueFd> fd = make_memfd("ronde-test", sizeof word);
  if (!fd.ok() || pwrite(fd->get(), &word, sizeof word, 0) != sizeof word) return UniqueFd();
  return std::move(fd).value();
}

uint64_t word_in(const UniqueFd& fd) {
  uint64_t word = 0;
  return pread(fd.get(), &word, sizeof word, 0) == sizeof word ? word : 0;
}

uint64_t word_of(int rank, size_t number) { return 1000 + 10 * static_cast<uint64_t>(rank) + number; }

/// Rank r gives r + 1 descriptors. "" or what is wrong.
std::string trade_all(int rank, Bootstrap& bootstrap) {
  Result<gpu::DescriptorTrade> trade = gpu::DescriptorTrade::open();
  if (!trade.ok()) return trade.error().what;
  std::vector<Told> all(static_cast<size_t>(bootstrap.size()));
  all[static_cast<size_t>(rank)] = {trade->name(), trade->secret()};
  const Result<> told = bootstrap.all_gather(std::as_writable_bytes(std::span(all)));
  if (!told.ok()) return told.error().what;
  std::vector<gpu::DescriptorPeer> peers;
  for (int peer = 0; peer < bootstrap.size(); ++peer) {
    const Told& it = all[static_cast<size_t>(peer)];
    if (peer != rank) peers.push_back({peer, static_cast<size_t>(peer) + 1, it.name, it.secret});
  }
  std::vector<UniqueFd> files;
  std::vector<int> mine;
  for (size_t i = 0; i <= static_cast<size_t>(rank); ++i) {
    files.push_back(word_file(word_of(rank, i)));
    mine.push_back(files.back().get());
  }
  auto got = trade->run(rank, peers, mine, Deadline::in(60), nullptr);
  if (!got.ok()) return got.error().what;
  for (const gpu::DescriptorPeer& peer : peers) {
    const std::vector<UniqueFd>& theirs = (*got)[peer.rank];
    if (theirs.size() != peer.gives) return fmt::format("rank {} got {} of rank {}", rank, theirs.size(), peer.rank);
    for (size_t i = 0; i < theirs.size(); ++i) {
      if (word_in(theirs[i]) != word_of(peer.rank, i)) return fmt::format("rank {} got something else as number {} of rank {}", rank, i, peer.rank);
    }
  }
  return "";
}

}  // namespace

TEST_CASE("descriptors: each rank gets those of all others, in their order", "[cuda-descriptors]") {
  std::vector<std::string> complaints(5);
  run_ranks(5, [&](int rank, Bootstrap& bootstrap) { complaints[static_cast<size_t>(rank)] = trade_all(rank, bootstrap); });
  for (const std::string& complaint : complaints) CHECK(complaint == "");
}

TEST_CASE("descriptors: a peer that does not come is named, and an abort ends the wait", "[cuda-descriptors]") {
  Result<gpu::DescriptorTrade> mine = gpu::DescriptorTrade::open();
  Result<gpu::DescriptorTrade> theirs = gpu::DescriptorTrade::open();
  REQUIRE(mine.ok());
  REQUIRE(theirs.ok());
  const UniqueFd file = word_file(1);
  const int given = file.get();
  const std::vector<gpu::DescriptorPeer> peers{{7, 1, theirs->name(), theirs->secret()}};
  const auto late = mine->run(0, peers, std::span(&given, 1), Deadline::in(0.05), nullptr);
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().what == "passing descriptors of memory: rank 7 did not come in time");
  AbortWord abort;
  abort.raise();
  CHECK_FALSE(mine->run(0, peers, std::span(&given, 1), Deadline::never(), &abort).ok());
}

TEST_CASE("descriptors: who does not know the secret gets nothing", "[cuda-descriptors]") {
  Result<gpu::DescriptorTrade> mine = gpu::DescriptorTrade::open();
  Result<gpu::DescriptorTrade> stranger = gpu::DescriptorTrade::open();
  REQUIRE(mine.ok());
  REQUIRE(stranger.ok());
  const UniqueFd file = word_file(1);
  const int given = file.get();
  const std::vector<gpu::DescriptorPeer> of_mine{{1, 1, stranger->name(), stranger->secret()}};
  const std::vector<gpu::DescriptorPeer> of_stranger{{0, 1, mine->name(), stranger->secret()}};
  std::atomic<bool> refused{false};
  run_ranks(2, [&](int rank, Bootstrap&) {
    if (rank == 0) {
      // It serves nobody, and so does not end by itself; the other has been hung up on long before.
      CHECK_FALSE(mine->run(0, of_mine, std::span(&given, 1), Deadline::in(1), nullptr).ok());
    } else {
      const auto got = stranger->run(1, of_stranger, std::span(&given, 1), Deadline::in(30), nullptr);
      refused = !got.ok() && got.error().what.find("rank 0 does not give") != std::string::npos;
    }
  });
  CHECK(refused);
}
