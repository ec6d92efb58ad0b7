#include "gpu-emulator/driver/stream.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/thread.h"
#include "gpu-emulator/driver/driver.h"
#include "gpu-emulator/driver/table.h"

namespace emu::driver {
namespace {
std::atomic<int> busy{0};
}

int busy_streams() { return busy.load(); }

bool Point::passed() const { return stream == nullptr || stream->passed(number); }
void Point::wait() const {
  if (stream != nullptr) stream->wait(number);
}

Stream::Stream(std::shared_ptr<Context> context, unsigned flags, int priority)
    : context_(std::move(context)), flags_(flags), priority_(priority), id_(next_handle()) {}

Point Stream::enqueue(Work work, std::vector<Point> after) {
  std::lock_guard lock(mutex_);
  queue_.push_back({std::move(work), std::move(after)});
  ++added_;
  if (!running_) {
    running_ = true;
    auto thread = ronde::start_thread("emu-stream", [self = shared_from_this()] { self->run(); });
    if (!thread) {
      std::fprintf(stderr, "emulated GPU: %s\n", thread.error().what.c_str());
      std::abort();
    }
    thread->detach();
  }
  changed_.notify_all();
  return {shared_from_this(), added_};
}

Point Stream::tail() {
  std::lock_guard lock(mutex_);
  return {shared_from_this(), added_};
}

bool Stream::passed(uint64_t number) {
  std::lock_guard lock(mutex_);
  return ended_ >= number;
}

void Stream::wait(uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_ >= number; });
}

void Stream::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !queue_.empty() || closed_; });
    if (queue_.empty()) break;
    busy.fetch_add(1);
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    for (const Point& point : item.after) point.wait();
    if (context_->failed() == CUDA_SUCCESS) {
      if (const CUresult result = item.work(); result != CUDA_SUCCESS) context_->fail(result, "");
    }
    item = {};  // what the work holds ends before its end is told
    lock.lock();
    ++ended_;
    busy.fetch_sub(1);
    changed_.notify_all();
  }
  running_ = false;
}

}  // namespace emu::driver
