// How a process is reached: its unix socket first, then all its TCP addresses side by side; the first that authenticates wins.
#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/log.h"
#include "boot/family.h"
#include "boot/interfaces.h"
#include "boot/loop.h"

namespace ronde {
namespace {

constexpr uint64_t kAttemptTime = 5 * kSecond;
constexpr uint64_t kFirstPause = 10 * kMillisecond;
constexpr uint64_t kLongestPause = 500 * kMillisecond;

/// A link-local address names no interface of ours: it may be behind any of them.
std::vector<Address> with_scopes(const Address& address) {
  std::vector<Address> all;
  if (!address.link_local()) return {address};
  for (const Interface& one : list_interfaces()) {
    if (!one.up || !one.address.link_local()) continue;
    all.push_back(address);
    all.back().scope = one.address.scope;
  }
  return all;
}

}  // namespace

void NetworkLoop::drive_dial(Dial& dial, uint64_t now) {
  if (dial.over || !dial.attempts.empty()) return;
  if (now >= dial.deadline) return dial_failed(dial);
  if (now < dial.next_try) return;
  if (dial.phase == Dial::Phase::start) {
    dial.refused = true;
    dial.troubles.clear();
    if (dial.unix_first && !start_unix(dial)) return;
    dial.phase = Dial::Phase::unix_tried;
    if (!dial.attempts.empty()) return;
  }
  if (dial.phase == Dial::Phase::unix_tried) {
    dial.phase = Dial::Phase::tcp_tried;
    start_tcp(dial);
    if (!dial.attempts.empty()) return;
  }
  // A whole round has failed.
  dial.phase = Dial::Phase::start;
  if (dial.refused && now - dial.began >= dial.patience) return dial_failed(dial);
  if (const auto family = dial.family.lock()) family->dial_trouble(dial.key, dial.troubles);
  dial.pause = std::clamp(dial.pause * 2, kFirstPause, kLongestPause);
  dial.next_try = now + dial.pause;
}

void NetworkLoop::dial_failed(Dial& dial) {
  dial.over = true;
  const auto family = dial.family.lock();
  if (!family) return;
  if (dial.troubles.empty()) dial.troubles = "it gave no address that can be used from here";
  family->dial_ended(dial.key, fail(Code::remote_error, dial.troubles));
}

/// False if the socket is there but too many call at once: try again in a moment.
bool NetworkLoop::start_unix(Dial& dial) {
  Connecting connecting = connect_unix(dial.target);
  if (connecting.errno_value == EAGAIN) {
    dial.next_try = now_ns() + kFirstPause;
    return false;
  }
  attempt(dial, std::move(connecting), "unix socket");
  return true;
}

void NetworkLoop::start_tcp(Dial& dial) {
  for (const Address& address : dial.tcp) {
    for (const Address& one : with_scopes(address)) attempt(dial, connect_tcp(one), to_string(one));
  }
}

void NetworkLoop::attempt(Dial& dial, Connecting connecting, std::string peer) {
  const auto family = dial.family.lock();
  if (!family) return;
  if (connecting.errno_value != 0) {
    if (!is_refusal(connecting.errno_value)) dial.refused = false;
    dial.troubles += fmt::format("{}{}: {}", dial.troubles.empty() ? "" : "; ", peer, strerror(connecting.errno_value));
    return;
  }
  auto link = std::make_shared<Link>(*this, std::move(connecting.fd), std::move(peer), waker_, now_ns() + kAttemptTime, family,
                                     dial.target);
  dial.attempts.push_back(link);
  links_.push_back(std::move(link));
}

void NetworkLoop::attempt_ended(Dial& dial, const Link& link) {
  if (dial.over || link.end() == Link::End::not_needed) return;
  if (link.end() == Link::End::used_up) {
    dial.over = true;
    if (const auto family = dial.family.lock()) family->dial_ended(dial.key, fail(Code::invalid_usage, link.why()));
    return;
  }
  if (link.end() != Link::End::refused && link.end() != Link::End::unknown) dial.refused = false;
  dial.troubles += fmt::format("{}{}: {}", dial.troubles.empty() ? "" : "; ", link.peer(), link.why());
}

std::shared_ptr<Dial> NetworkLoop::dial_of(const Link& link) const {
  for (const auto& dial : dials_) {
    const auto mine = [&](const auto& one) { return one.get() == &link; };
    if (std::any_of(dial->attempts.begin(), dial->attempts.end(), mine)) return dial;
  }
  return nullptr;
}

bool NetworkLoop::win(Link& link) {
  const auto dial = dial_of(link);
  if (!dial || dial->over) return false;
  for (const auto& one : dial->attempts) {
    if (one.get() == &link) continue;
    one->close();
    std::erase(links_, one);
  }
  dial->attempts = {link.shared_from_this()};
  return true;
}

void NetworkLoop::risen(Link& link) {
  const auto dial = dial_of(link);
  if (!dial) return;
  dial->over = true;
  dial->attempts.clear();
  if (dial->tcp.size() > 1) RONDE_INFO(bootstrap, "of {} addresses, {} answered first", dial->tcp.size(), link.peer());
  if (const auto family = dial->family.lock()) family->dial_won(dial->key, link.shared_from_this());
}

}  // namespace ronde
