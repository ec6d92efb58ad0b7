#include "transport/socket/door.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <string>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/log.h"
#include "boot/listen.h"

namespace ronde::net {
namespace {

constexpr uint64_t kListening = 0;  // epoll's data of the listening socket; callers have their numbers
constexpr int kMostAtOnce = 256;    // callers let in by one call of take()

struct Doors {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Door>> by_settings;
};
Doors& doors() {
  static Doors* one = new Doors;  // never destroyed: communicators may live while the process exits
  return *one;
}

Error no_descriptor(const char* attempted) {
  return system_failure(errno, fmt::format("{} ({})", attempted, descriptor_use()), "raise `ulimit -n` if it is the descriptors",
                        Scope::communicator);
}

}  // namespace

Result<std::shared_ptr<Door>> Door::of(const Config& config) {
  Doors& all = doors();
  const std::lock_guard lock(all.mutex);
  // By process too: what a forked child has inherited is closed.
  std::weak_ptr<Door>& known =
      all.by_settings[fmt::format("{} {} {}", getpid(), config.text(Setting::socket_family), config.text(Setting::port_range))];
  if (std::shared_ptr<Door> there = known.lock()) return there;
  auto made = std::make_shared<Door>();
  RONDE_TRY(made->open(config));
  known = made;
  return made;
}

Result<> Door::open(const Config& config) {
  RONDE_TRY(const PortRange range, parse_port_range(config.text(Setting::port_range)));
  RONDE_TRY(Listening listening, listen_tcp(config.text(Setting::socket_family), range, "the network between hosts"));
  listening_ = std::move(listening.fd);
  port_ = listening.port;
  int family = 0;
  socklen_t length = sizeof family;
  getsockopt(listening_.get(), SOL_SOCKET, SO_DOMAIN, &family, &length);
  six_ = family == AF_INET6;
  four_ = config.text(Setting::socket_family) != "AF_INET6";  // with IPv6 alone only where that was asked for
  epoll_ = BootFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return no_descriptor("making the epoll descriptor of the network Socket");
  epoll_event event{.events = EPOLLIN, .data = {.u64 = kListening}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listening_.get(), &event) != 0)
    return no_descriptor("watching the listening socket of the network Socket");
  return {};
}

Result<uint64_t> Door::await(const Secret& secret, const Buffers& buffers) {
  Awaited awaited;
  awaited.secret = secret;
  awaited.buffers = buffers;
  awaited.event = BootFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!awaited.event) return no_descriptor("making the event descriptor of a listener");
  const std::lock_guard lock(mutex_);
  const uint64_t number = next_++;
  awaited_.emplace(number, std::move(awaited));
  return number;
}

void Door::forget(uint64_t number) {
  const std::lock_guard lock(mutex_);
  awaited_.erase(number);
}

std::vector<int> Door::descriptors(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto at = awaited_.find(number);
  if (at == awaited_.end()) return {};
  return {epoll_.get(), at->second.event.get()};
}

Result<std::vector<BootFd>> Door::take(uint64_t number) {
  const std::lock_guard lock(mutex_);
  const auto at = awaited_.find(number);
  if (at == awaited_.end()) return std::vector<BootFd>{};
  if (at->second.missing > 0) {
    accept_all();
    hear_all();
    if (full_since_ != 0 && now_ns() - full_since_ > kFull) {
      errno = full_errno_;
      return no_descriptor("accepting connections of the network Socket, for some seconds");
    }
  }
  if (at->second.missing > 0) return std::vector<BootFd>{};
  std::vector<BootFd> streams = std::move(at->second.streams);
  awaited_.erase(at);
  return streams;
}

void Door::accept_all() {
  const uint64_t now = now_ns();
  while (!callers_.empty() && callers_.begin()->second.until <= now) callers_.erase(callers_.begin());
  for (int i = 0; i < kMostAtOnce && accept_one(); ++i) {
  }
}

// False: nobody else can be let in now.
bool Door::accept_one() {
  BootFd fd(accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) {
    const int why = errno;
    if (why == EAGAIN || why == EWOULDBLOCK) {
      full_since_ = 0;
      return false;
    }
    const bool full = why == EMFILE || why == ENFILE || why == ENOBUFS || why == ENOMEM;
    if (!full) return true;  // the caller's trouble: it has gone, or its network has
    if (!callers_.empty()) {
      callers_.erase(callers_.begin());
      return true;
    }
    full_errno_ = why;
    if (full_since_ == 0) full_since_ = now_ns();
    log_once(fmt::format("a connection waits to be accepted: {} ({}); raise `ulimit -n` if it is the descriptors", strerror(why),
                         descriptor_use()));
    return false;  // the next take() tries again
  }
  full_since_ = 0;
  if (callers_.size() >= kMaxPending) callers_.erase(callers_.begin());
  const uint64_t number = next_++;
  epoll_event event{.events = EPOLLIN | EPOLLRDHUP, .data = {.u64 = number}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return true;  // no memory for it: it is turned away
  callers_.emplace(number, Caller{std::move(fd), now_ns() + kPatience});
  return true;
}

void Door::hear_all() {
  std::array<epoll_event, 64> events;
  while (true) {
    const int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    bool any = false;
    for (int i = 0; i < n; ++i) {
      const auto at = callers_.find(events[static_cast<size_t>(i)].data.u64);
      if (at == callers_.end()) continue;
      any = true;
      if (!hear(at->second)) callers_.erase(at);
    }
    if (!any) return;  // a caller is heard to the end of what it has sent, so this comes
  }
}

bool Door::hear(Caller& caller) {
  while (caller.got < caller.bytes.size()) {
    const ssize_t n = recv(caller.fd.get(), caller.bytes.data() + caller.got, caller.bytes.size() - caller.got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) return false;
    caller.got += static_cast<size_t>(n);
    if (!begins_hello(std::span(caller.bytes).first(caller.got))) return false;
  }
  Hello hello;
  std::memcpy(&hello, caller.bytes.data(), sizeof hello);
  admit(caller, hello);
  return false;  // now it is a stream, or has been turned away
}

void Door::admit(Caller& caller, const Hello& hello) {
  const auto at = awaited_.find(hello.number);
  if (at == awaited_.end() || !proves(hello, at->second.secret)) return;
  Awaited& awaited = at->second;
  if (awaited.streams.empty()) {
    awaited.streams.resize(hello.streams);
    awaited.missing = hello.streams;
  }
  if (awaited.missing == 0 || hello.streams != awaited.streams.size()) return;
  tune_stream(caller.fd.get(), awaited.buffers);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, caller.fd.get(), nullptr);
  const Welcome welcome = make_welcome(hello, awaited.secret);
  // Fits into the buffer of a new socket; one that it does not fit into is broken.
  if (send(caller.fd.get(), &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(sizeof welcome))
    return;
  BootFd& stream = awaited.streams[hello.stream];
  if (!stream) --awaited.missing;  // otherwise the sender has tried again, and the earlier one is lost to it
  stream = std::move(caller.fd);
  if (awaited.missing > 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(awaited.event.get(), &one, sizeof one);  // the first and only one
}

}  // namespace ronde::net
