// Connections of a Net for tests: two ends in one process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "support/catch.h"
#include "transport/net/net.h"
#include "unit/boot_ranks.h"

namespace ronde::test {

/// The network "Socket" over the loopback interface, with `more` settings.
inline std::shared_ptr<net::Net> loopback_net(Settings more = {}) {
  more.insert({"RONDE_SOCKET_IFNAME", "=lo"});
  std::string why;
  auto opened = net::providers().back().open(*config_of(more), &why);
  INFO(why);
  REQUIRE(opened.ok());
  REQUIRE(*opened != nullptr);
  REQUIRE((*opened)->name() == "Socket");
  return *opened;
}

/// Calls `step` until it says true; false where that took ten seconds.
inline bool until(const std::function<bool()>& step) {
  const Deadline limit = Deadline::in(10);
  while (!limit.passed()) {
    if (step()) return true;
  }
  return false;
}

struct Pair {
  std::unique_ptr<net::Sender> sender;
  std::unique_ptr<net::Receiver> receiver;

  /// As if all descriptors had shown something.
  void signal() const {
    if (sender != nullptr) sender->signalled();
    if (receiver != nullptr) receiver->signalled();
  }
  /// True once both ends are up.
  bool step(net::Listener& listener) {
    if (receiver == nullptr) {
      auto came = listener.accept();
      REQUIRE(came.ok());
      receiver = std::move(*came);
    }
    const auto sends = sender->ready();
    if (!sends.ok()) FAIL(sends.error().what);
    if (receiver == nullptr) return false;
    const auto receives = receiver->ready();
    REQUIRE(receives.ok());
    return *sends && *receives;
  }
};

/// A connection from device 0 to device 0.
inline Pair connect_pair(net::Net& from, net::Net& to) {
  auto listener = to.listen(0);
  REQUIRE(listener.ok());
  auto sender = from.connect(0, (*listener)->handle());
  REQUIRE(sender.ok());
  Pair pair{std::move(*sender), nullptr};
  REQUIRE(until([&] { return pair.step(**listener); }));
  return pair;
}
inline Pair connect_pair(net::Net& both) { return connect_pair(both, both); }

/// Bytes that differ by position and `seed`.
inline std::vector<std::byte> pattern(size_t bytes, uint64_t seed) {
  std::vector<std::byte> all(bytes);
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (std::byte& one : all) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    one = static_cast<std::byte>(x >> 56);
  }
  return all;
}

/// The next message's bytes; an error's text where there is one. Asks until it is there.
inline std::string receive(const Pair& pair, size_t* bytes) {
  std::string text = "nothing came";
  until([&] {
    pair.signal();
    if (pair.sender != nullptr) {
      auto sent = pair.sender->done();
      if (!sent.ok()) return text = sent.error().what, true;
    }
    auto came = pair.receiver->done();
    if (!came.ok()) return text = came.error().what, true;
    if (!came->has_value()) return false;
    *bytes = **came;
    text.clear();
    return true;
  });
  return text;
}

}  // namespace ronde::test
