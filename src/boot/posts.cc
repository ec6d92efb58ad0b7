#include "boot/posts.h"

namespace ronde {

void Posts::listen(OnPost on_post, OnGone on_gone) {
  const auto self = std::this_thread::get_id();
  {
    std::unique_lock lock(mutex_);
    handlers_ = nullptr;
    idle_.wait(lock, [&] { return busy_ == std::thread::id() || busy_ == self; });
    if (on_post) handlers_ = std::make_shared<const Handlers>(Handlers{std::move(on_post), std::move(on_gone)});
  }
  hand_out();
}

void Posts::hand_out() {
  std::unique_lock lock(mutex_);
  if (busy_ != std::thread::id()) return;
  busy_ = std::this_thread::get_id();
  while (handlers_ != nullptr && !news_.empty()) {
    const auto handlers = handlers_;  // they may be replaced by what they call
    const News one = std::move(news_.front());
    news_.pop_front();
    lock.unlock();
    if (!one.gone) {
      handlers->on_post(one.peer, one.message);
    } else if (handlers->on_gone) {
      handlers->on_gone(one.peer, *one.gone);
    }
    lock.lock();
  }
  busy_ = std::thread::id();
  idle_.notify_all();  // under the lock: who waits may destroy this next
}

void Posts::put(int from, Bytes message) {
  {
    const std::lock_guard lock(mutex_);
    news_.push_back({from, std::nullopt, std::move(message)});
  }
  hand_out();
}

void Posts::know(int peer, uint64_t process) {
  const std::lock_guard lock(mutex_);
  known_[peer] = process;
}

void Posts::lost(uint64_t process, const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [peer, its_process] : known_) {
      if (its_process == process && over_.insert(peer).second) news_.push_back({peer, why, {}});
    }
  }
  hand_out();
}

void Posts::leave(int peer) {
  const std::lock_guard lock(mutex_);
  over_.insert(peer);
}

}  // namespace ronde
