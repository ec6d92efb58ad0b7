// A bootstrap between threads, for tests of what stands on bootstraps: ranks are threads that meet under one lock.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "boot/bootstrap.h"

namespace ronde::test {

struct Meeting;  // where the ranks meet

class LocalBootstrap final : public Bootstrap {
 public:
  LocalBootstrap(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override;
  std::array<uint64_t, 2> token() const override;
  Result<> all_gather(std::span<std::byte> all) override;
  Result<std::vector<std::vector<std::byte>>> all_gather_parts(std::vector<std::byte> mine) override;
  ChildJob split(int color, int key, const AbortWord* abort, std::function<bool()> stopped) override;
  ChildJob shrink(std::span<const int> survivors, const AbortWord* abort) override;
  void set_deadline(std::optional<Deadline> deadline) override { deadline_ = deadline.value_or(Deadline::in(60)); }
  std::string describe() const override { return "threads of a test"; }
  void listen_posts(OnPost on_post, OnGone on_gone) override;
  Result<> post(int peer, std::span<const std::byte> message) override;

 private:
  std::shared_ptr<Meeting> meeting_;
  int rank_;
  Deadline deadline_ = Deadline::in(60);
  const AbortWord* abort_ = nullptr;
};

std::shared_ptr<Meeting> make_meeting(int ranks);
/// Runs body(rank, bootstrap) in one thread for each rank and waits for all of them.
void run_ranks(int ranks, const std::function<void(int rank, Bootstrap& bootstrap)>& body);

}  // namespace ronde::test
