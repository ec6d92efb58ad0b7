#include "support/local_bootstrap.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "boot/posts.h"

namespace ronde::test {

struct Meeting {
  explicit Meeting(int n) : ranks(n), posts(static_cast<size_t>(n)) {}
  const int ranks;
  std::vector<Posts> posts;  // by receiving rank
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<std::byte> parts;  // of the round that is being gathered
  std::vector<std::byte> whole;  // of the last round
  int arrived = 0;
  uint64_t round = 0;
  std::map<std::tuple<int, int, uint32_t>, std::deque<std::vector<std::byte>>> mail;
};

std::shared_ptr<Meeting> make_meeting(int ranks) { return std::make_shared<Meeting>(ranks); }

namespace {

// Waits until `done` holds; an error when the time is over.
template <class Condition>
Result<> await(Meeting& meeting, std::unique_lock<std::mutex>& lock, const Deadline& deadline, const AbortWord* abort,
               Condition done) {
  while (!done()) {
    if (abort != nullptr && abort->raised()) return fail(Code::remote_error, "test bootstrap: aborted");
    if (deadline.passed()) return fail(Code::remote_error, "test bootstrap: a rank did not come in time");
    meeting.changed.wait_for(lock, std::chrono::milliseconds(deadline.left_ms(100)));
  }
  return {};
}

}  // namespace

int LocalBootstrap::size() const { return meeting_->ranks; }
std::array<uint64_t, 2> LocalBootstrap::token() const { return {reinterpret_cast<uint64_t>(meeting_.get()), 1}; }

Result<> LocalBootstrap::all_gather(std::span<std::byte> all) {
  Meeting& m = *meeting_;
  std::unique_lock lock(m.mutex);
  const size_t part = all.size() / static_cast<size_t>(m.ranks);
  m.parts.resize(all.size());
  std::memcpy(m.parts.data() + part * static_cast<size_t>(rank_), all.data() + part * static_cast<size_t>(rank_), part);
  const uint64_t round = m.round;
  if (++m.arrived == m.ranks) {
    m.arrived = 0;
    m.whole = std::move(m.parts);
    m.parts.clear();
    ++m.round;
    m.changed.notify_all();
  }
  RONDE_TRY(await(m, lock, deadline_, abort_, [&] { return m.round != round; }));
  std::memcpy(all.data(), m.whole.data(), all.size());
  return {};
}

Result<std::vector<std::vector<std::byte>>> LocalBootstrap::all_gather_parts(std::vector<std::byte>) {
  return fail(Code::internal_error, "the test bootstrap gathers equal parts only");
}
ChildJob LocalBootstrap::split(int, int, const AbortWord*, std::function<bool()>) {
  return [] { return fail(Code::internal_error, "the test bootstrap does not split"); };
}
ChildJob LocalBootstrap::shrink(std::span<const int>, const AbortWord*) {
  return [] { return fail(Code::internal_error, "the test bootstrap does not shrink"); };
}

void LocalBootstrap::listen_posts(OnPost on_post, OnGone on_gone) {
  meeting_->posts[static_cast<size_t>(rank_)].listen(std::move(on_post), std::move(on_gone));
}

Result<> LocalBootstrap::post(int peer, std::span<const std::byte> message) {
  meeting_->posts.at(static_cast<size_t>(peer)).put(rank_, Bytes(message.begin(), message.end()));
  return {};
}

void run_ranks(int ranks, const std::function<void(int, Bootstrap&)>& body) {
  auto meeting = make_meeting(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      LocalBootstrap bootstrap(meeting, rank);
      body(rank, bootstrap);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ronde::test
