#include "bench/team.h"

#include <cstring>

namespace ronde::bench {

void Team::meet(const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) throw Broken{};
  const uint64_t round = round_;
  if (++waiting_ < threads_) {
    turn_.wait(lock, [&] { return round_ != round || !failure_.empty(); });
    if (round_ == round) throw Broken{};
    return;
  }
  waiting_ = 0;
  lock.unlock();  // the work waits for other processes; a failure has to get through meanwhile
  work();
  lock.lock();
  ++round_;
  turn_.notify_all();
}

void Team::barrier() {
  meet([this] { job_.barrier(); });
}

std::vector<std::vector<double>> Team::all_gather(int thread, std::vector<double> numbers) {
  const size_t each = numbers.size();
  mine_[static_cast<size_t>(thread)] = std::move(numbers);
  meet([&] {
    std::string packed;
    for (const auto& of_thread : mine_) packed.append(reinterpret_cast<const char*>(of_thread.data()), each * sizeof(double));
    all_.clear();
    for (const std::string& text : job_.all_gather(packed)) {
      for (size_t at = 0; at + each * sizeof(double) <= text.size() && all_.size() < static_cast<size_t>(job_.size() * threads_);
           at += each * sizeof(double)) {
        all_.emplace_back(each);
        std::memcpy(all_.back().data(), text.data() + at, each * sizeof(double));
      }
    }
  });
  auto all = all_;
  local_barrier();  // nobody starts the next exchange before all have read this one
  return all;
}

void Team::fail(const TestFailure& failure) {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_.push_back(failure);
    action = action_;
  }
  turn_.notify_all();
  if (action) action();
}

bool Team::failed() const {
  const std::lock_guard lock(mutex_);
  return !failure_.empty();
}

TestFailure Team::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_.front();
}

}  // namespace ronde::bench
