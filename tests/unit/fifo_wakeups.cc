// The Bell's rule under FIFO counters: no wake-up is lost, whatever the interleaving. Delays at every step widen the windows.
#include <atomic>
#include <random>
#include <thread>

#include "base/clock.h"
#include "fifo/fifo.h"
#include "support/catch.h"
#include "support/fabric_world.h"

using namespace ronde;
using namespace ronde::test;

namespace {

// At each step: mostly nothing, sometimes a few spins, sometimes the processor is given away.
class Delays {
 public:
  explicit Delays(uint32_t seed) : random_(seed) {}
  void step() {
    const uint32_t draw = random_();
    if (draw % 8 < 5) return;
    if (draw % 8 == 7) return std::this_thread::yield();
    for (std::atomic<uint32_t> i = 0; i < (draw >> 8) % 200; ++i) continue;
  }

 private:
  std::minstd_rand random_;
};

struct Tally {
  uint64_t lost = 0;  // sleeps that ended by time although there was something to do
  uint64_t slept = 0;
};

// Waits for `done` as an executor does; never spins, so that the sleep is reached as often as possible.
template <class Done>
void await(Bell& bell, Delays& delays, Tally& tally, Done done) {
  while (!done()) {
    delays.step();
    const uint32_t prepared = prepare(bell);
    delays.step();
    if (done()) {
      cancel(bell);
      return;
    }
    delays.step();
    ++tally.slept;
    if (!sleep(bell, prepared, 10 * kSecond) && done()) ++tally.lost;
  }
}

void hunt(Fabric& a, Fabric& b, uint64_t rounds) {
  auto made = a.writer(b.rank(), 0);
  REQUIRE(made);
  auto bell_a = lease_bell();
  auto bell_b = lease_bell();
  REQUIRE(bell_a);
  REQUIRE(bell_b);
  a.control(a.rank()).bell.store(bell_a->index());
  b.control(b.rank()).bell.store(bell_b->index());
  Tally of_writer, of_reader;
  uint64_t wrong = 0;
  std::thread writer([&] {
    Delays delays(1);
    const FifoView fifo = *made;
    for (uint64_t k = 0; k < rounds; ++k) {
      await(bell_a->bell(), delays, of_writer, [&] { return k - fifo.header->head.load() < fifo.slots; });
      fifo.slot_of(k).sequence = k;
      delays.step();
      fifo.header->tail.store(k + 1);
      delays.step();
      a.ring(b.rank());
    }
  });
  Delays delays(2);
  const FifoView fifo = b.reader(a.rank(), 0);
  for (uint64_t k = 0; k < rounds; ++k) {
    await(bell_b->bell(), delays, of_reader, [&] { return fifo.header->tail.load() > k; });
    wrong += fifo.slot_of(k).sequence != k;
    delays.step();
    fifo.header->head.store(k + 1);
    delays.step();
    b.ring(a.rank());
  }
  writer.join();
  CAPTURE(of_writer.slept, of_reader.slept);
  REQUIRE(wrong == 0);
  REQUIRE(of_writer.lost == 0);
  REQUIRE(of_reader.lost == 0);
  REQUIRE(of_writer.slept + of_reader.slept > rounds / 100);  // otherwise the hunt has hunted nothing
}

}  // namespace

TEST_CASE("no wake-up is lost between threads", "[fifo][fabric]") {
  FabricWorld world = make_fabrics({.ranks = 2, .settings = {{"RONDE_SLOTS", "2"}, {"RONDE_BUFFSIZE", "4096"}}});
  REQUIRE(world.error() == "");
  hunt(world[0], world[1], 50000);
}

TEST_CASE("no wake-up is lost through another process's Bells", "[fifo][fabric]") {
  FabricWorld world =
      make_fabrics({.ranks = 2, .pretend_processes = true, .settings = {{"RONDE_SLOTS", "2"}, {"RONDE_BUFFSIZE", "4096"}}});
  REQUIRE(world.error() == "");
  hunt(world[0], world[1], 50000);
}

TEST_CASE("no wake-up is lost while a rank changes the thread that runs it", "[fifo][fabric]") {
  FabricWorld world = make_fabrics({.ranks = 2, .settings = {{"RONDE_SLOTS", "2"}, {"RONDE_BUFFSIZE", "4096"}}});
  REQUIRE(world.error() == "");
  auto made = world[0].writer(1, 0);
  REQUIRE(made);
  const uint64_t rounds = 3000;
  std::thread writer([&] {
    Delays delays(3);
    for (uint64_t k = 0; k < rounds; ++k) {
      while (k - made->header->head.load() >= made->slots) std::this_thread::yield();
      delays.step();
      made->header->tail.store(k + 1);
      delays.step();
      world[0].ring(1);
    }
  });
  Tally tally;
  Delays delays(4);
  const FifoView fifo = world[1].reader(0, 0);
  bool leased = true;
  for (uint64_t k = 0; k < rounds; ++k) {
    auto lease = lease_bell();
    if (!lease) leased = false;
    if (!lease) break;
    // As an executor: publish the Bell, then look again at all that is waited for, then sleep.
    world[1].control(1).bell.store(lease->index());
    await(lease->bell(), delays, tally, [&] { return fifo.header->tail.load() > k; });
    fifo.header->head.store(k + 1);
  }
  writer.join();
  REQUIRE(leased);
  REQUIRE(tally.lost == 0);
}
