// What channels carry: on well-known machines no less than ever before, on machines of any make as much as fits.
#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "graph/channels.h"
#include "graph/load.h"
#include "support/catch.h"
#include "topo/copies.h"
#include "topo/source.h"
#include "topo/text.h"
#include "unit/graph_support.h"

using namespace ronde;
using namespace ronde::graph;
using namespace ronde::topo;
using namespace ronde::test;

namespace {

std::vector<NodeId> devices_of(const Machine& m) {
  const auto all = gpus(m);
  return all.empty() ? m.of_kind(NodeKind::cpu_rank) : all;
}

/// Total rates in MB/s: rings and trees of one such machine, and of two; 0 where those have no port.
struct Rates {
  int64_t rings = 0;
  int64_t trees = 0;
  int64_t rings_of_two = 0;
  int64_t trees_of_two = 0;
};

const std::map<std::string, Rates> kReached = {
    {"a10g-vm", {12000, 6856, 0, 0}},
    {"bridge-pairs", {16000, 16000, 0, 0}},
    {"cpu-host", {10000, 10000, 6250, 6250}},
    {"dgx-1v", {120000, 66660, 48000, 48000}},
    {"dgx-2", {120000, 64000, 96000, 64000}},
    {"dgx-a100", {240000, 137136, 192000, 137136}},
    {"gb200-nvl72", {721800, 360900, 721800, 360900}},
    {"hgx-b200", {721800, 412448, 384000, 384000}},
    {"hgx-h100", {370800, 211880, 384000, 211880}},
    {"hgx-h200", {370800, 211880, 384000, 211880}},
    {"l4-vm", {24000, 16000, 12500, 12500}},
    {"mi300x", {336000, 192000, 384000, 192000}},
    {"pcie-4-one-socket", {24000, 16000, 24000, 13712}},
    {"pcie-8-two-sockets", {10000, 10000, 20000, 10000}},
};

int64_t rate(const Machine& m, Shape shape) {
  const auto joined = find_channels(m, devices_of(m), shape);
  INFO((joined.ok() ? std::string() : joined.error().what));
  REQUIRE(joined.ok());
  CHECK(load_of(m, devices_of(m), joined->channels).fits());
  return total_rate(joined->channels);
}

/// Reproducible, below a number.
class Dice {
 public:
  explicit Dice(uint32_t seed) : state_(seed) {}
  int below(int number) {
    state_ = state_ * 1664525 + 1013904223;
    return static_cast<int>((state_ >> 8) % static_cast<uint32_t>(number));
  }
  bool heads() { return below(2) == 0; }

 private:
  uint32_t state_;
};

std::string some_bus(Dice& dice) { return "gen" + std::to_string(1 + dice.below(5)) + "x" + std::to_string(1 << dice.below(5)); }

/// Devices and ports on one CPU or switch. `left`: GPUs that the host may still have.
std::string some_inside(Dice& dice, int& left, int depth) {
  const std::vector<std::string> models = {"v100", "a100", "h100", "l4"};
  std::string items;
  const int count = std::min(left, dice.below(4));
  left -= count;
  if (count > 0) items += std::to_string(count) + " gpu " + models[static_cast<size_t>(dice.below(4))] + "\n";
  if (dice.below(3) == 0)
    items += std::to_string(1 + dice.below(2)) + " nic " + some_bus(dice) + " " + std::to_string(1 + dice.below(400)) + "G\n";
  for (int i = depth == 0 ? 0 : dice.below(3); i > 0; --i) {
    const std::string below = some_inside(dice, left, depth - 1);
    if (!below.empty()) items += "switch " + some_bus(dice) + " {\n" + below + "}\n";
  }
  return items;
}

/// One host to three with two GPUs or more in all; some without ports, some with NVLinks between any of the first host's GPUs.
std::string some_machine(Dice& dice) {
  std::string text;
  int devices = 0;
  int of_first = 0;
  for (int host = 1 + dice.below(3); host > 0; --host) {
    int left = 8;
    std::string inside;
    for (int cpu = 1 + dice.below(2); cpu > 0; --cpu) {
      const std::string below = some_inside(dice, left, 2);
      if (!below.empty()) inside += "cpu rome {\n" + below + "}\n";
    }
    if (inside.empty() || left == 8) continue;
    text += "host {\n" + inside + "}\n";
    devices += 8 - left;
    if (of_first == 0) of_first = devices;
  }
  if (devices < 2) return "cpu rome { 2 gpu l4 }\n";
  for (int i = dice.heads() ? 0 : dice.below(12); i > 0 && of_first > 1; --i) {
    const int from = dice.below(of_first);
    const int to = dice.below(of_first);
    if (from != to)
      text += "nvlink " + std::to_string(from) + " " + std::to_string(to) + " x" + std::to_string(1 + dice.below(4)) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("well-known machines keep the rates that they have reached", "[unit][graph][golden]") {
  for (const auto& [name, least] : kReached) {
    INFO(name);
    const auto read = load_machine("tests/golden/machines/" + name + ".machine");
    REQUIRE(read.ok());
    const Machine& one = read->machine;
    CHECK(rate(one, Shape::ring) >= least.rings);
    CHECK(rate(one, Shape::chain) >= least.trees);
    CHECK((one.ports.empty()) == (least.rings_of_two == 0));
    if (one.ports.empty()) continue;
    const Machine two = copies(one, 2);
    CHECK(rate(two, Shape::ring) >= least.rings_of_two);
    CHECK(rate(two, Shape::chain) >= least.trees_of_two);
  }
}

TEST_CASE("hosts of any make have channels that fit, whichever rank has which device", "[unit][graph]") {
  Dice dice(20);
  int with_channels = 0;
  int without = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::string text = some_machine(dice);
    INFO("trial " << trial << "\n" << text);
    const auto read = from_text(text, "any");
    REQUIRE(read.ok());
    const Machine& m = read->machine;
    auto devices = gpus(m);
    Limits limits;
    limits.steps = 1000 + dice.below(4000);
    limits.max_channels = 1 + dice.below(32);
    limits.rules.p2p = dice.below(8) != 0;
    limits.rules.shm = dice.below(8) != 0;
    limits.rules.cross_nic = static_cast<CrossNic>(dice.below(3));
    for (const Shape shape : {Shape::ring, Shape::chain}) {
      const auto joined = find_channels(m, devices, shape, limits);
      auto permuted = devices;
      std::rotate(permuted.begin(), permuted.begin() + dice.below(static_cast<int>(devices.size())), permuted.end());
      std::swap(permuted.front(), permuted.back());
      const auto again = find_channels(m, permuted, shape, limits);
      REQUIRE(joined.ok() == again.ok());
      (joined.ok() ? with_channels : without) += 1;
      if (!joined.ok()) {
        CHECK_FALSE(joined.error().what.empty());
        continue;
      }
      const Load load = load_of(m, devices, joined->channels);
      CHECK(load.faults == std::vector<std::string>{});
      for (const Overload& over : load.over) FAIL_CHECK(describe(m, over));
      CHECK(load_of(m, permuted, again->channels).by_arc == load.by_arc);
      CHECK(total_rate(joined->channels) > 0);
      CHECK(total_rate(joined->channels) <= joined->bound);
      CHECK(total_rate(again->channels) == total_rate(joined->channels));
      CHECK(joined->channels.size() <= static_cast<size_t>(limits.max_channels));
      // Of each kind of node, of which there are three at most, and of rings through each with one rail and with several.
      CHECK(joined->steps <= 3 * limits.steps);
      CHECK(again->steps == joined->steps);
    }
  }
  CHECK(with_channels > 300);
  CHECK(without > 30);
}
