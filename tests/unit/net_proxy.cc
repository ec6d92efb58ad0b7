// Where a proxy runs.
#include "support/catch.h"
#include "support/scratch.h"
#include "transport/net/proxy.h"

using namespace ronde;
using topo::CpuMask;

TEST_CASE("a proxy goes to the CPUs near its device, as far as it may", "[net]") {
  const auto allowed = *CpuMask::parse("f0");
  const auto near = [&](const std::string& list) {
    const test::Scratch folder;
    folder.write("local_cpulist", list);
    return net::cpus_near(folder.root(), allowed);
  };
  CHECK(near("0-5\n") == *CpuMask::parse("30"));
  CHECK(near("7") == *CpuMask::parse("80"));
  CHECK(near("0-3\n") == allowed);  // none that it may use
  CHECK(near("\n") == allowed);
  CHECK(near("everywhere\n") == allowed);
  CHECK(net::cpus_near("", allowed) == allowed);
  CHECK(net::cpus_near("/nowhere", allowed) == allowed);
}
