#include "bench/job.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "bench/failure.h"
#include "support/catch.h"

namespace ronde::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

MeetingPlace own_place() {
  static std::atomic<int> count{0};
  return {"", 0, "ronde-test-" + std::to_string(getpid()) + "-" + std::to_string(count++)};
}

int free_port() {
  const Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length);
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

/// Runs `body` as each of `ranks` of a job, on threads; returns what each threw, "" for nothing.
std::vector<std::string> run_ranks(const std::vector<int>& ranks, int size, const MeetingPlace& place,
                                   const std::function<void(Job&)>& body, milliseconds patience = seconds(20)) {
  std::vector<std::string> thrown(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        const auto job = Job::join({ranks[i], size, "test", place}, "all_reduce_perf", patience);
        body(*job);
      } catch (const TestFailure& failure) {
        thrown[i] = failure.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return thrown;
}

}  // namespace

TEST_CASE("job: all processes see all texts in rank order", "[bench]") {
  const bool over_tcp = GENERATE(false, true);
  const MeetingPlace place = over_tcp ? MeetingPlace{"127.0.0.1", free_port(), ""} : own_place();
  std::atomic<int> right{0};
  const auto thrown = run_ranks({0, 1, 2, 3, 4, 5, 6}, 7, place, [&](Job& job) {
    for (int round = 0; round < 20; ++round) {
      const auto texts = job.all_gather("r" + std::to_string(job.rank()) + std::string(static_cast<size_t>(round * 1000), 'x'));
      bool good = texts.size() == 7;
      for (size_t r = 0; good && r < 7; ++r)
        good = texts[r].size() == static_cast<size_t>(2 + round * 1000) && texts[r][1] == '0' + static_cast<char>(r);
      right += good ? 1 : 0;
      job.barrier();
    }
  });
  for (const auto& text : thrown) CHECK(text.empty());
  CHECK(right == 7 * 20);
}

TEST_CASE("job: a process alone meets nobody", "[bench]") {
  const auto job = Job::join({}, "all_reduce_perf", milliseconds(0));
  CHECK(job->all_gather("a") == std::vector<std::string>{"a"});
}

TEST_CASE("job: those who do not come are named to all", "[bench]") {
  const auto thrown = run_ranks(
      {0, 2}, 4, own_place(), [](Job&) {}, milliseconds(200));
  for (const auto& text : thrown) {
    INFO(text);
    CHECK(test::contains(text, "ranks 1, 3 of 4 did not come"));
  }
  const auto alone = run_ranks(
      {1}, 2, own_place(), [](Job&) {}, milliseconds(200));
  INFO(alone[0]);
  CHECK(test::contains(alone[0], "rank 0 of the job's 2 processes was not at"));
}

TEST_CASE("job: two claimants of a rank", "[bench]") {
  const auto thrown = run_ranks({0, 1, 1}, 3, own_place(), [](Job&) {});
  for (const auto& text : thrown) {
    INFO(text);
    CHECK(test::contains(text, "two processes claim rank 1"));
  }
}

TEST_CASE("job: another size, another program", "[bench]") {
  const MeetingPlace place = own_place();
  std::string hub;
  std::thread zero([&] {
    try {
      Job::join({0, 3, "test", place}, "all_reduce_perf", seconds(20));
    } catch (const TestFailure& failure) {
      hub = failure.what();
    }
  });
  const bool other_size = GENERATE(false, true);
  std::string guest;
  try {
    Job::join({1, other_size ? 2 : 3, "test", place}, other_size ? "all_reduce_perf" : "broadcast_perf", seconds(20));
  } catch (const TestFailure& failure) {
    guest = failure.what();
  }
  zero.join();
  CHECK(guest == hub);
  CHECK(test::contains(hub, other_size ? "counts 2 processes" : "runs broadcast_perf"));
}

TEST_CASE("job: a process that leaves is named", "[bench]") {
  const auto thrown = run_ranks({0, 1, 2}, 3, own_place(), [](Job& job) {
    job.barrier();
    if (job.rank() == 1) return;
    job.barrier();
  });
  CHECK(thrown[1].empty());
  for (const size_t i : {size_t{0}, size_t{2}}) {
    INFO(thrown[i]);
    CHECK(test::contains(thrown[i], "process of rank 1 has left"));
  }
}

TEST_CASE("job: one that is late at a barrier is named", "[bench]") {
  std::atomic<bool> over{false};
  const auto thrown = run_ranks({0, 1, 2}, 3, own_place(), [&](Job& job) {
    job.set_patience(milliseconds(200));
    if (job.rank() == 2) {
      over.wait(false);
      return;
    }
    try {
      job.barrier();
    } catch (...) {
      over = true;
      over.notify_all();
      throw;
    }
  });
  for (const size_t i : {size_t{0}, size_t{1}}) {
    INFO(thrown[i]);
    CHECK(test::contains(thrown[i], "rank 2 of 3 did not reach the barrier"));
  }
}

TEST_CASE("job: a stranger at the port disturbs nobody", "[bench]") {
  const MeetingPlace place{"127.0.0.1", free_port(), ""};
  std::atomic<bool> done{false};
  std::thread stranger([&] {
    while (!done) {
      const Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(place.port));
      if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
      const std::string noise(100, 'n');
      send(fd.get(), noise.data(), noise.size(), MSG_NOSIGNAL);
    }
  });
  const auto thrown = run_ranks({0, 1, 2}, 3, place, [](Job& job) { job.barrier(); });
  done = true;
  stranger.join();
  for (const auto& text : thrown) CHECK(text.empty());
}

TEST_CASE("job: ranks as text", "[bench]") {
  CHECK(ranks_text({3}) == "rank 3");
  CHECK(ranks_text({1, 2, 5}) == "ranks 1, 2, 5");
}

}  // namespace ronde::bench
