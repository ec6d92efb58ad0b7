#include "boot/loop.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "boot/family.h"
#include "boot/node.h"

namespace ronde {
namespace {

constexpr uint64_t kHandshakeTime = 5 * kSecond;
constexpr size_t kStrangersNamed = 64;
constexpr uint64_t kEvictAge = kSecond / 2;  // of connections that have said nothing, when descriptors run out

}  // namespace

NetworkLoop::NetworkLoop(const std::shared_ptr<Node>& node, BootFd unix_listener, std::shared_ptr<Waker> waker)
    : process_(node->process()), node_(node), waker_(std::move(waker)) {
  listeners_.push_back({std::move(unix_listener), false, {}});
}

void NetworkLoop::post(std::function<void()> command) {
  {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
  }
  waker_->wake();
}

void NetworkLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  waker_->wake();
}

void NetworkLoop::sync() {
  if (on_this_thread()) return;
  std::unique_lock lock(mutex_);
  const uint64_t mine = ++asked_;
  waker_->wake();
  caught_up_.wait(lock, [&] { return answered_ >= mine || ended_; });
}

void NetworkLoop::run() {
  thread_.store(std::this_thread::get_id());
  while (true) {
    uint64_t asked = 0;
    {
      const std::lock_guard lock(mutex_);
      if (stop_) break;
      asked = asked_;
    }
    take_commands();
    sweep();
    {
      const std::lock_guard lock(mutex_);
      answered_ = asked;
    }
    caught_up_.notify_all();
    fire_timers(now_ns());
    // A dial may end while it is driven, and its end may add others.
    for (size_t i = 0; i < dials_.size(); ++i) drive_dial(*std::shared_ptr<Dial>(dials_[i]), now_ns());
    std::erase_if(dials_, [](const auto& dial) { return dial->over; });
    sleep();
    drive_links();
  }
  shut_down();
}

void NetworkLoop::shut_down() {
  stop();
  listeners_.clear();
  const std::vector<std::shared_ptr<Link>> links = std::move(links_);
  links_.clear();
  dials_.clear();
  timers_.clear();
  for (const auto& link : links) link->close();
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  caught_up_.notify_all();
}

void NetworkLoop::take_commands() {
  std::vector<std::function<void()>> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const auto& command : commands) command();
}

void NetworkLoop::sweep() {
  std::erase_if(listeners_, [](const Listener& one) { return one.tcp && one.lease.expired(); });
  std::erase_if(dials_, [](const auto& dial) { return dial->family.expired(); });
  for (size_t i = 0; i < links_.size();) {
    Link& link = *links_[i];
    const bool orphan = (link.dialled() || link.stage() == Link::Stage::await_proof || link.stage() == Link::Stage::up) &&
                        link.family().expired();
    if (!orphan) {
      ++i;
      continue;
    }
    link.close();
    links_.erase(links_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void NetworkLoop::add_dial(std::shared_ptr<Dial> dial) {
  dial->began = now_ns();
  dials_.push_back(std::move(dial));
}

void NetworkLoop::add_listener(Listening listening, std::weak_ptr<Lease> lease) {
  listeners_.push_back({std::move(listening.fd), true, std::move(lease)});
}

void NetworkLoop::add_timer(uint64_t at, std::function<void()> action) { timers_.push_back({at, std::move(action)}); }

void NetworkLoop::fire_timers(uint64_t now) {
  std::vector<Timer> due;
  for (size_t i = 0; i < timers_.size();) {
    if (timers_[i].at > now) {
      ++i;
      continue;
    }
    due.push_back(std::move(timers_[i]));
    timers_.erase(timers_.begin() + static_cast<ptrdiff_t>(i));
  }
  for (const Timer& timer : due) timer.action();
}

uint64_t NetworkLoop::next_event() const {
  uint64_t next = UINT64_MAX;
  for (const Timer& timer : timers_) next = std::min(next, timer.at);
  for (const auto& link : links_) next = std::min(next, link->deadline());
  for (const auto& dial : dials_) {
    if (dial->attempts.empty()) next = std::min({next, dial->next_try, dial->deadline});
  }
  if (accept_after_ != 0) next = std::min(next, accept_after_);
  return next;
}

void NetworkLoop::sleep() {
  const uint64_t now = now_ns();
  if (accept_after_ <= now) accept_after_ = 0;
  polled_.clear();
  polled_.push_back({waker_->fd.get(), POLLIN, 0});
  for (const Listener& one : listeners_)
    polled_.push_back({one.fd.get(), static_cast<short>(accept_after_ == 0 ? POLLIN : 0), 0});
  for (const auto& link : links_) polled_.push_back({link->fd(), link->interest(), 0});
  const uint64_t next = next_event();
  int timeout = -1;
  if (next != UINT64_MAX)
    timeout = next <= now ? 0 : static_cast<int>(std::min<uint64_t>((next - now) / kMillisecond + 1, 60'000));
  if (poll(polled_.data(), polled_.size(), timeout) < 0) {
    for (pollfd& one : polled_) one.revents = 0;  // EINTR, or memory is short: look again
    return;
  }
  if (polled_[0].revents != 0) {
    uint64_t count;
    while (read(waker_->fd.get(), &count, sizeof count) < 0 && errno == EINTR) continue;
  }
}

void NetworkLoop::drive_links() {
  // The order of polled_: waker, listeners, links. Accepting appends to links_ only.
  const size_t listeners = listeners_.size();
  const size_t links = polled_.size() - 1 - listeners;
  const std::vector<std::shared_ptr<Link>> driven(links_.begin(), links_.begin() + static_cast<ptrdiff_t>(links));
  for (size_t i = 0; i < listeners; ++i) {
    if (polled_[1 + i].revents != 0) accept_all(listeners_[i]);
  }
  const uint64_t now = now_ns();
  for (size_t i = 0; i < driven.size(); ++i) {
    Link& link = *driven[i];
    if (link.stage() == Link::Stage::closed) continue;
    const short events = polled_[1 + listeners + i].revents;
    bool alive = events == 0 || link.on_ready(events);
    if (alive && link.deadline() <= now) {
      link.expire();
      alive = false;
    }
    if (!alive) end_link(driven[i]);
    if (listeners_.empty()) return;  // shut down meanwhile
  }
}

void NetworkLoop::end_link(const std::shared_ptr<Link>& link) {
  if (!link->dialled()) report_stranger(*link);
  if (const auto dial = dial_of(*link)) {
    std::erase(dial->attempts, link);
    attempt_ended(*dial, *link);
  }
  std::erase(links_, link);
  link->close();
}

void NetworkLoop::report_stranger(const Link& link) {
  const bool strange = link.end() == Link::End::stranger || link.end() == Link::End::silent || link.end() == Link::End::unknown;
  if (!strange || !log_enabled(Level::info, Subsys::bootstrap)) return;
  const std::string line = fmt::format("turned away a connection from {}: {}", link.peer(), link.why());
  const std::string whom = fmt::format("{} {}", link.peer().substr(0, link.peer().rfind(':')), link.why());
  if (strangers_.size() < kStrangersNamed && strangers_.insert(whom).second) RONDE_INFO(bootstrap, "{}", line);
}

LinkHost::Knowledge NetworkLoop::know(const Hello& hello) {
  const auto node = node_.lock();
  if (!node || (hello.target != 0 && hello.target != process_)) return {};
  return node->know(hello.id);
}

void NetworkLoop::accept_all(Listener& listener) {
  while (true) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    BootFd fd(accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&storage), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) out_of_descriptors();
      return;
    }
    const std::string peer =
        listener.tcp ? to_string(from_sockaddr(reinterpret_cast<sockaddr*>(&storage))) : "a process of this host";
    links_.push_back(std::make_shared<Link>(*this, std::move(fd), peer, waker_, now_ns() + kHandshakeTime));
  }
}

/// A listener that cannot accept would keep poll() awake: rest for a moment, and end those who came and say nothing.
void NetworkLoop::out_of_descriptors() {
  const uint64_t now = now_ns();
  log_once(fmt::format("accepting a connection of the bootstrap: no descriptors left ({}); raise `ulimit -n`", descriptor_use()));
  accept_after_ = now + 100 * kMillisecond;
  for (const auto& link : links_) {
    if (link->stage() != Link::Stage::await_hello || link->deadline() > now + kHandshakeTime - kEvictAge) continue;
    link->expire();
    link->close();
  }
  std::erase_if(links_, [](const auto& link) { return link->stage() == Link::Stage::closed; });
}

}  // namespace ronde
