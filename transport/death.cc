#include "transport/death.h"

#include <algorithm>

namespace ronde {

void DeathWatch::tell(int rank, const std::string& how) {
  std::unique_lock lock(mutex_);
  if (cancelled_ || !callback_) return;
  tellers_.push_back(std::this_thread::get_id());
  const Callback callback = callback_;  // a copy: the callback may destroy the Fabric, and cancel() then drops the original
  lock.unlock();
  callback(rank, how);
  lock.lock();
  tellers_.erase(std::find(tellers_.begin(), tellers_.end(), std::this_thread::get_id()));
  changed_.notify_all();
}

void DeathWatch::cancel() {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  changed_.wait(lock, [&] {
    return std::all_of(tellers_.begin(), tellers_.end(), [](std::thread::id teller) { return teller == std::this_thread::get_id(); });
  });
  callback_ = nullptr;
}

}  // namespace ronde
