// The parts of ronde-plan that simulate, calibrate and compare.
#include "tools/plan/predict.h"

#include <cstdlib>
#include <filesystem>

#include "support/catch.h"
#include "tools/plan/compare.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::plan::tool;

namespace {

topo::Machine machine_of(const std::string& text) {
  auto reading = topo::from_text(text, "m");
  REQUIRE(reading.ok());
  return std::move(reading->machine);
}

constexpr const char* kFour =
    "cpu sapphire {\n  2 switch gen5x16 {\n    2 gpu h100\n    nic gen5x16 400G\n  }\n}\nnvlink 0-3 switch x18\n";

constexpr const char* kFourPci = "cpu sapphire {\n  2 switch gen5x16 {\n    2 gpu h100\n    nic gen5x16 400G\n  }\n}\n";
constexpr const char* kOneEach = "cpu sapphire {\n  switch gen5x16 {\n    gpu h100\n    nic gen5x16 400G\n  }\n}\n";

Task task(Subject subject, CpuWork work, bool both, Coll coll, uint64_t bytes, double nanos) {
  return {subject, work, both, coll, bytes, {nanos, 1e12, nanos / 2}};
}

}  // namespace

TEST_CASE("constants come from the medians of measurements", "[unit][plan][predict]") {
  std::vector<Task> tasks = calibration_tasks(65536);
  for (Task& one : tasks) {
    one.nanos = {1000, 1e12, 10};
    if (one.subject == Subject::work && one.bytes == 32768) one.nanos = {static_cast<double>(one.both ? 6553 : 3276), 1e12, 10};
    if (one.subject == Subject::work && one.bytes == 64) one.nanos = {10, 1e12, 1};
    if (one.subject == Subject::slots && one.coll == Coll::broadcast) one.nanos = {1024 * 210, 1e12, 10};
    if (one.subject == Subject::slots && one.coll == Coll::reduce_scatter && one.bytes > 128)
      one.nanos = {2000 + 1023 * 1010, 1e12, 10};
    if (one.subject == Subject::slots && one.coll == Coll::reduce_scatter && one.bytes == 128) one.nanos = {2000, 1e12, 10};
  }
  const Costs costs = calibrated(built_in_costs(), HopKind::shm, tasks);
  CHECK(costs.hop(Protocol::simple, HopKind::shm).slot == 200);
  CHECK(costs.hop(Protocol::simple, HopKind::shm).latency == 600);
  CHECK(costs.cpu_launch == 2000 - 1000 - 10 - 600);
  REQUIRE(costs.curve(CpuWork::copy, HopKind::shm).points.size() == 1);
  CHECK(costs.curve(CpuWork::copy, HopKind::shm).points[0].bytes == 65536);
  CHECK(costs.curve(CpuWork::copy, HopKind::shm).points[0].alone == 10002);
  CHECK(costs.curve(CpuWork::copy, HopKind::shm).points[0].shared == 5000);
  CHECK(costs.curve(CpuWork::fold, HopKind::shm).points[0].bytes == 3 * 32768);
  CHECK(costs.curve(CpuWork::copy, HopKind::process) == built_in_costs().curve(CpuWork::copy, HopKind::process));
  CHECK(calibrated(built_in_costs(), HopKind::shm, {}) == built_in_costs());
}

TEST_CASE("a prediction takes what the library would choose", "[unit][plan][predict]") {
  const auto row =
      predict(HopKind::process, task(Subject::exchange, CpuWork::copy, true, Coll::all_reduce, 1 << 20, 5000), built_in_costs());
  REQUIRE(row.ok());
  CHECK(row->measured == 5000);
  CHECK(row->predicted > 5000);
  CHECK_FALSE(row->algorithm.empty());
  CHECK(row->deviation() > 0);
}

TEST_CASE("the verdict: nine of ten within a quarter, none beyond a half", "[unit][plan][predict]") {
  bool none = true;
  to_text(std::vector<Row>(), &none);
  CHECK_FALSE(none);
  std::vector<Row> rows(10, Row{HopKind::process, Coll::all_reduce, 65536, "ring", 100, 120});
  bool good = false;
  to_text(rows, &good);
  CHECK(good);
  rows[0].predicted = 149;
  CHECK(to_text(rows, &good).find("9 of 10 points within 25 %, 0 beyond 50 %: good") != std::string::npos);
  CHECK(good);
  rows[1].predicted = 60;
  to_text(rows, &good);
  CHECK_FALSE(good);
  rows[1].predicted = 100;
  rows[0].predicted = 151;
  to_text(rows, &good);
  CHECK_FALSE(good);
}

namespace {

void measures_two_ranks(HopKind kind) {
  std::vector<Task> tasks = calibration_tasks(32768);
  tasks.push_back({Subject::exchange, CpuWork::copy, true, Coll::all_reduce, 65536, {}});
  const auto measured = measure(kind, 1, tasks);
  INFO((measured.ok() ? std::string() : measured.error().what));
  REQUIRE(measured.ok());
  for (const Task& one : tasks) {
    CHECK(one.nanos.size() == 1);
    CHECK(one.median() > 0);
  }
}

}  // namespace

// Measuring forks, which no process may that has used the library: it has one of its own.
TEST_CASE("two ranks are measured, here", "[.two-ranks]") {
  measures_two_ranks(HopKind::process);
  measures_two_ranks(HopKind::shm);
  std::vector<Task> none{{Subject::exchange, CpuWork::copy, true, Coll::gather, 64, {}}};
  const auto refused = measure(HopKind::process, 1, none);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().what.find("that call is not measured") != std::string::npos);
}
TEST_CASE("two ranks are measured, as threads and as processes", "[unit][plan][predict]") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  CHECK(std::system(("'" + self + "' '[.two-ranks]' > /dev/null").c_str()) == 0);
}

TEST_CASE("simulated machines", "[unit][plan][predict]") {
  const topo::Machine machine = machine_of(kFour);
  Scenario scenario;
  const auto one = Plan::make(machine, scenario, built_in_costs());
  REQUIRE(one.ok());
  CHECK(one->ranks() == 4);
  scenario.copies = 2;
  const auto two = Plan::make(machine, scenario, built_in_costs());
  INFO((two.ok() ? std::string() : two.error().what));
  REQUIRE(two.ok());
  CHECK(two->ranks() == 8);
  const auto inside = one->run(1 << 30);
  const auto outside = two->run(1 << 30);
  REQUIRE(inside.ok());
  REQUIRE(outside.ok());
  CHECK(inside->busbw > 200'000);
  CHECK(inside->busbw < 370'800);
  CHECK(outside->busbw > 60'000);  // two ports of 50 GB/s
  CHECK(outside->busbw < 100'000);
  CHECK(outside->chain.carried > 0);
  const auto table = simulate_sizes(machine, scenario, built_in_costs(), {1 << 20, 1 << 24});
  REQUIRE(table.ok());
  CHECK(table->find("# AllReduce of 8 ranks, ring, simple, ") == 0);
  CHECK(table->find("\n      16777216 ") != std::string::npos);
}

TEST_CASE("many ranks: the closed form is what the events give, on several nodes too", "[unit][plan][predict]") {
  for (const char* text : {kFour, kFourPci, kOneEach}) {
    const topo::Machine machine = machine_of(text);
    for (const int copies : {1, 2, 4, 8}) {
      Scenario scenario;
      scenario.copies = copies;
      const auto plan = Plan::make(machine, scenario, built_in_costs());
      if (!plan.ok() || plan->ranks() < 2) continue;
      const auto ring = even_ring_of(machine, scenario);
      INFO((ring.ok() ? std::string() : ring.error().what));
      REQUIRE(ring.ok());
      CHECK(ring->ranks == plan->ranks());
      for (const uint64_t bytes : {uint64_t{1} << 20, uint64_t{1} << 26, uint64_t{1} << 31}) {
        EvenRing sized = *ring;
        sized.bytes = bytes;
        const int64_t closed = even_ring_nanos(sized, {.slice = scenario.slice});
        const auto events = plan->run(bytes);
        REQUIRE(events.ok());
        CAPTURE(text, copies, bytes, closed, events->nanos);
        CHECK(std::abs(closed - events->nanos) <= events->nanos / 10);
      }
    }
  }
}

TEST_CASE("many ranks: more than events are run for", "[unit][plan][predict]") {
  const topo::Machine machine = machine_of(kFour);
  Scenario scenario;
  scenario.copies = 100'000;
  const auto table = simulate_sizes(machine, scenario, built_in_costs(), {uint64_t{8} << 30});
  INFO((table.ok() ? std::string() : table.error().what));
  REQUIRE(table.ok());
  CHECK(table->find("# AllReduce of 400000 ranks, ring, simple, ") == 0);
  CHECK(table->find("by the closed form") != std::string::npos);
  scenario.algorithm = "tree";
  const auto refused = simulate_sizes(machine, scenario, built_in_costs(), {1 << 20});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().what.find("100000 copies of 4 devices are more than the 2048 ranks that are simulated event by event") == 0);
  scenario.algorithm = "ring";
  scenario.protocol = "ll64";
  CHECK_FALSE(simulate_sizes(machine, scenario, built_in_costs(), {1 << 20}).ok());
}

TEST_CASE("scenarios and sizes that are none", "[unit][plan][predict]") {
  const topo::Machine machine = machine_of(kFour);
  const auto error = [&](const Scenario& scenario) {
    const auto plan = Plan::make(machine, scenario, built_in_costs());
    REQUIRE_FALSE(plan.ok());
    return plan.error().what;
  };
  Scenario scenario;
  scenario.coll = "Sum";
  CHECK(error(scenario).find("\"Sum\" is no collective") == 0);
  scenario.coll = "allgather";
  scenario.algorithm = "rung";
  CHECK(error(scenario) == "\"rung\" is no algorithm; known are ring, tree, direct, oneshot, hd, chain, hier");
  scenario.algorithm = "oneshot";
  CHECK(error(scenario) == "oneshot does not exist for AllGather");
  scenario.algorithm = "ring";
  scenario.protocol = "ll64";
  CHECK(error(scenario).find("\"ll64\" is no protocol") == 0);
  CHECK(*size_of_text("64K") == 65536);
  CHECK(*size_of_text("3") == 3);
  CHECK(*size_of_text("2g") == uint64_t{2} << 30);
  for (const char* text : {"", "K", "0", "-1", "1T", "1KB", "99999999999999999999", "20000G"})
    CHECK_FALSE(size_of_text(text).ok());
}
