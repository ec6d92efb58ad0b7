// What a communicator says of calls that it does not run: rondeExplainAll and ncclGroupSimulateEnd.
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

std::string explained(ncclComm_t comm, rondeForm_t form, rondeCall_t call = rondeAllReduce, size_t count = 1000) {
  size_t needed = 0;
  if (rondeExplainAll(comm, call, count, ncclFloat32, ncclSum, 0, form, nullptr, 0, &needed) != ncclSuccess) return "";
  std::string text(needed, '?');
  if (rondeExplainAll(comm, call, count, ncclFloat32, ncclSum, 0, form, text.data(), text.size(), nullptr) != ncclSuccess)
    return "";
  if (text.back() != '\0') return "";
  text.pop_back();
  return text;
}

/// The estimate for a group of what `calls` issues; below 0: the code, negative.
double estimated(const std::function<void()>& calls) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclGroupStart();
  calls();
  const ncclResult_t code = ncclGroupSimulateEnd(&info);
  return code == ncclSuccess ? static_cast<double>(info.estimatedTime) : -static_cast<double>(code);
}

bool about(double a, double b) { return std::abs(a - b) < 1e-3 * b; }

float buffer[1 << 20];

void all_reduce(ncclComm_t comm, size_t count = 1 << 20) {
  ncclAllReduce(buffer, buffer, count, ncclFloat32, ncclSum, comm, nullptr);
}

/// A communicator of `n` ranks that this thread drives.
std::vector<ncclComm_t> own_ranks(int n) {
  std::vector<ncclComm_t> comms(static_cast<size_t>(n));
  REQUIRE(ncclCommInitAll(comms.data(), n, nullptr) == ncclSuccess);
  return comms;
}
void destroy(const std::vector<ncclComm_t>& comms) {
  for (ncclComm_t comm : comms) CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

}  // namespace

TEST_CASE("rondeExplainAll has every alternative, and the choice of rondeExplain", "[world][foresight]") {
  const std::string complaints = run_world(3, [](ncclComm_t comm, int) -> std::string {
    for (int call = rondeAllReduce; call <= rondeScatter; ++call) {
      rondeChoice_t choice{};
      choice.size = sizeof choice;
      RONDE_RANK_OK(rondeExplain(comm, static_cast<rondeCall_t>(call), 1000, ncclFloat32, ncclSum, 0, &choice));
      const nlohmann::json json = nlohmann::json::parse(explained(comm, rondeJson, static_cast<rondeCall_t>(call)));
      if (json["choice"]["algorithm"] != choice.algorithm || json["choice"]["reason"] != choice.reason || json["ranks"] != 3)
        return json.dump();
      if (json["choice"]["transport"] != choice.transport || json["choice"]["transport"] != "inproc") return json.dump();
      if (json["alternatives"].size() < 6) return json.dump();
      const std::string text = explained(comm, rondeText, static_cast<rondeCall_t>(call));
      if (!contains(text, std::string("why: ") + choice.reason) || !contains(text, ", by inproc\n")) return text;
    }
    return "";
  });
  CHECK(complaints == "");
}

TEST_CASE("rondeExplainAll cuts its text to the size, and checks its arguments", "[world][foresight]") {
  const auto comms = own_ranks(1);
  const std::string whole = explained(comms[0], rondeText);
  REQUIRE(whole.size() > 100);
  const auto ask = [&](rondeCall_t call, int form, char* text, size_t size) {
    return rondeExplainAll(comms[0], call, 1000, ncclFloat32, ncclSum, 0, static_cast<rondeForm_t>(form), text, size, nullptr);
  };
  for (const size_t size : {size_t{1}, size_t{2}, size_t{50}, whole.size(), whole.size() + 1, whole.size() + 9}) {
    std::string text(size + 4, '#');
    REQUIRE(ask(rondeAllReduce, rondeText, text.data(), size) == ncclSuccess);
    CHECK(std::string(text.c_str()) == whole.substr(0, size - 1));
    CHECK(text.substr(size) == "####");
  }
  char text[8];
  CHECK(ask(rondeAllReduce, 2, text, sizeof text) == ncclInvalidArgument);
  CHECK(ask(rondeAllReduce, -1, text, sizeof text) == ncclInvalidArgument);
  CHECK(ask(rondeAllReduce, rondeText, nullptr, 8) == ncclInvalidArgument);
  CHECK(ask(rondeSend, rondeText, text, sizeof text) == ncclInvalidArgument);
  CHECK(rondeExplainAll(nullptr, rondeAllReduce, 1, ncclFloat32, ncclSum, 0, rondeText, text, sizeof text, nullptr) ==
        ncclInvalidArgument);
  destroy(comms);
}

TEST_CASE("an estimate of a group: collectives in turn, messages beside them, all work by the one thread", "[world][foresight]") {
  std::fill(std::begin(buffer), std::end(buffer), 1.0f);
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    const double one = estimated([&] { all_reduce(comm); });
    const double two = estimated([&] { all_reduce(comm), all_reduce(comm); });
    const double small = estimated([&] { all_reduce(comm, 16); });
    const double message = estimated([&] { ncclSend(buffer, 4096, ncclFloat32, 1 - rank, comm, nullptr); });
    const double both = estimated([&] { all_reduce(comm), ncclSend(buffer, 4096, ncclFloat32, 1 - rank, comm, nullptr); });
    rondeChoice_t choice{};
    choice.size = sizeof choice;
    RONDE_RANK_OK(rondeExplain(comm, rondeAllReduce, 1 << 20, ncclFloat32, ncclSum, 0, &choice));
    const std::string all = std::to_string(one) + " " + std::to_string(two) + " " + std::to_string(small) + " " +
                            std::to_string(message) + " " + std::to_string(both) + " " + std::to_string(choice.microseconds);
    if (!about(one, choice.microseconds) || !about(two, 2 * one) || !(small > 0) || small > one) return "collectives: " + all;
    if (!(message > 0) || both < one || both > one + message * 1.001) return "messages: " + all;
    if (estimated([] {}) != 0 || estimated([&] { all_reduce(comm, 0); }) != 0) return "nothing takes time";
    return "";
  });
  CHECK(complaints == "");
  CHECK(std::all_of(std::begin(buffer), std::end(buffer), [](float x) { return x == 1.0f; }));  // nothing ran
}

TEST_CASE("a collective of several ranks of one thread counts once, but their work adds up", "[world][foresight]") {
  const auto comms = own_ranks(4);
  rondeChoice_t choice{};
  choice.size = sizeof choice;
  REQUIRE(rondeExplain(comms[0], rondeAllReduce, 1 << 20, ncclFloat32, ncclSum, 0, &choice) == ncclSuccess);
  const double all = estimated([&] {
    for (ncclComm_t comm : comms) all_reduce(comm);
  });
  CHECK(all >= choice.microseconds * 0.999);
  CHECK(all <= choice.microseconds * 4.001);
  destroy(comms);
}

TEST_CASE("an estimate fails as the group would, and the group is closed", "[world][foresight]") {
  const auto comms = own_ranks(2);
  const double spoilt = estimated([&] { ncclAllReduce(nullptr, buffer, 8, ncclFloat32, ncclSum, comms[0], nullptr); });
  CHECK(spoilt == -ncclInvalidArgument);
  CHECK(estimated([&] { ncclRecv(buffer, 8, ncclFloat32, 0, comms[0], nullptr); }) ==
        -ncclInvalidUsage);  // to itself, without the Send
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId id;
  ncclComm_t other = nullptr;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclCommInitRankConfig(&other, 1, id, 0, &config);
  for (ncclResult_t code = ncclInProgress; code == ncclInProgress;) REQUIRE(ncclCommGetAsyncError(other, &code) == ncclSuccess);
  CHECK(estimated([&] { all_reduce(comms[0], 8), all_reduce(other, 8); }) == -ncclInvalidArgument);  // blocking and not
  ncclCommAbort(other);
  ncclComm_t made = comms[0];
  CHECK(estimated([&] { ncclCommInitRank(&made, 1, id, 0); }) == -ncclInvalidUsage);
  CHECK(made == nullptr);
  CHECK(contains(ncclGetLastError(nullptr), "cannot be estimated"));
  CHECK(ncclGroupEnd() == ncclInvalidUsage);  // no group is open
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (ncclComm_t comm : comms) all_reduce(comm, 8);
  CHECK(ncclGroupSimulateEnd(&info) == ncclSuccess);  // an inner end
  CHECK(ncclGroupSimulateEnd(nullptr) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  // The communicators are as before.
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (ncclComm_t comm : comms) ncclAllReduce(buffer, buffer, 0, ncclFloat32, ncclSum, comm, nullptr);
  CHECK(ncclGroupEnd() == ncclSuccess);
  destroy(comms);
}
