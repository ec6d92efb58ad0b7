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

/// Makes a communicator on each of `ranks` threads by the config that `config_of(rank)` gives, and runs `body` on it.
std::string with_configs(int ranks, const std::function<ncclConfig_t(int)>& config_of, const RankBody& body) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return run_threads(ranks, [&](int rank) -> std::string {
    ncclConfig_t config = config_of(rank);
    ncclComm_t comm = nullptr;
    RONDE_RANK_OK(ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
    std::string complaint = body(comm, rank);
    ncclCommDestroy(comm);
    return complaint;
  });
}

ncclConfig_t ctas(int least, int most) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = least;
  config.maxCTAs = most;
  return config;
}

/// Checks that a long all-reduce has `want` channels, by rondeExplain, and that it is right.
std::string has_channels(ncclComm_t comm, int want) {
  rondeChoice_t choice{};
  choice.size = sizeof choice;
  constexpr size_t kCount = 20'000;
  RONDE_RANK_OK(rondeExplain(comm, rondeAllReduce, kCount, ncclInt32, ncclSum, 0, &choice));
  if (choice.channels != want) return "channels: " + std::to_string(choice.channels) + ", expected " + std::to_string(want);
  int ranks = 0;
  RONDE_RANK_OK(ncclCommCount(comm, &ranks));
  const std::vector<int> in(kCount, 3);
  std::vector<int> out(kCount);
  RONDE_RANK_OK(ncclAllReduce(in.data(), out.data(), kCount, ncclInt32, ncclSum, comm, nullptr));
  return out == std::vector<int>(kCount, 3 * ranks) ? "" : "the sum is wrong";
}

}  // namespace

TEST_CASE("minCTAs and maxCTAs bound the channels, unless a variable does", "[world][settings]") {
  const struct {
    std::pair<const char*, const char*> variable;
    int least, most, want;
  } cases[] = {
      {{"RONDE_STRICT", "0"}, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, 1},
      {{"RONDE_STRICT", "0"}, NCCL_CONFIG_UNDEF_INT, 1, 1},
      {{"RONDE_STRICT", "0"}, 3, 5, 3},
      {{"RONDE_STRICT", "0"}, 1000, 1000, 16},
      {{"NCCL_MIN_NCHANNELS", "2"}, 3, 5, 2},
      {{"NCCL_MIN_NCHANNELS", "8"}, 3, 5, 5},
      {{"NCCL_MAX_NCHANNELS", "2"}, 3, 5, 2},
      {{"NCCL_MAX_NCHANNELS", "9"}, 3, 5, 3},
      {{"NCCL_MIN_CTAS", "4"}, 3, 5, 4},
      {{"NCCL_MIN_CTAS", "4"}, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, 4},
      {{"NCCL_MAX_CTAS", "2"}, 3, 5, 2},
  };
  for (const auto& one : cases) {
    CAPTURE(one.variable.first, one.variable.second, one.least, one.most);
    const ScopedEnv env{one.variable};
    const auto config = [&](int) { return ctas(one.least, one.most); };
    CHECK(with_configs(2, config, [&](ncclComm_t comm, int) { return has_channels(comm, one.want); }) == "");
  }
}

TEST_CASE("a child has the parent's channels, or those of its own config", "[world][settings]") {
  const auto config = [](int) { return ctas(2, 2); };
  CHECK(with_configs(2, config, [](ncclComm_t comm, int rank) -> std::string {
    ncclConfig_t own = ctas(5, 5);
    for (const auto& [given, want] : {std::pair<ncclConfig_t*, int>(nullptr, 2), {&own, 5}}) {
      ncclComm_t child = nullptr;
      RONDE_RANK_OK(ncclCommSplit(comm, 0, rank, &child, given));
      std::string complaint = has_channels(child, want);
      ncclCommDestroy(child);
      if (!complaint.empty()) return complaint;
    }
    return has_channels(comm, 2);
  }) == "");
}

TEST_CASE("ranks whose configs ask for other channels are told so at init", "[world][settings]") {
  const std::string complaints = with_configs(3, [](int rank) { return ctas(1, rank == 2 ? 4 : 8); }, [](ncclComm_t, int) { return "came up"; });
  CAPTURE(complaints);
  CHECK_FALSE(contains(complaints, "came up"));
  for (const char* part : {"rank 0: ", "rank 1: ", "rank 2: ", "settings differ", "maxCTAs)=8 on rank 0", "maxCTAs)=4 on rank 2"}) CHECK(contains(complaints, part));
}

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

TEST_CASE("a wrong NCCL_COMM_ID is named in the error", "[world][settings]") {
  ncclUniqueId id;
  for (const char* name : {"NCCL_COMM_ID", "RONDE_COMM_ID"}) {
    const ScopedEnv env{{name, "nonsense"}};
    CHECK(ncclGetUniqueId(&id) == ncclInvalidArgument);
    CHECK(contains(ncclGetLastError(nullptr), std::string("GetUniqueId: ") + name + ": \"nonsense\" is no address"));
  }
}
