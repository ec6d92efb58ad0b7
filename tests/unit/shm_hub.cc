// The hub's callers: who says at once who he is, who is slow, and who never says it.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <cstddef>
#include <fmt/core.h>

#include "base/clock.h"
#include "support/catch.h"
#include "transport/process.h"
#include "transport/shm/hub.h"

using namespace ronde;
using namespace ronde::test;

namespace {

/// Connects to a hub as a peer does, and says nothing yet.
UniqueFd call(const shm::Hub& hub) {
  const Id name = hub.listener();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = fmt::format("ronde-{:016x}{:016x}", name[0], name[1]);
  std::copy(text.begin(), text.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  return fd;
}

/// True if the hub hangs up within `seconds`.
bool hangs_up(const UniqueFd& fd, double seconds) {
  pollfd waiting{fd.get(), POLLRDHUP, 0};
  return poll(&waiting, 1, static_cast<int>(seconds * 1000)) == 1;
}

}  // namespace

TEST_CASE("a hundred peers that call in a burst are all heard, however late they say who they are", "[fabric]") {
  const bool at_once = GENERATE(true, false);
  auto process = Process::pretend();
  REQUIRE(process.ok());
  shm::Hub& hub = (*process)->hub();
  const Id own = (*process)->id();
  std::vector<shm::LinkPtr> links;
  std::vector<UniqueFd> peers;
  const auto say_hello = [&](size_t i) {
    shm::Message hello;
    hello.id = links[i]->peer;
    hello.secret = hub.secret();
    return shm::send_message(peers[i].get(), hello, -1) == shm::Io::done;
  };
  for (size_t i = 0; i < 100; ++i) {
    auto link = hub.pin({own[0] + 1, i});
    REQUIRE(link.ok());
    links.push_back(*link);
  }
  for (size_t i = 0; i < links.size(); ++i) {
    peers.push_back(call(hub));
    if (at_once) CHECK(say_hello(i));
  }
  for (size_t i = 0; i < links.size() && !at_once; ++i) CHECK(say_hello(i));
  for (const auto& link : links) CHECK(hub.await_caller(*link, {Deadline::in(10), nullptr}).ok());
  for (const auto& link : links) hub.unpin(link);
}

TEST_CASE("callers that say nothing are dropped when they are old and many, so that others get in", "[fabric]") {
  auto process = Process::pretend();
  REQUIRE(process.ok());
  shm::Hub& hub = (*process)->hub();
  auto link = hub.pin({(*process)->id()[0] + 1, 0});
  REQUIRE(link.ok());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(call(hub));
  CHECK_FALSE(hangs_up(silent[0], 2.2));  // few enough: no hurry
  const UniqueFd next = call(hub);
  CHECK(hangs_up(silent[0], 5));
  CHECK_FALSE(hangs_up(silent[1], 0));
  CHECK_FALSE(hangs_up(next, 0));
  hub.unpin(*link);
}
