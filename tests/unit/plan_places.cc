// Which samples count when the cores have been moved meanwhile.
#include "tools/plan/places.h"

#include <vector>

#include "support/catch.h"

using namespace ronde::plan::tool;

namespace {

constexpr int kWanted = 2;

struct Board {
  explicit Board(size_t tasks) : memory(Samples::bytes(tasks, kWanted)), samples(memory.data(), tasks, kWanted) {}
  void put(size_t task, int round, double nanos, double latency) {
    samples.at(0, task, round) = {nanos, latency};
    samples.at(1, task, round) = {nanos / 2, 0};
  }
  std::vector<std::byte> memory;
  Samples samples;
};

}  // namespace

TEST_CASE("places: what is a move and what is noise", "[unit][plan][predict]") {
  CHECK_FALSE(moved(25, 34));
  CHECK_FALSE(moved(177, 158));
  CHECK(moved(30, 165));
  CHECK(moved(165, 30));
}

TEST_CASE("places: samples of one place are enough, of two are not", "[unit][plan][predict]") {
  Board board(2);
  CHECK_FALSE(board.samples.enough());
  for (size_t task = 0; task < 2; ++task) board.put(task, 0, 100, 165);
  CHECK_FALSE(board.samples.enough());
  for (size_t task = 0; task < 2; ++task) board.put(task, 1, 10, 30);
  CHECK_FALSE(board.samples.enough());
  board.put(0, 2, 110, 160);
  board.put(1, 2, 120, -165);  // moved while it was taken
  CHECK_FALSE(board.samples.enough());
  board.put(1, 3, 130, 170);
  CHECK(board.samples.enough());
  CHECK(board.samples.place() > 100);
  const auto chosen = board.samples.chosen();
  CHECK(chosen[0] == std::vector<double>{100, 110});
  CHECK(chosen[1] == std::vector<double>{100, 130});
}

TEST_CASE("places: the slower rank counts; a task without a sample at the place has what there is", "[unit][plan][predict]") {
  Board board(2);
  board.put(0, 0, 100, 165);
  board.put(0, 1, 104, 166);
  board.samples.at(1, 0, 1).nanos = 300;
  board.put(1, 0, 50, -30);
  CHECK_FALSE(board.samples.enough());
  const auto chosen = board.samples.chosen();
  CHECK(chosen[0] == std::vector<double>{100, 300});
  CHECK(chosen[1] == std::vector<double>{50});
}
