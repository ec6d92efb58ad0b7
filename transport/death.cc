#include "transport/death.h"

namespace ronde {

void DeathWatch::tell(int rank, const std::string& how) {
  std::unique_lock lock(mutex_);
  if (cancelled_ || !callback_) return;
  teller_ = std::this_thread::get_id();
  const Callback callback = callback_;  // a copy: the callback may destroy the Fabric, and cancel() then drops the original
  lock.unlock();
  callback(rank, how);
  lock.lock();
  teller_ = {};
  changed_.notify_all();
}

void DeathWatch::cancel() {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  while (teller_ != std::thread::id{} && teller_ != std::this_thread::get_id()) changed_.wait(lock);
  callback_ = nullptr;
}

}  // namespace ronde
