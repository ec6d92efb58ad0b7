// RONDE_TUNE_FILE of a communicator: broken files, and ranks that have different ones.
#include "support/catch.h"
#include "support/scratch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

/// How the init of three ranks with these files ends, and the last error.
std::pair<ncclResult_t, std::string> init_with(const char* first, const char* last) {
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t comms[3] = {};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 3; ++r) {
    const ScopedEnv env{{"RONDE_TUNE_FILE", r < 2 ? first : last}};
    REQUIRE(ncclCommInitRank(&comms[r], 3, id, r) == ncclSuccess);
  }
  const ncclResult_t code = ncclGroupEnd();
  const std::string error = ncclGetLastError(nullptr);
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  return {code, error};
}

}  // namespace

TEST_CASE("RONDE_TUNE_FILE: ranks with other constants are told so; names and comments do not matter", "[world][tune]") {
  const ScratchFile one("ronde-costs 1\ncpu.wake 9000 ns\n"), same("ronde-costs 1\n# measured\ncpu.wake 9000 ns\n"),
      other("ronde-costs 1\ncpu.wake 9001 ns\n");
  CHECK(init_with(one.path().c_str(), same.path().c_str()).first == ncclSuccess);
  const auto [code, error] = init_with(one.path().c_str(), other.path().c_str());
  CAPTURE(error);
  CHECK(code == ncclInvalidUsage);
  CHECK(contains(error, "RONDE_TUNE_FILE (hash of its constants"));
  CHECK(contains(error, "on rank 2"));
}

TEST_CASE("RONDE_TUNE_FILE: a broken file is an error of init, with file and line", "[world][tune]") {
  const ScratchFile broken("ronde-costs 1\ncpu.wake 9000 us\n");
  const ScopedEnv env{{"RONDE_TUNE_FILE", broken.path().c_str()}};
  const std::string errors = run_world(2, [](ncclComm_t, int) { return "came up"; });
  CAPTURE(errors);
  CHECK_FALSE(contains(errors, "came up"));
  CHECK(contains(errors, std::string("RONDE_TUNE_FILE: ") + broken.path().c_str() + ":2: cpu.wake is written"));
}
