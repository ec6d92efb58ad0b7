#include "bench/verify.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "bench/failure.h"
#include "bench/team.h"
#include "support/catch.h"

namespace ronde::bench {
namespace {

/// The ranks' buffers of one collective, with the result made here from the definition of each.
struct World {
  const Collective& collective;
  int nranks;
  int root;
  Inputs inputs;
  Shape shape;
  std::vector<std::vector<std::byte>> send;
  std::vector<std::vector<std::byte>> recv;

  World(const char* program, int nranks, int root)
      : collective(*collective_of_program(program)),
        nranks(nranks),
        root(root),
        inputs(ncclInt32, collective.reduces ? Op::sum : Op::none, nranks, 5),
        shape(collective.shape(20000, 4, nranks)) {
    for (int r = 0; r < nranks; ++r) {
      send.emplace_back(shape.send * 4);
      inputs.input(r, 0, shape.send, send.back().data());
    }
    for (int r = 0; r < nranks; ++r) {
      recv.emplace_back(shape.recv * 4 + kGuardBytes, std::byte{kJunk});
      for (const Piece& piece : collective.result(shape, r, nranks, root)) {
        std::byte* at = recv.back().data() + piece.at * 4;
        if (piece.source == Piece::kReduced) {
          inputs.reduced(piece.first, piece.count, at);
        } else {
          std::memcpy(at, send[static_cast<size_t>(piece.source)].data() + piece.first * 4, piece.count * 4);
        }
      }
    }
  }
};

}  // namespace

TEST_CASE("verify: what each collective means", "[bench]") {
  // Written out by hand, for 4 ranks with 8 elements each.
  const auto shape = [](const char* program) { return collective_of_program(program)->shape(32, 4, 4); };
  const auto result = [&](const char* program, int rank, int root) {
    std::string text;
    for (const Piece& p : collective_of_program(program)->result(shape(program), rank, 4, root)) {
      text += std::to_string(p.at) + "+" + std::to_string(p.count) + (p.source < 0 ? " sum" : " of " + std::to_string(p.source)) +
              "@" + std::to_string(p.first) + ";";
    }
    return text;
  };
  CHECK(result("all_reduce_perf", 2, 0) == "0+32 sum@0;");
  CHECK(result("broadcast_perf", 2, 1) == "0+32 of 1@0;");
  CHECK(result("reduce_perf", 1, 1) == "0+32 sum@0;");
  CHECK(result("reduce_perf", 2, 1).empty());
  CHECK(result("all_gather_perf", 2, 0) == "0+8 of 0@0;8+8 of 1@0;16+8 of 2@0;24+8 of 3@0;");
  CHECK(result("hypercube_perf", 2, 0) == result("all_gather_perf", 2, 0));
  CHECK(result("reduce_scatter_perf", 2, 0) == "0+8 sum@16;");
  CHECK(result("alltoall_perf", 2, 0) == "0+8 of 0@16;8+8 of 1@16;16+8 of 2@16;24+8 of 3@16;");
  CHECK(result("gather_perf", 3, 3) == result("all_gather_perf", 0, 0));
  CHECK(result("gather_perf", 2, 3).empty());
  CHECK(result("scatter_perf", 2, 1) == "0+8 of 1@16;");
  CHECK(result("sendrecv_perf", 0, 0) == "0+32 of 3@0;");
  CHECK(result("sendrecv_perf", 2, 0) == "0+32 of 1@0;");
}

TEST_CASE("verify: shapes are nccl-tests'", "[bench]") {
  const Collective& gather = *collective_of_program("all_gather_perf");
  // 100 floats for 3 ranks: 33 each, rounded down to 16 bytes.
  const Shape shape = gather.shape(100, 4, 3);
  CHECK(shape.count == 32);
  CHECK(shape.larger() == 96);
  CHECK(gather.shape(7, 4, 2).count == 0);
  CHECK(gather.traffic(shape, 4, 3).bytes == 384);
  CHECK(gather.traffic(shape, 4, 3).factor == 2.0 / 3);
  const Collective& reduce = *collective_of_program("all_reduce_perf");
  CHECK(reduce.traffic(reduce.shape(100, 4, 4), 4, 4).factor == 1.5);
  const Collective& cube = *collective_of_program("hypercube_perf");
  CHECK(cube.traffic(cube.shape(64, 4, 4), 4, 4).bytes == 16 * 4 * 3);
  CHECK(cube.steps(8) == 3);
  CHECK(cube.steps(1) == 1);
  CHECK(collective_of_program("/usr/bin/broadcast_perf")->name == "broadcast");
  CHECK(collective_of_program("cast_perf") == nullptr);
  CHECK(collective_of_program("broadcast") == nullptr);
  CHECK(collectives().size() == 10);
}

TEST_CASE("verify: sizes beyond 32 bits", "[bench]") {
  const Collective& row = *collective_of_program("alltoall_perf");
  const size_t elements = (size_t{1} << 33) + 64;
  const Shape shape = row.shape(elements, 1, 2);
  CHECK(shape.count == elements / 2);
  CHECK(row.result(shape, 1, 2, 0)[1].first == elements / 2);
}

TEST_CASE("verify: right data passes, and one wrong bit does not", "[bench]") {
  const char* program = GENERATE("all_reduce_perf", "reduce_scatter_perf", "broadcast_perf", "scatter_perf");
  const int threads = GENERATE(1, 2);
  World world(program, 4, 0);
  std::vector<Checked> local;
  for (int r = 0; r < 4; ++r) {
    auto& recv = world.recv[static_cast<size_t>(r)];
    local.push_back({r, world.send[static_cast<size_t>(r)].data(), recv.data(), recv.data() + world.shape.recv * 4});
  }
  const auto pass = [&] {
    auto verifier = std::make_unique<Verifier>(world.collective, world.shape, world.inputs, ncclInt32, 4, 0, local);
    for (int t = 0; t < threads; ++t) verifier->run(t, threads);
    return verifier;
  };
  INFO(program);
  auto good = pass();
  for (size_t r = 0; r < 4; ++r) CHECK(good->wrong(r) == 0);

  const size_t last = world.shape.recv - 1;
  world.recv[2][last * 4 + 1] ^= std::byte{4};
  world.recv[2][4 * 4] ^= std::byte{1};
  auto bad = pass();
  CHECK(bad->wrong(2) == 2);
  CHECK(bad->wrong(1) == 0);
  INFO(bad->first_wrong(2));
  CHECK(test::contains(bad->first_wrong(2), "rank 2: 2 wrong, the first at index 4: got "));
}

TEST_CASE("verify: writing outside the receive buffer is wrong", "[bench]") {
  World world("all_reduce_perf", 2, 0);
  std::vector<Checked> local;
  for (int r = 0; r < 2; ++r) {
    auto& recv = world.recv[static_cast<size_t>(r)];
    local.push_back({r, world.send[static_cast<size_t>(r)].data(), recv.data(), recv.data() + world.shape.recv * 4});
  }
  world.recv[0].back() = std::byte{0};
  world.send[1][40000] ^= std::byte{1};
  Verifier verifier(world.collective, world.shape, world.inputs, ncclInt32, 2, 0, local);
  verifier.run(0, 1);
  CHECK(verifier.wrong(0) == 1);
  CHECK(verifier.first_wrong(0) == "rank 0: the memory behind the receive buffer was written");
  CHECK(verifier.wrong(1) == 1);
  CHECK(verifier.first_wrong(1) == "rank 1: the send buffer was written");
}

TEST_CASE("team: threads exchange numbers, and a failure ends all waits", "[bench]") {
  const auto job = Job::join({}, "x", std::chrono::seconds(1));
  Team team(*job, 3);
  std::atomic<int> right{0};
  std::atomic<int> broken{0};
  std::atomic<int> freed{0};
  team.on_failure([&] { ++freed; });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 100; ++round) {
        const auto all = team.all_gather(t, {double(t), double(round)});
        right += all.size() == 3 && all[2][0] == 2 && all[0][1] == round ? 1 : 0;
        team.barrier();
      }
      if (t == 1) return team.fail(TestFailure(Exit::library, "broken"));
      try {
        team.barrier();
      } catch (const Broken&) {
        ++broken;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(right == 300);
  CHECK(broken == 2);
  CHECK(freed == 1);
  REQUIRE(team.failed());
  CHECK(team.failure().code() == Exit::library);
}

}  // namespace ronde::bench
