#include "transport/socket/dial.h"

#include <poll.h>
#include <sys/socket.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/lists.h"

namespace ronde::net {
namespace {

constexpr int kClosed = -1;    // turned away, or closed before it proved itself
constexpr int kImpostor = -2;  // somebody else answered
// Long enough for a lost packet or two; where nothing answers, the next address gets its turn.
constexpr uint64_t kPatience = 5 * kSecond;

bool may_be_better_later(int why) {
  return why == kClosed || why == ECONNREFUSED || why == ETIMEDOUT || why == EHOSTUNREACH || why == ECONNRESET;
}

std::string in_words(int why) {
  if (why == kClosed) return "the connection was closed without an answer";
  if (why == kImpostor) return "something else than the peer answered";
  return fmt::format("{} (errno {})", strerror(why), why);
}

}  // namespace

Dial::Dial(const Local& local, Contact contact, const Buffers& buffers, const Retries& retries)
    : interface_(local.device.name),
      streams_(local.streams),
      contact_(std::move(contact)),
      buffers_(buffers),
      retries_(retries),
      ways_(ways(local, contact_.addresses)),
      last_(ways_.size(), 0) {}

std::vector<int> Dial::descriptors() const {
  std::vector<int> all;
  for (const Call& call : calls_) {
    if (call.fd) all.push_back(call.fd.get());
  }
  return all;
}

std::vector<BootFd> Dial::take() {
  std::vector<BootFd> streams;
  for (Call& call : calls_) streams.push_back(std::move(call.fd));
  return streams;
}

std::string Dial::describe() const { return fmt::format("connecting to {} over {}", to_string(way().to), interface_); }

// Begins stream number `stream` on the present way; errno where that fails at once.
std::optional<int> Dial::begin(uint32_t stream) {
  Call& call = calls_.emplace_back();
  const auto& [to, from] = way();
  call.fd = BootFd(socket(to.family == 6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!call.fd) return errno;
  call.hello = make_hello(contact_, stream, streams_);
  tune_stream(call.fd.get(), buffers_);
  sockaddr_storage storage;
  socklen_t length = 0;
  if (from.family != 0) {
    length = to_sockaddr(from, &storage);
    // Where the address has gone meanwhile the kernel chooses.
    [[maybe_unused]] const int rc = bind(call.fd.get(), reinterpret_cast<sockaddr*>(&storage), length);
  }
  length = to_sockaddr(to, &storage);
  int rc = 0;
  do {
    rc = connect(call.fd.get(), reinterpret_cast<sockaddr*>(&storage), length);
  } while (rc != 0 && errno == EINTR);
  return rc == 0 || errno == EINPROGRESS || errno == EALREADY || errno == EISCONN ? std::nullopt : std::optional<int>(errno);
}

// What has become of a call: why it has failed, if it has.
std::optional<int> Dial::go_on(Call& call, uint32_t stream) {
  if (call.stage == Stage::connecting) {
    pollfd one{call.fd.get(), POLLOUT, 0};
    if (poll(&one, 1, 0) <= 0) return std::nullopt;
    int why = 0;
    socklen_t length = sizeof why;
    getsockopt(call.fd.get(), SOL_SOCKET, SO_ERROR, &why, &length);
    if (why != 0) return why;
    // Fits into the buffer of a new socket.
    const ssize_t sent = send(call.fd.get(), &call.hello, sizeof call.hello, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(sizeof call.hello)) return sent < 0 ? errno : kClosed;
    call.stage = Stage::greeted;
  }
  while (call.stage == Stage::greeted) {
    const ssize_t n =
        recv(call.fd.get(), reinterpret_cast<std::byte*>(&call.welcome) + call.got, sizeof call.welcome - call.got, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK ? std::nullopt : std::optional<int>(errno == ECONNRESET ? kClosed : errno);
    if (n == 0) return kClosed;
    call.got += static_cast<size_t>(n);
    if (call.got < sizeof call.welcome) continue;
    if (!proves(call.welcome, make_hello(contact_, stream, streams_), contact_.secret)) return kImpostor;
    call.stage = Stage::up;
  }
  return std::nullopt;
}

// Begins and continues what can be; why that failed, if it has.
std::optional<int> Dial::step_calls() {
  if (calls_.empty()) {
    if (std::optional<int> why = begin(0)) return why;
  }
  if (calls_.size() == 1) {
    if (std::optional<int> why = go_on(calls_[0], 0)) return why;
    if (calls_[0].stage != Stage::up) return std::nullopt;
    for (uint32_t i = 1; i < streams_; ++i) {
      if (std::optional<int> why = begin(i)) return why;
    }
  }
  for (uint32_t i = 1; i < calls_.size(); ++i) {
    if (std::optional<int> why = go_on(calls_[i], i)) return why;
  }
  return std::nullopt;
}

Result<bool> Dial::step() {
  const uint64_t now = now_ns();
  if (now < next_) return false;
  if (calls_.empty()) until_ = now + kPatience;
  if (std::optional<int> why = step_calls()) return failed(*why);
  const bool up = calls_.size() == streams_ &&
                  std::all_of(calls_.begin(), calls_.end(), [](const Call& call) { return call.stage == Stage::up; });
  if (up) return true;
  if (now >= until_) return failed(ETIMEDOUT);
  return false;
}

// This attempt has failed: the next way, or the next round.
Result<bool> Dial::failed(int errno_value) {
  calls_.clear();
  last_[way_] = errno_value;
  if (errno_value == EMFILE || errno_value == ENFILE) {
    return system_failure(errno_value, fmt::format("connecting to {} over {} ({})", to_string(way().to), interface_, descriptor_use()),
                          "raise `ulimit -n` if it is the descriptors", Scope::communicator);
  }
  hopeful_ = hopeful_ || may_be_better_later(errno_value);
  if (++way_ < ways_.size()) return false;
  way_ = 0;
  if (!hopeful_ || ++round_ > retries_.rounds) return fail(Code::remote_error, trouble(), Scope::connection);
  hopeful_ = false;
  next_ = now_ns() + static_cast<uint64_t>(retries_.pause_ms * round_) * kMillisecond;
  return false;
}

std::string Dial::trouble() const {
  std::vector<std::string> tried;
  for (size_t i = 0; i < ways_.size(); ++i) {
    if (last_[i] == 0) continue;
    const Way& way = ways_[i];
    Address from = way.from;
    tried.push_back(fmt::format("{}{}{}: {}", to_string(way.to), from.family == 0 ? "" : " from ",
                                from.family == 0 ? "" : to_string(from), in_words(last_[i])));
  }
  return fmt::format(
      "connecting to a peer over {}, {} time{}: {}; see that both hosts use interfaces that reach each other "
      "(NCCL_SOCKET_IFNAME), and that no "
      "firewall keeps TCP from between them (RONDE_PORT_RANGE says which ports are used)",
      interface_, std::min(round_, retries_.rounds) + 1, round_ == 0 ? "" : "s", comma_list(tried));
}

}  // namespace ronde::net
