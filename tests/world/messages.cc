// Send and Recv: order, sizes, groups, eager messages, messages to oneself.
#include "support/catch.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

std::string expect_ints(const std::vector<int>& got, const std::vector<int>& want) {
  if (got == want) return "";
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] != want[i]) return "element " + std::to_string(i) + ": got " + std::to_string(got[i]) + ", expected " + std::to_string(want[i]);
  }
  return "sizes differ";
}

std::vector<int> numbers(size_t count, int start) {
  std::vector<int> data(count);
  for (size_t i = 0; i < count; ++i) data[i] = start + static_cast<int>(i);
  return data;
}

}  // namespace

TEST_CASE("messages of a pair arrive in the order of issue, whatever stands between", "[world][messages]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    for (int i = 0; i < 50; ++i) {
      const size_t count = static_cast<size_t>(i * i * 37 % 5000);
      std::vector<int> data = numbers(count, i);
      if (rank == 0) {
        RONDE_RANK_OK(ncclSend(data.data(), count, ncclInt32, 1, comm, nullptr));
      } else {
        std::vector<int> got(count, -1);
        RONDE_RANK_OK(ncclRecv(got.data(), count, ncclInt32, 0, comm, nullptr));
        const std::string complaint = expect_ints(got, data);
        if (!complaint.empty()) return complaint;
      }
      if (i % 7 == 0) {
        int one = 1, sum = 0;
        RONDE_RANK_OK(ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, comm, nullptr));
        if (sum != 2) return "the all-reduce between messages is wrong";
      }
    }
    return "";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("a Send up to the eager limit returns before its Recv", "[world][messages]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    // Both send first: only eager sends let both come to their receives.
    constexpr int kMessages = 200;
    constexpr size_t kCount = 4000;
    const int peer = 1 - rank;
    for (int i = 0; i < kMessages; ++i) {
      const std::vector<int> data = numbers(kCount, i + rank);
      RONDE_RANK_OK(ncclSend(data.data(), kCount, ncclInt32, peer, comm, nullptr));
    }
    for (int i = 0; i < kMessages; ++i) {
      std::vector<int> got(kCount);
      RONDE_RANK_OK(ncclRecv(got.data(), kCount, ncclInt32, peer, comm, nullptr));
      const std::string complaint = expect_ints(got, numbers(kCount, i + peer));
      if (!complaint.empty()) return "message " + std::to_string(i) + ": " + complaint;
    }
    return "";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("unequal blocks move side by side in a group, zero sizes included", "[world][messages]") {
  const std::string complaints = run_world(4, [](ncclComm_t comm, int rank) -> std::string {
    const size_t counts[4] = {3'000'000, 2, 0, 70'001};
    std::vector<std::vector<int>> out, in;
    for (int peer = 0; peer < 4; ++peer) {
      out.push_back(numbers(counts[peer], rank * 1000 + peer));
      in.emplace_back(counts[rank], -1);
    }
    RONDE_RANK_OK(ncclGroupStart());
    for (int peer = 0; peer < 4; ++peer) {
      RONDE_RANK_OK(ncclSend(out[peer].data(), out[peer].size(), ncclInt32, peer, comm, nullptr));
      RONDE_RANK_OK(ncclRecv(in[peer].data(), in[peer].size(), ncclInt32, peer, comm, nullptr));
    }
    RONDE_RANK_OK(ncclGroupEnd());
    for (int peer = 0; peer < 4; ++peer) {
      const std::string complaint = expect_ints(in[peer], numbers(counts[rank], peer * 1000 + rank));
      if (!complaint.empty()) return "from " + std::to_string(peer) + ": " + complaint;
    }
    return "";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("zero-size messages are real: they match, and stand in line", "[world][messages]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    int value = 42;
    if (rank == 0) {
      RONDE_RANK_OK(ncclSend(nullptr, 0, ncclInt32, 1, comm, nullptr));
      return check_code("Send", ncclSend(&value, 1, ncclInt32, 1, comm, nullptr));
    }
    int got = 0;
    RONDE_RANK_OK(ncclRecv(nullptr, 0, ncclInt32, 0, comm, nullptr));
    RONDE_RANK_OK(ncclRecv(&got, 1, ncclInt32, 0, comm, nullptr));
    return got == 42 ? "" : "wrong value";
  });
  REQUIRE(complaints == "");
}

TEST_CASE("a message to oneself needs its other half in the same group", "[world][messages]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int rank) -> std::string {
    std::vector<int> out = numbers(100'000, rank), in(100'000);
    const std::string lone = check_code("lone Send", ncclSend(out.data(), out.size(), ncclInt32, rank, comm, nullptr), ncclInvalidUsage);
    if (!lone.empty()) return lone;
    RONDE_RANK_OK(ncclGroupStart());
    RONDE_RANK_OK(ncclSend(out.data(), out.size(), ncclInt32, rank, comm, nullptr));
    RONDE_RANK_OK(ncclRecv(in.data(), in.size(), ncclInt32, rank, comm, nullptr));
    RONDE_RANK_OK(ncclGroupEnd());
    return expect_ints(in, out);
  });
  REQUIRE(complaints == "");
}

TEST_CASE("collectives and messages of several communicators in one group", "[world][messages][group]") {
  ncclComm_t comms[4];
  REQUIRE(ncclCommInitAll(comms, 4, nullptr) == ncclSuccess);
  int in[4] = {1, 2, 3, 4}, sum[4] = {}, from_left[4] = {}, product[4] = {};
  REQUIRE(ncclGroupStart() == ncclSuccess);
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int r = 0; r < 4; ++r) {
    REQUIRE(ncclAllReduce(&in[r], &sum[r], 1, ncclInt32, ncclSum, comms[r], nullptr) == ncclSuccess);
    REQUIRE(ncclSend(&in[r], 1, ncclInt32, (r + 1) % 4, comms[r], nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  REQUIRE(sum[0] == 0);  // only the outermost end runs anything
  for (int r = 0; r < 4; ++r) {
    REQUIRE(ncclRecv(&from_left[r], 1, ncclInt32, (r + 3) % 4, comms[r], nullptr) == ncclSuccess);
    REQUIRE(ncclAllReduce(&in[r], &product[r], 1, ncclInt32, ncclProd, comms[r], nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (int r = 0; r < 4; ++r) {
    CHECK(sum[r] == 10);
    CHECK(product[r] == 24);
    CHECK(from_left[r] == in[(r + 3) % 4]);
    CHECK(ncclCommDestroy(comms[r]) == ncclSuccess);
  }
}
