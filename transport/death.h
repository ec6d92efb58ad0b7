// A Fabric's ear for the deaths of its peers, safe against the Fabric going away.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ronde {

class DeathWatch {
 public:
  using Callback = std::function<void(int rank, const std::string& how)>;
  explicit DeathWatch(Callback callback) : callback_(std::move(callback)) {}

  /// Runs the callback in the calling thread unless cancelled. No lock of ours is held meanwhile.
  void tell(int rank, const std::string& how);
  /// After it no callback begins, and none runs, unless it is the calling thread that runs it. Idempotent.
  void cancel();

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Callback callback_;
  std::vector<std::thread::id> tellers_;  // the threads that run the callback: monitors and bootstraps tell at once
  bool cancelled_ = false;
};

}  // namespace ronde
