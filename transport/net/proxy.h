// The proxy: one thread for each network device of a process, which pumps the flows of all communicators that use it. It knows no collectives. Threads that
// wait for their own call may do its work meanwhile (help), so that on few cores nobody hands over to anybody.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "boot/fork.h"
#include "topo/machine.h"
#include "transport/net/flow.h"

namespace ronde::net {

/// The CPUs of `allowed` that are near the device with this folder in /sys; all of them where none is, or it is not known.
topo::CpuMask cpus_near(const std::string& device_folder, const topo::CpuMask& allowed);

class Proxy {
 public:
  /// The proxy named `name` (network and device), started if nobody holds it. `pci_path`: where its device is; the thread runs near it, where that is known.
  static Result<std::shared_ptr<Proxy>> of(const std::string& name, const std::string& pci_path);
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  void add(std::shared_ptr<Flow> flow);
  /// When it returns the flow is not pumped any more.
  void remove(const std::shared_ptr<Flow>& flow);
  /// Something that a flow waits for has changed.
  void kick();
  enum class Help : uint8_t { moved, still, busy };
  /// Pumps all flows once, unless somebody else does (`busy`; that one may have passed a flow that has changed since). For some milliseconds after it the
  /// thread leaves the descriptors to the helper.
  Help help();
  /// No more help for now: the thread takes over.
  void take_over();
  /// Something that has been published has not left yet, as of the last pass.
  bool unfinished() const { return unfinished_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::shared_ptr<Flow> flow;
    bool settled = false;   // its descriptors are all watched and do not change any more
    bool polled = false;    // it has none: it has to be asked again and again
    bool news = true;       // a descriptor has shown something
    uint64_t next_try = 0;  // now_ns; of one that is not settled
    std::vector<int> watched{};
  };
  struct Broken {
    std::shared_ptr<Flow> flow;
    Error error;
  };

  Proxy() = default;
  ~Proxy() = default;
  static void end(Proxy* proxy);
  Result<> start(const std::string& name, const std::string& pci_path);
  void run();
  bool pass();
  void sleep();
  static void report(std::vector<Broken> broken);
  // With mutex_ held:
  bool pump_all(std::vector<Broken>* broken);
  bool take_events();
  bool pump(const std::shared_ptr<Entry>& entry, uint64_t now, std::vector<Broken>* broken);
  void watch(const std::shared_ptr<Entry>& entry);
  void unwatch(const std::shared_ptr<Entry>& entry, const std::vector<int>& but);
  void drop(const std::vector<Broken>& broken);
  bool arm_all(std::vector<Broken>* broken);
  int patience_ms() const;

  BootFd epoll_;
  BootFd event_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};  // pairs with sleeping_ as kick() does
  std::atomic<bool> sleeping_{false};  // seq_cst, with what flows wait for: by the Bell's rule
  std::atomic<uint64_t> helped_at_{0};  // now_ns; relaxed: a guess at who will be next
  std::atomic<bool> unfinished_{false};
  bool orphaned_ = false;  // let go of by its own thread, which alone uses this

  std::mutex mutex_;  // guards what follows
  bool attentive_ = false;  // the thread has armed the descriptors and sleeps on them
  std::vector<std::shared_ptr<Entry>> entries_;
  std::unordered_map<int, std::vector<std::weak_ptr<Entry>>> watchers_;  // by descriptor
};

}  // namespace ronde::net
