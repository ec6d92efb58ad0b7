// The state of the loop thread. Everything without a lock belongs to that thread.
#pragma once

#include <poll.h>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "boot/network.h"

namespace ronde {

class NetworkLoop final : public LinkHost {
 public:
  NetworkLoop(const std::shared_ptr<Node>& node, BootFd unix_listener, std::shared_ptr<Waker> waker);

  // Any thread:
  void post(std::function<void()> command);  ///< runs on the loop thread, soon
  void stop();
  void sync();
  bool on_this_thread() const { return thread_.load() == std::this_thread::get_id(); }

  // The loop thread:
  void run();
  void shut_down();
  void add_dial(std::shared_ptr<Dial> dial);
  void add_listener(Listening listening, std::weak_ptr<Lease> lease);
  void add_timer(uint64_t at, std::function<void()> action);

  uint64_t process() const override { return process_; }
  Knowledge know(const Hello& hello) override;
  bool win(Link& link) override;
  void risen(Link& link) override;

 private:
  struct Listener {
    BootFd fd;
    bool tcp = false;
    std::weak_ptr<Lease> lease;  // of TCP listeners
  };
  struct Timer {
    uint64_t at;
    std::function<void()> action;
  };

  void take_commands();
  void sweep();
  void fire_timers(uint64_t now);
  uint64_t next_event() const;
  void sleep();
  void accept_all(Listener& listener);
  void out_of_descriptors();
  void drive_links();
  void end_link(const std::shared_ptr<Link>& link);
  void drive_dial(Dial& dial, uint64_t now);
  void dial_failed(Dial& dial);
  bool start_unix(Dial& dial);
  void start_tcp(Dial& dial);
  void attempt(Dial& dial, Connecting connecting, std::string peer);
  void attempt_ended(Dial& dial, const Link& link);
  std::shared_ptr<Dial> dial_of(const Link& link) const;
  void report_stranger(const Link& link);

  const uint64_t process_;
  std::weak_ptr<Node> node_;
  std::shared_ptr<Waker> waker_;
  std::vector<Listener> listeners_;
  std::vector<std::shared_ptr<Link>> links_;
  std::vector<std::shared_ptr<Dial>> dials_;
  std::vector<Timer> timers_;
  std::vector<pollfd> polled_;
  std::set<std::string> strangers_;
  uint64_t accept_after_ = 0;              // now_ns; later than now while descriptors are short
  std::atomic<std::thread::id> thread_{};  // set by run()

  std::mutex mutex_;
  std::condition_variable caught_up_;
  std::vector<std::function<void()>> commands_;
  uint64_t asked_ = 0;
  uint64_t answered_ = 0;
  bool stop_ = false;
  bool ended_ = false;
};

}  // namespace ronde
