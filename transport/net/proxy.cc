#include "transport/net/proxy.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/thread.h"
#include "topo/cpu_ranks.h"
#include "topo/sysfs.h"

namespace ronde::net {
namespace {

constexpr int kYields = 20;                           // passes without progress before the thread sleeps
constexpr uint64_t kSetUpPause = 10 * kMillisecond;  // between two looks at a connection that is being made
constexpr int kPolledPauseMs = 1;                     // the same for networks that cannot wake us
constexpr uint64_t kHelped = 2 * kMillisecond;        // for so long one who has helped is believed to come again
constexpr uint64_t kNoFlow = 0;                       // epoll's data of event_; descriptors are stored as number + 1

Error descriptor_failure(const char* attempted) {
  return system_failure(errno, fmt::format("{} ({})", attempted, descriptor_use()), "raise `ulimit -n` if it is the descriptors", Scope::communicator);
}

struct Proxies {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Proxy>> by_name;
};
Proxies& proxies() {
  static Proxies* one = new Proxies;  // never destroyed: communicators may live while the process exits
  return *one;
}

void stay_near(const std::string& device_folder) {
  const topo::CpuMask allowed = topo::calling_thread_affinity();
  const topo::CpuMask near = cpus_near(device_folder, allowed);
  if (near == allowed) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : near.list()) {
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  }
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // a wish: where it is refused the thread runs where it may
}

}  // namespace

topo::CpuMask cpus_near(const std::string& device_folder, const topo::CpuMask& allowed) {
  if (device_folder.empty()) return allowed;
  constexpr size_t kMost = 4096;
  const Result<std::string> text = read_file(device_folder + "/local_cpulist", kMost);
  if (!text.ok()) return allowed;
  const auto local = topo::parse_cpu_list(text->substr(0, text->find('\n')));
  const topo::CpuMask near = local.has_value() ? *local & allowed : topo::CpuMask();
  return near.empty() ? allowed : near;
}

Result<std::shared_ptr<Proxy>> Proxy::of(const std::string& name, const std::string& pci_path) {
  Proxies& all = proxies();
  const std::lock_guard lock(all.mutex);
  std::weak_ptr<Proxy>& known = all.by_name[name];
  if (std::shared_ptr<Proxy> running = known.lock()) return running;
  std::shared_ptr<Proxy> made(new Proxy, end);
  RONDE_TRY(made->start(name, pci_path));
  known = made;
  return made;
}

Result<> Proxy::start(const std::string& name, const std::string& pci_path) {
  epoll_ = BootFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return descriptor_failure("making a proxy's epoll descriptor");
  event_ = BootFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return descriptor_failure("making a proxy's event descriptor");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kNoFlow}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, event_.get(), &event) != 0) return system_failure(errno, "watching a proxy's event descriptor");
  RONDE_TRY(thread_, start_thread(("ronde-" + name).substr(0, 15).c_str(), [this, pci_path] {
    stay_near(pci_path);
    run();
    if (orphaned_) delete this;
  }));
  return {};
}

// The last who lets go may be the thread itself: a flow that breaks keeps its station while it tells of it, and the station keeps this.
void Proxy::end(Proxy* proxy) {
  if (forked()) return;  // the thread, and whatever locks were held, are the parent's
  proxy->stopping_.store(true, std::memory_order_seq_cst);
  if (proxy->thread_.get_id() == std::this_thread::get_id()) {
    proxy->thread_.detach();
    proxy->orphaned_ = true;
    return;
  }
  proxy->kick();
  if (proxy->thread_.joinable()) proxy->thread_.join();
  delete proxy;
}

void Proxy::add(std::shared_ptr<Flow> flow) {
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::make_shared<Entry>(Entry{std::move(flow)}));
  }
  kick();
}

void Proxy::remove(const std::shared_ptr<Flow>& flow) {
  std::shared_ptr<Entry> last;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry->flow == flow; });
  if (at == entries_.end()) return;
  last = std::move(*at);
  entries_.erase(at);
  unwatch(last, {});
}

void Proxy::kick() {
  if (!sleeping_.load(std::memory_order_seq_cst)) return;  // it looks again before it sleeps
  if (!sleeping_.exchange(false, std::memory_order_seq_cst)) return;
  const uint64_t one = 1;
  // Can only fail when the counter is full, and then the thread is awake anyway.
  [[maybe_unused]] const ssize_t n = write(event_.get(), &one, sizeof one);
}

Proxy::Help Proxy::help() {
  std::vector<Broken> broken;
  bool moved = false, disarmed = false;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return Help::busy;
    helped_at_.store(now_ns(), std::memory_order_relaxed);
    disarmed = take_events() && std::exchange(attentive_, false);
    moved = pump_all(&broken);
  }
  report(std::move(broken));
  if (disarmed) kick();  // the events that the thread sleeps for are used up; it has to arm the descriptors anew
  return moved ? Help::moved : Help::still;
}

void Proxy::take_over() {
  helped_at_.store(0, std::memory_order_relaxed);  // ordered by kick() before the thread's next look at it
  kick();
}

void Proxy::report(std::vector<Broken> broken) {
  for (Broken& one : broken) one.flow->broken(std::move(one.error));
}

bool Proxy::pass() {
  std::vector<Broken> broken;
  bool moved = false;
  {
    const std::lock_guard lock(mutex_);
    take_events();
    moved = pump_all(&broken);
  }
  report(std::move(broken));
  return moved;
}

// True if a flow's descriptor has shown something. Leaves event_ as it is: the thread alone takes it back, so that no helper can swallow what was to wake it.
bool Proxy::take_events() {
  bool any = false;
  std::array<epoll_event, 64> events;
  const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < n; ++i) {
    const uint64_t key = events[static_cast<size_t>(i)].data.u64;
    if (key == kNoFlow) continue;
    any = true;
    const auto found = watchers_.find(static_cast<int>(key - 1));
    if (found == watchers_.end()) continue;
    for (const auto& watcher : found->second) {
      const std::shared_ptr<Entry> entry = watcher.lock();
      if (entry == nullptr) continue;
      entry->news = true;
      entry->flow->signalled();
    }
  }
  return any;
}

// A descriptor that was closed left the epoll set by itself, so one that is there is watched already. It is asked for each time: the number may be another's.
void Proxy::watch(const std::shared_ptr<Entry>& entry) {
  std::vector<int> descriptors = entry->flow->descriptors();
  entry->polled = descriptors.empty();
  for (const int fd : descriptors) {
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u64 = static_cast<uint64_t>(fd) + 1}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);  // fails where it is there; where memory is short, the pauses below still find what comes
    if (std::find(entry->watched.begin(), entry->watched.end(), fd) == entry->watched.end()) watchers_[fd].push_back(entry);
  }
  unwatch(entry, descriptors);
  entry->watched = std::move(descriptors);
}

void Proxy::unwatch(const std::shared_ptr<Entry>& entry, const std::vector<int>& but) {
  for (const int fd : entry->watched) {
    if (std::find(but.begin(), but.end(), fd) != but.end()) continue;
    const auto at = watchers_.find(fd);
    if (at == watchers_.end()) continue;
    std::erase_if(at->second, [&](const auto& watcher) { return watcher.expired() || watcher.lock() == entry; });
    if (at->second.empty()) watchers_.erase(at);
  }
}

bool Proxy::pump(const std::shared_ptr<Entry>& entry, uint64_t now, std::vector<Broken>* broken) {
  if (!entry->settled) {
    if (!entry->news && now < entry->next_try) return false;
    entry->news = false;
    entry->next_try = now + kSetUpPause;
  }
  Result<bool> moved = entry->flow->pump();
  if (!moved.ok()) {
    broken->push_back({entry->flow, std::move(moved).error()});
    return true;
  }
  if (!entry->settled) {
    watch(entry);
    entry->settled = entry->flow->settled();
    if (entry->settled) return true;  // something may have come before it was watched
  }
  return *moved;
}

bool Proxy::pump_all(std::vector<Broken>* broken) {
  const uint64_t now = now_ns();
  bool moved = false;
  bool unfinished = false;
  for (const auto& entry : entries_) {
    moved |= pump(entry, now, broken);
    unfinished |= entry->flow->unfinished();
  }
  unfinished_.store(unfinished, std::memory_order_relaxed);
  drop(*broken);
  return moved;
}

void Proxy::drop(const std::vector<Broken>& broken) {
  if (broken.empty()) return;
  std::erase_if(entries_, [&](const auto& entry) {
    const bool gone = std::any_of(broken.begin(), broken.end(), [&](const Broken& one) { return one.flow == entry->flow; });
    if (gone) unwatch(entry, {});
    return gone;
  });
}

bool Proxy::arm_all(std::vector<Broken>* broken) {
  bool quiet = true;
  for (const auto& entry : entries_) {
    Result<bool> armed = entry->flow->arm();
    if (!armed.ok()) broken->push_back({entry->flow, std::move(armed).error()});
    quiet = quiet && armed.ok() && *armed;
  }
  drop(*broken);
  return quiet;
}

int Proxy::patience_ms() const {
  int patience = -1;
  for (const auto& entry : entries_) {
    if (entry->polled) return kPolledPauseMs;
    if (!entry->settled) patience = static_cast<int>(kSetUpPause / kMillisecond);
  }
  return patience;
}

void Proxy::sleep() {
  sleeping_.store(true, std::memory_order_seq_cst);  // then everything is looked at again: see kick()
  std::vector<Broken> broken;
  bool quiet = false, helped = false;
  int patience = 0;
  {
    const std::lock_guard lock(mutex_);
    take_events();
    quiet = !pump_all(&broken) && arm_all(&broken);
    patience = patience_ms();
    helped = now_ns() - helped_at_.load(std::memory_order_relaxed) < kHelped;
    attentive_ = quiet && !helped;
  }
  if (quiet && broken.empty() && !stopping_.load(std::memory_order_seq_cst)) {
    pollfd something{helped ? event_.get() : epoll_.get(), POLLIN, 0};
    poll(&something, 1, helped ? static_cast<int>(kHelped / kMillisecond) : patience);
  }
  sleeping_.store(false, std::memory_order_seq_cst);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(event_.get(), &count, sizeof count);
  report(std::move(broken));
}

void Proxy::run() {
  int idle = 0;
  while (!stopping_.load(std::memory_order_seq_cst)) {
    if (process_exits()) return;
    if (pass()) {
      idle = 0;
    } else if (++idle <= kYields) {
      sched_yield();
    } else {
      sleep();
      idle = 0;
    }
  }
}

}  // namespace ronde::net
