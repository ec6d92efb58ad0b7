// RONDE_ALGO_FILE: a user's Programs run where they fit, and never where they are wrong.
#include "support/catch.h"
#include "support/scratch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

/// All send to rank 1, which folds and sends back.
const std::string kStar = R"(ronde-schedule 1
collective AllReduce ranks 3
program rank 0 channel 0 blocks 1 scratch 0
lane
  move src input 0 out 1
  move in 1 dst output 0
program rank 1 channel 0 blocks 1 scratch 0
lane
  move in 0 2 src input 0 at 1 dst output 0 out 0 2 final
program rank 2 channel 0 blocks 1 scratch 0
lane
  move src input 0 out 1
  move in 1 dst output 0
)";
/// The same along a line: not one left fold in one Move.
const std::string kLine = R"(
ronde-schedule 1
collective Reduce ranks 3 root 2
program rank 0 channel 0 blocks 1 scratch 0
lane
  move src input 0 out 1
program rank 1 channel 0 blocks 1 scratch 0
lane
  move in 0 src input 0 at 1 out 2
program rank 2 channel 0 blocks 1 scratch 0
lane
  move in 1 src input 0 at 1 dst output 0 final
)";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  return text.replace(text.find(part), part.size(), by);
}

std::string algorithm_of(ncclComm_t comm, rondeCall_t call, int root = 0, ncclRedOp_t op = ncclSum) {
  rondeChoice_t choice{};
  choice.size = sizeof choice;
  return rondeExplain(comm, call, 1000, ncclInt32, op, root, &choice) == ncclSuccess ? choice.algorithm : ncclGetLastError(comm);
}

std::string sums_are_right(ncclComm_t comm, int rank, int ranks) {
  for (const size_t count : {1, 1000, 300'001}) {
    for (const bool in_place : {false, true}) {
      std::vector<int> in(count), out(count, -1);
      for (size_t i = 0; i < count; ++i) in[i] = rank + static_cast<int>(i % 1000);
      RONDE_RANK_OK(ncclAllReduce(in.data(), in_place ? in.data() : out.data(), count, ncclInt32, ncclSum, comm, nullptr));
      for (size_t i = 0; i < count; ++i) {
        const int want = ranks * (ranks - 1) / 2 + ranks * static_cast<int>(i % 1000);
        if ((in_place ? in : out)[i] != want) return "AllReduce is wrong at " + std::to_string(i);
      }
    }
  }
  return "";
}

std::string explained(ncclComm_t comm, rondeForm_t form, size_t count) {
  char text[8192];
  if (rondeExplainAll(comm, rondeAllReduce, count, ncclInt32, ncclSum, 0, form, text, sizeof text, nullptr) != ncclSuccess)
    return ncclGetLastError(comm);
  return text;
}

/// The texts of all ranks' inits, which must fail.
std::string init_errors(int ranks) {
  return run_world(ranks, [](ncclComm_t, int) { return "came up"; });
}

}  // namespace

TEST_CASE("RONDE_ALGO_FILE: Programs run for the calls that they are for, and no others", "[world][algo_file]") {
  const ScratchFile file(kStar + kLine);
  const ScopedEnv env{{"RONDE_ALGO_FILE", file.path().c_str()}};
  CHECK(run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    if (algorithm_of(comm, rondeAllReduce) != "file") return "AllReduce: " + algorithm_of(comm, rondeAllReduce);
    if (algorithm_of(comm, rondeReduce, 2) != "file") return "Reduce: " + algorithm_of(comm, rondeReduce, 2);
    if (algorithm_of(comm, rondeReduce, 1) == "file") return "used for another root";
    if (algorithm_of(comm, rondeAllGather) == "file") return "used for another collective";
    // An average of integers needs the canonical order, which only the first has.
    if (algorithm_of(comm, rondeAllReduce, 0, ncclAvg) != "file") return "not used for an average";
    if (algorithm_of(comm, rondeReduce, 2, ncclAvg) == "file") return "used for an average that it would round";
    int one = 1, sum = 0;
    RONDE_RANK_OK(ncclReduce(&one, &sum, 1, ncclInt32, ncclSum, 2, comm, nullptr));
    if (rank == 2 && sum != 3) return "Reduce is wrong";
    return sums_are_right(comm, rank, 3);
  }) == "");
  CHECK(run_world(2, [](ncclComm_t comm, int rank) {
    return algorithm_of(comm, rondeAllReduce) == "file" ? "used for two ranks" : sums_are_right(comm, rank, 2);
  }) == "");
}

TEST_CASE("RONDE_ALGO_FILE: what is explained names the file and the line, and why nothing else", "[world][algo_file]") {
  const ScratchFile file("# mine\n" + kStar);
  const ScopedEnv env{{"RONDE_ALGO_FILE", file.path().c_str()}};
  CHECK(run_world(3, [&](ncclComm_t comm, int) -> std::string {
    const std::string text = explained(comm, rondeText, 1000);
    for (const std::string& part : {"on 3 ranks: file, Simple, 1 channel", "why: ", ":2 has Programs for it\n", "slower: Programs of the user's own come before it"}) {
      if (!contains(text, part)) return part + " is missing in " + text;
    }
    if (!contains(text, file.path())) return text;
    const std::string json = explained(comm, rondeJson, 1000);
    if (!contains(json, R"("algorithm":"file")") || !contains(json, R"("microseconds":null,"reason":")")) return json;
    // No size makes numbers wrap.
    const std::string large = explained(comm, rondeText, SIZE_MAX / 4), half = explained(comm, rondeText, SIZE_MAX / 8);
    const auto slices = [](const std::string& all) { return all.substr(all.find("slices of"), 20); };
    return contains(large, ": file, Simple, 1 channel") && slices(large) == slices(half) ? "" : large + half;
  }) == "");
}

TEST_CASE("RONDE_ALGO_FILE: RONDE_DETERMINISTIC leaves out what is not canonical", "[world][algo_file]") {
  const ScratchFile file(kStar + kLine);
  const ScopedEnv env{{"RONDE_ALGO_FILE", file.path().c_str()}, {"RONDE_DETERMINISTIC", "1"}};
  CHECK(run_world(3, [](ncclComm_t comm, int) -> std::string {
    if (algorithm_of(comm, rondeAllReduce) != "file") return "AllReduce: " + algorithm_of(comm, rondeAllReduce);
    return algorithm_of(comm, rondeReduce, 2) == "file" ? "a line is used" : "";
  }) == "");
}

TEST_CASE("RONDE_ALGO_FILE: what is wrong in it is an error of init, with file and line", "[world][algo_file]") {
  const struct {
    std::string text;
    const char* part;
  } cases[] = {
      {"nonsense\n", ":1: found \"nonsense\", expected \"ronde-schedule\""},
      {replaced(kStar, "src input 0 out 1", "src input out 1"), ":5: found \"out\", expected a block's number"},
      {kStar + kStar, ": AllReduce on 3 ranks stands in line 1 already"},
      {replaced(kStar, "out 0 2 final", "out 0 final"), ":1: AllReduce on 3 ranks: channel 0: "},
      {replaced(kStar, "in 0 2 src input 0 at 1", "in 0 2"), "is Final, but of block 0 rank 1 is missing"},
      {replaced(kStar, " final", ""), ":1: AllReduce on 3 ranks: channel 0: "},
      {replaced(kStar, "rank 0 channel 0", "rank 0 channel 1"), "channel 1 where 0 is expected"},
      {kStar + "program rank 0 channel 1 blocks 1 scratch 0\n", "4 Programs; each channel needs one for each of 3 ranks"},
  };
  for (const auto& one : cases) {
    const ScratchFile file(one.text);
    const ScopedEnv env{{"RONDE_ALGO_FILE", file.path().c_str()}};
    const std::string errors = init_errors(3);
    CAPTURE(errors, one.part);
    CHECK_FALSE(contains(errors, "came up"));
    for (const char* part : {"rank 0: ", "rank 1: ", "rank 2: ", "RONDE_ALGO_FILE: ", file.path().c_str(), one.part}) CHECK(contains(errors, part));
  }
  const ScopedEnv env{{"RONDE_ALGO_FILE", "/nonexistent/programs"}};
  CHECK(contains(init_errors(2), "RONDE_ALGO_FILE: reading the file '/nonexistent/programs': No such file or directory"));
}

TEST_CASE("RONDE_ALGO_FILE: ranks with other contents are told so; the name does not matter", "[world][algo_file]") {
  const ScratchFile star(kStar), copy(kStar), other(kStar + kLine);
  for (const bool same : {true, false}) {
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    ncclComm_t comms[3] = {};
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int r = 0; r < 3; ++r) {
      const ScopedEnv env{{"RONDE_ALGO_FILE", r != 2 ? star.path().c_str() : same ? copy.path().c_str() : other.path().c_str()}};
      REQUIRE(ncclCommInitRank(&comms[r], 3, id, r) == ncclSuccess);
    }
    CHECK(ncclGroupEnd() == (same ? ncclSuccess : ncclInvalidUsage));
    const std::string error = ncclGetLastError(nullptr);
    CAPTURE(same, error);
    if (!same) CHECK(contains(error, "RONDE_ALGO_FILE (hash of its contents)="));
    if (!same) CHECK(contains(error, "on rank 2"));
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  }
}
