// The table of constants: its text, what replaces what, and what is refused.
#include "plan/costs.h"

#include "support/catch.h"

using namespace ronde;

namespace {

std::string error_of(const std::string& text) {
  const auto read = parse_costs(text, "c.txt");
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().code == Code::invalid_argument);
  return read.error().what;
}

}  // namespace

TEST_CASE("the built-in table is complete and survives its text", "[unit][plan][costs]") {
  const Costs& costs = built_in_costs();
  for (const auto& work : costs.curves) {
    for (const Curve& curve : work) CHECK(curve.points.size() >= 2);
  }
  for (const auto& protocol : costs.hops) {
    for (const HopCost& hop : protocol) {
      CHECK(hop.latency > 0);
      CHECK(hop.slot > 0);
    }
  }
  CHECK(costs.hop(Protocol::ll, HopKind::nvlink).efficiency == 500);
  CHECK(costs.gpu_launch > 0);
  CHECK(costs.cpu_launch > 0);
  const auto again = parse_costs(to_text(costs, "test"), "again", Costs{});
  REQUIRE(again.ok());
  CHECK(*again == costs);
}

TEST_CASE("a table replaces what it names, a curve as a whole", "[unit][plan][costs]") {
  const auto read =
      parse_costs("# mine\n\nronde-costs 1\ncpu.wake 7 ns # why\nfold.shm.1024 5 4 MB/s\nfold.shm.4096 3 2 MB/s", "c.txt");
  REQUIRE(read.ok());
  CHECK(read->cpu_wake == 7);
  CHECK(read->cpu_launch == built_in_costs().cpu_launch);
  CHECK(read->curve(CpuWork::fold, HopKind::shm).points == std::vector<CurvePoint>{{1024, 5, 4}, {4096, 3, 2}});
  CHECK(read->curve(CpuWork::fold, HopKind::process) == built_in_costs().curve(CpuWork::fold, HopKind::process));
}

TEST_CASE("between the points of a curve", "[unit][plan][costs]") {
  const Curve curve{{{1024, 1000, 800}, {4096, 3000, 400}}};
  CHECK(curve.at(1) == CurvePoint{1, 1000, 800});
  CHECK(curve.at(1024).alone == 1000);
  CHECK(curve.at(2048) == CurvePoint{2048, 2000, 600});
  CHECK(curve.at(4096).shared == 400);
  CHECK(curve.at(int64_t{1} << 50).alone == 3000);
}

TEST_CASE("tables that are refused say where and why", "[unit][plan][costs]") {
  CHECK(error_of("") == "c.txt:0: the file is empty; its first line has to be \"ronde-costs 1\"");
  CHECK(error_of("ronde-costs 2\n").find("c.txt:1: the first line has to be") == 0);
  CHECK(error_of("ronde-costs 1\ncpu.wak 3 ns\n").find("c.txt:2: \"cpu.wak\" is no constant; known are ") == 0);
  CHECK(error_of("ronde-costs 1\ncpu.wake 3 us\n") == "c.txt:2: cpu.wake is written \"cpu.wake NUMBER ns\"");
  CHECK(error_of("ronde-costs 1\ncpu.wake -3 ns\n") == "c.txt:2: \"-3\" is no whole number from 0 to 1000000000");
  CHECK(error_of("ronde-costs 1\nhop.ll.pci.efficiency 0 permille\n").find("from 1 to 1000") != std::string::npos);
  CHECK(error_of("ronde-costs 1\ncopy.shm.64 9 MB/s\n") == "c.txt:2: copy.shm.64 is written \"copy.shm.64 ALONE SHARED MB/s\"");
  CHECK(error_of("ronde-costs 1\ncopy.shm.64 9 9 MB/s\ncopy.shm.64 9 9 MB/s\n") ==
        "c.txt:3: the points of a curve have to ascend in bytes");
  CHECK(error_of("ronde-costs 1\ncopy.shm. 9 9 MB/s\n").find("\"\" is no whole number") != std::string::npos);
  CHECK(error_of("ronde-costs 1\ncopy.nvlink.64 9 9 MB/s\n").find("is no constant") != std::string::npos);
  CHECK_FALSE(read_costs("/nonexistent/costs").ok());
}
