// The part of the hub that the monitor's thread runs: callers, messages, ends.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include "transport/shm/hub.h"

namespace ronde::shm {
namespace {

constexpr size_t kMostCallers = 64;        // strangers that say nothing must not use up the descriptors
constexpr uint64_t kSilence = 2 * kSecond;  // a peer says who it is as soon as it is connected

// How the process ended, as far as a parent may know: nobody else is told. It is not reaped: that is the program's business.
std::string how_it_ended(int pid) {
  for (int tries = 0; pid > 0 && tries < 100; ++tries) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) != 0) break;
    if (info.si_pid == pid && info.si_code == CLD_EXITED) return fmt::format("exited with code {}", info.si_status);
    if (info.si_pid == pid) return fmt::format("was killed by signal {} ({})", info.si_status, strsignal(info.si_status));
    usleep(1000);  // its sockets close a little before it can be waited for
  }
  return "ended";
}

}  // namespace

void Hub::accept_callers() {
  const Lock lock(mutex_);
  while (listener_ && !refusing_) {
    BootFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int error = socket ? 0 : errno;
    if (error == EINTR || error == ECONNABORTED) continue;
    if (error == EAGAIN) return;
    if (error != 0 && forget_silent_locked()) continue;
    if (error != 0) {
      pollfd waiting{listener_.get(), POLLIN, 0};  // without a free descriptor accept fails whether there is a caller or not
      if (poll(&waiting, 1, 0) == 1) refuse_callers_locked(error);
      return;
    }
    if (callers_.size() >= kMostCallers) forget_silent_locked();
    auto caller = std::make_shared<Caller>(Caller{std::move(socket)});
    const auto hear = [caller](Hub& hub) {
      const Lock locked(hub.mutex_);
      hub.hear_caller_locked(caller);
    };
    if (!monitor_->watch(caller->socket.get(), guarded(hear))) continue;
    callers_.push_back(caller);
    hear_caller_locked(caller);  // most have said it by now
  }
}

/// Hangs up on the oldest of those who say nothing, if he has had time enough.
bool Hub::forget_silent_locked() {
  if (callers_.empty() || now_ns() - callers_.front()->since < kSilence) return false;
  monitor_->unwatch(callers_.front()->socket.get());
  callers_.pop_front();
  return true;
}

// The caller stays in the queue, so that the listener would be reported for ever: it is not looked at again. Those of this
// process who wait for callers fail, close the listener, and so send the callers away. The next communicator gets a new listener.
void Hub::refuse_callers_locked(int error) {
  const std::string trouble = system_failure(error, fmt::format("accepting its connection ({})", descriptor_use()),
                                             "raise `ulimit -n` if it is the descriptors")
                                  .what;
  for (const auto& [peer, link] : links_) {
    if (link->state == Link::State::wanted) link->trouble = trouble;
  }
  monitor_->unwatch(listener_.get());
  refusing_ = true;
  changed_.notify_all();
}

void Hub::hear_caller_locked(const std::shared_ptr<Caller>& caller) {
  const auto found = std::find(callers_.begin(), callers_.end(), caller);
  if (found == callers_.end()) return;
  Incoming incoming;
  const Io io = receive_message(caller->socket.get(), &incoming);
  if (io == Io::later) return;
  monitor_->unwatch(caller->socket.get());
  callers_.erase(found);
  if (io == Io::done && adopt_locked(incoming.message, std::move(caller->socket))) changed_.notify_all();
  caller->socket.reset();  // where it was not adopted
}

// A caller is a peer if it knows the secret and this process wants a link to it.
bool Hub::adopt_locked(const Message& hello, BootFd socket) {
  if (hello.kind != Kind::hello || hello.secret != secret_) return false;
  const auto found = links_.find(hello.id);
  if (found == links_.end()) return false;
  const LinkPtr old = found->second;
  if (old->state == Link::State::connected && !hung_up(old->socket.get())) return false;
  if (old->state != Link::State::wanted) found->second = std::make_shared<Link>(hello.id);
  auto attached = attach_locked(found->second, std::move(socket));
  if (!attached) found->second->trouble = attached.error().what;
  return true;
}

void Hub::read_link(const LinkPtr& link) {
  for (;;) {
    const Lock lock(mutex_);
    if (link->state != Link::State::connected) return;
    Incoming incoming;
    const Io io = receive_message(link->socket.get(), &incoming);
    if (io == Io::later) return;
    if (io == Io::done) {
      handle_locked(*link, incoming);
      changed_.notify_all();
      continue;
    }
    monitor_->unwatch(link->socket.get());
    link->state = Link::State::ended;
    link->ended.store(true, std::memory_order_seq_cst);  // read by alive(), before what the callback raises
    link->outbox.clear();
    changed_.notify_all();
    return;
  }
}

void Hub::handle_locked(Link& link, Incoming& incoming) {
  const Message& message = incoming.message;
  Message answer;
  answer.id = message.id;
  switch (message.kind) {
    case Kind::want_arena: {
      const std::shared_ptr<Arena> arena = process_.find(message.id);
      const bool there = arena != nullptr && arena->descriptor() >= 0;
      answer.kind = there ? Kind::arena : Kind::no_arena;
      return post_locked(link, answer, there ? arena->descriptor() : -1, arena);
    }
    case Kind::arena:
    case Kind::no_arena:
      return take_arena_locked(link, incoming);
    case Kind::want_bells:
      answer.kind = Kind::bells;
      return post_locked(link, answer, bells_descriptor());
    case Kind::bells:
      return take_bells_locked(link, incoming);
    case Kind::probe:
      return answer_probe_locked(link, message);
    case Kind::proof:
      return take_proof_locked(link, message);
    case Kind::region:
      return take_region_locked(link, incoming);
    case Kind::region_ok:
    case Kind::region_no: {
      const std::lock_guard lock(link.regions_mutex);
      link.offers[message.number] = message.kind == Kind::region_ok ? Link::Offer::mapped : Link::Offer::refused;
      return;
    }
    case Kind::hello:
      return;  // said once, by callers
  }
}

void Hub::take_arena_locked(Link&, Incoming& incoming) {
  const auto found = wanted_.find(incoming.message.id);
  const std::shared_ptr<Wanted> wanted = found == wanted_.end() ? nullptr : found->second.lock();
  if (wanted == nullptr || wanted->done) return;  // whoever wanted it has given up
  wanted->done = true;
  if (incoming.message.kind == Kind::no_arena) {
    wanted->trouble = "it has given up making the communicator";
  } else if (!incoming.fd) {
    wanted->trouble =
        fmt::format("receiving the descriptor of its arena: there is no room for one ({}); raise `ulimit -n`", descriptor_use());
  } else {
    auto opened = Arena::open(incoming.fd.get(), wanted->shape);
    if (opened) {
      wanted->arena = std::move(opened).value();
    } else {
      wanted->trouble = opened.error().what;
    }
  }
}

void Hub::take_bells_locked(Link& link, Incoming& incoming) {
  if (link.bells.data() != nullptr) return;
  if (!incoming.fd) {
    link.trouble =
        fmt::format("receiving the descriptor of its Bells: there is no room for one ({}); raise `ulimit -n`", descriptor_use());
    return;
  }
  auto mapped = Mapping::shared(incoming.fd.get(), kBellBytes);
  if (mapped) {
    link.bells = std::move(mapped).value();
  } else {
    link.trouble = mapped.error().what;
  }
}

void Hub::answer_probe_locked(Link& link, const Message& message) {
  Message proof;
  proof.kind = Kind::proof;
  iovec local{proof.id.data(), sizeof proof.id};
  iovec remote{reinterpret_cast<void*>(message.address), sizeof proof.id};
  const ssize_t n = link.pid == 0 ? -1 : process_vm_readv(link.pid, &local, 1, &remote, 1, 0);
  if (n != static_cast<ssize_t>(sizeof proof.id))
    proof.number = static_cast<uint32_t>(link.pid == 0 ? ESRCH : n < 0 ? errno : EFAULT);
  post_locked(link, proof);
}

void Hub::take_proof_locked(Link& link, const Message& message) {
  const bool right = message.number == 0 && message.id == link.probe_secret;
  // Read it, but wrong: the number that is the peer's name for this process is somebody else's there.
  link.proof_errno = right ? 0 : message.number != 0 ? static_cast<int>(message.number) : ESRCH;
  link.proof.store(right ? Proof::readable : Proof::refused, std::memory_order_seq_cst);
}

void Hub::take_region_locked(Link& link, Incoming& incoming) {
  Message answer;
  answer.number = incoming.message.number;
  answer.kind = Kind::region_no;
  if (incoming.fd) {
    auto mapped = Mapping::shared(incoming.fd.get(), incoming.message.size);
    if (mapped) {
      const std::lock_guard lock(link.regions_mutex);
      link.regions.emplace(answer.number, std::move(mapped).value());
      answer.kind = Kind::region_ok;
    }
  }
  post_locked(link, answer);
}

// True while something waits to be sent.
bool Hub::flush_locked() {
  bool waiting = false;
  for (const auto& [peer, link] : links_) {
    while (!link->outbox.empty()) {
      const Outgoing& next = link->outbox.front();
      if (send_message(link->socket.get(), next.message, next.fd) == Io::later) break;
      link->outbox.pop_front();
    }
    waiting = waiting || !link->outbox.empty();
  }
  return waiting;
}

bool Hub::after_events() {
  tell_deaths();
  const Lock lock(mutex_);
  return flush_locked();
}

void Hub::tell_deaths() {
  std::vector<std::shared_ptr<Watcher>> deaths;
  bool ended = false;
  {
    const Lock lock(mutex_);
    for (const auto& watcher : watchers_) {
      if (watcher->told || !watcher->link->ended.load(std::memory_order_relaxed)) continue;
      watcher->told = true;
      ended = true;
      if (!watcher->arena->closed()) deaths.push_back(watcher);
    }
  }
  if (!ended) return;
  for (const auto& death : deaths) {
    std::string& how = death->link->ending;  // only this thread touches it
    if (how.empty()) how = how_it_ended(death->link->pid);
    death->watch->tell(death->rank,
                       fmt::format("rank {} (pid {}) {} without leaving the communicator", death->rank, death->link->pid, how));
  }
  ring_leased_bells();
}

}  // namespace ronde::shm
