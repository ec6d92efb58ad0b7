// What leaves the library: codes and texts, whatever happens inside.
#include "api/border.h"

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "api/device_api.h"
#include "ronde.h"
#include "support/catch.h"

using namespace ronde;
using ronde::test::contains;

TEST_CASE("the border turns results into codes") {
  CHECK(border("Test", []() -> Result<> { return Done{}; }) == ncclSuccess);
  CHECK(border("Test", []() -> Result<Code> { return Code::success; }) == ncclSuccess);
  CHECK(border("Test", []() -> Result<Code> { return Code::in_progress; }) == ncclInProgress);
  CHECK(border("Test", []() -> Result<> { return fail(Code::remote_error, "rank 3 ended"); }) == ncclRemoteError);
  CHECK(std::string(ncclGetLastError(nullptr)) == "Test: rank 3 ended");
}

TEST_CASE("a text that begins with the call does not name it twice") {
  for (const char* text : {"Reduce: root 5 is none", "Reduce(count 1, float, sum) on rank 0 waits"}) {
    CHECK(border("Reduce", [&]() -> Result<> { return fail(Code::remote_error, text); }) == ncclRemoteError);
    CHECK(std::string(ncclGetLastError(nullptr)) == text);
  }
  CHECK(border("Reduce", []() -> Result<> { return fail(Code::remote_error, "ReduceScatter waits"); }) == ncclRemoteError);
  CHECK(std::string(ncclGetLastError(nullptr)) == "Reduce: ReduceScatter waits");
}

TEST_CASE("ncclInProgress is no error and leaves no text") {
  set_last_error("before");
  CHECK(border("Test", []() -> Result<> { return fail(Code::in_progress, "not ready"); }) == ncclInProgress);
  CHECK(std::string(ncclGetLastError(nullptr)) == "before");
}

TEST_CASE("no exception leaves the border") {
  CHECK(border("Test", []() -> Result<> { throw std::bad_alloc(); }) == ncclSystemError);
  CHECK(contains(ncclGetLastError(nullptr), "Test: allocating memory failed"));
  CHECK(border("Test", []() -> Result<> { throw std::runtime_error("odd"); }) == ncclInternalError);
  CHECK(contains(ncclGetLastError(nullptr), "odd"));
  CHECK(border("Test", []() -> Result<> { throw 7; }) == ncclInternalError);
}

TEST_CASE("a pointer that is NULL is named") {
  CHECK(require_pointer("x", "count").ok());
  CHECK(ncclGetVersion(nullptr) == ncclInvalidArgument);
  CHECK(contains(ncclGetLastError(nullptr), "GetVersion: the argument version is NULL"));
}

TEST_CASE("questions about a communicator name the pointer that is NULL") {
  const std::pair<ncclResult_t (*)(const ncclComm_t, int*), const char*> questions[] = {
      {ncclCommCount, "CommCount: the argument count is NULL"},
      {ncclCommCuDevice, "CommCuDevice: the argument device is NULL"},
      {ncclCommUserRank, "CommUserRank: the argument rank is NULL"}};
  for (const auto& [ask, text] : questions) {
    CHECK(ask(nullptr, nullptr) == ncclInvalidArgument);
    CHECK(contains(ncclGetLastError(nullptr), text));
  }
}

TEST_CASE("ncclCommInitAll: at least one rank; on the CPU a rank's device is the rank, whatever the list says") {
  ncclComm_t comms[2] = {};
  CHECK(ncclCommInitAll(comms, 0, nullptr) == ncclInvalidArgument);
  CHECK(ncclCommInitAll(comms, -1, nullptr) == ncclInvalidArgument);
  CHECK(contains(ncclGetLastError(nullptr), "ndev is -1"));
  const int devices[] = {7, 3};
  REQUIRE(ncclCommInitAll(comms, 2, devices) == ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    int device = -1;
    CHECK(ncclCommCuDevice(comms[rank], &device) == ncclSuccess);
    CHECK(device == rank);
  }
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("GroupSimulateEnd closes the group, also where its argument is wrong") {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  SECTION("magic") { info.magic = 1; }
  SECTION("size") { info.size = 7; }
  CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidArgument);  // no group at all
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK(ncclGroupSimulateEnd(&info) == ncclInvalidArgument);
  CHECK(contains(ncclGetLastError(nullptr), "ncclSimInfo_t."));
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("a long text is cut and stays a string; success does not clear it") {
  set_last_error(std::string(5000, 'x'));
  CHECK(std::strlen(ncclGetLastError(nullptr)) == kLastErrorBytes - 1);
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(std::strlen(ncclGetLastError(nullptr)) == kLastErrorBytes - 1);
}

TEST_CASE("a pointer from ncclGetLastError holds while other threads fail") {
  set_last_error("mine");
  const char* mine = ncclGetLastError(nullptr);
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c'}) {
    threads.emplace_back([&torn, letter] {
      for (int i = 0; i < 2000; ++i) {
        set_last_error(std::string(900, letter));
        const std::string seen = ncclGetLastError(nullptr);
        if (seen.empty() || seen.find_first_not_of(seen[0]) != std::string::npos) ++torn;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(std::string(mine) == "mine");
}

TEST_CASE("versions") {
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == 22809);
  CHECK(rondeGetVersion(&version) == ncclSuccess);
  CHECK(version == RONDE_VERSION_CODE);
  CHECK(rondeGetVersion(nullptr) == ncclInvalidArgument);
}

TEST_CASE("the texts of the codes are NCCL's") {
  const char* const texts[] = {"no error",
                               "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                               "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                               "internal error - please report this issue to the NCCL developers",
                               "invalid argument (run with NCCL_DEBUG=WARN for details)",
                               "invalid usage (run with NCCL_DEBUG=WARN for details)",
                               "remote process exited or there was a network error",
                               "NCCL operation in progress",
                               "unknown result code"};
  for (int code = 0; code <= 8; ++code) CHECK(std::string(ncclGetErrorString(static_cast<ncclResult_t>(code))) == texts[code]);
}

TEST_CASE("the device-side API is refused with a text") {
  set_last_error("");
  CHECK(ncclDevCommCreate(nullptr, nullptr, nullptr) == ncclInvalidUsage);
  CHECK(contains(ncclGetLastError(nullptr), "DevCommCreate: ronde has no device-side API"));
  CHECK(ncclDevCommDestroy(nullptr, nullptr) == ncclInvalidUsage);
  const ncclTeam_t team = ncclTeamWorld(nullptr);
  CHECK(team.nRanks == 0);
  CHECK(ncclTeamLsa(nullptr).nRanks == 0);
  CHECK(ncclTeamRail(nullptr).nRanks == 0);
  CHECK(ncclTeamRankToWorld(nullptr, team, 0) == -1);
  CHECK(ncclTeamRankToLsa(nullptr, team, 0) == -1);
  CHECK(ncclLsaBarrierCreateRequirement(team, 1, nullptr, nullptr) == ncclInvalidUsage);
  CHECK(ncclGinBarrierCreateRequirement(nullptr, team, 1, nullptr, nullptr) == ncclInvalidUsage);
  CHECK(ncclLLA2ACreateRequirement(1, 1, nullptr, nullptr) == ncclInvalidUsage);
  set_last_error("");
  CHECK(ncclLLA2ACalcSlots(1, 1) == -1);
  CHECK(contains(ncclGetLastError(nullptr), "LLA2ACalcSlots"));
}
