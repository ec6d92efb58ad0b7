// Ranks on the GPUs of a machine, by their addresses.
#include "topo/gpu_ranks.h"

#include "support/catch.h"
#include "support/topo.h"

using namespace ronde::topo;
using ronde::test::read_text;

TEST_CASE("gpu ranks: a GPU is found by its address, on its own host", "[topo][gpu-ranks]") {
  const Machine one = read_text("cpu { gpu busid=0000:81:00.0; gpu busid=0001:81:00.0 }\n").machine;
  const auto gpus = one.of_kind(NodeKind::gpu);
  REQUIRE(gpus.size() == 2);
  CHECK(gpu_at(one, "0000:81:00.0", 5) == gpus[0]);  // the only host, whatever it is called
  CHECK(gpu_at(one, "0001:81:00.0", 5) == gpus[1]);
  CHECK(gpu_at(one, "0001:82:00.0", 5) == kNone);
  CHECK(gpu_at(one, "no address", 5) == kNone);
  CHECK(gpu_at(one, "", 5) == kNone);
}

TEST_CASE("gpu ranks: the rank is the device's", "[topo][gpu-ranks]") {
  Machine machine = read_text("cpu { gpu busid=0000:81:00.0; gpu busid=0000:82:00.0 }\n").machine;
  set_gpu_rank(machine, gpu_at(machine, "0000:82:00.0", 0), 3);
  CHECK(machine.device_of_rank(3) == machine.of_kind(NodeKind::gpu)[1]);
}

TEST_CASE("gpu ranks: parts of one function are found by its address", "[topo][gpu-ranks]") {
  const Machine machine = read_text("cpu { function busid=0000:81:00.0 { gpu part=0; gpu part=1 } }\n").machine;
  CHECK(gpu_at(machine, "0000:81:00.0", 0) == machine.of_kind(NodeKind::gpu)[0]);
}
