// Settings as they reach a communicator: from variables, from an ncclConfig_t, equal on all ranks or refused.
#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

/// The code of each way of making a communicator of one rank; whatever comes up is ended.
std::vector<ncclResult_t> every_init() {
  std::vector<ncclResult_t> codes;
  for (int way = 0; way < 4; ++way) {
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    ncclComm_t comm = nullptr;
    switch (way) {
      case 0: codes.push_back(ncclCommInitRank(&comm, 1, id, 0)); break;
      case 1: codes.push_back(ncclCommInitRankConfig(&comm, 1, id, 0, nullptr)); break;
      case 2: codes.push_back(ncclCommInitRankScalable(&comm, 1, 0, 1, &id, nullptr)); break;
      default: codes.push_back(ncclCommInitAll(&comm, 1, nullptr));
    }
    CHECK((comm != nullptr) == (codes.back() == ncclSuccess));
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
  return codes;
}

const std::vector<ncclResult_t> kAllGood(4, ncclSuccess), kAllRefused(4, ncclInvalidUsage);

}  // namespace

TEST_CASE("RONDE_DEVICE: a device that is not there is an error of every init, not another device", "[world][settings]") {
  rondeDevice_t device = rondeDeviceAuto;
  for (const char* good : {"auto", "cpu"}) {
    const ScopedEnv env{{"RONDE_DEVICE", good}};
    CHECK(every_init() == kAllGood);
    REQUIRE(rondeGetDevice(&device) == ncclSuccess);
    CHECK(device == rondeDeviceCpu);
  }
  const ScopedEnv env{{"RONDE_DEVICE", "cuda"}};
  CHECK(rondeGetDevice(&device) == ncclInvalidUsage);
  CHECK(every_init() == kAllRefused);
  CHECK(contains(ncclGetLastError(nullptr), "CommInitAll: RONDE_DEVICE asks for a GPU"));
  // What the program chose itself wins over the variable.
  REQUIRE(rondeSetDevice(rondeDeviceCpu) == ncclSuccess);
  CHECK(every_init() == kAllGood);
  CHECK(rondeSetDevice(rondeDeviceCuda) == ncclInvalidUsage);
  CHECK(rondeSetDevice(static_cast<rondeDevice_t>(3)) == ncclInvalidArgument);
  REQUIRE(rondeGetDevice(&device) == ncclSuccess);
  CHECK(device == rondeDeviceCpu);
  REQUIRE(rondeSetDevice(rondeDeviceAuto) == ncclSuccess);
  CHECK(every_init() == kAllRefused);
}

