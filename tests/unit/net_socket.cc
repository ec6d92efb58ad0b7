// Messages over the network "Socket": what goes in comes out, in order, and what goes wrong is said.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <algorithm>
#include <cstring>

#include "boot/fork.h"
#include "boot/interfaces.h"
#include "support/catch.h"
#include "transport/socket/frame.h"
#include "unit/net_pairs.h"

using namespace ronde;
using namespace ronde::net;
using namespace ronde::test;

namespace {

const std::vector<size_t> kSizes = {0,      1,      63,     64,     4071,    4072,    4073, 4096,    65536, 131071,
                                    262143, 262144, 262145, 393216, 1048577, 2500003, 5,    3145728, 100};

bool has_ipv6() {
  const auto all = list_interfaces();
  return std::any_of(all.begin(), all.end(),
                     [](const Interface& one) { return one.up && one.loopback && one.address.family == 6; });
}

/// Sends and receives all `sizes` by one thread, with up to eight messages under way; each in two pieces.
void carry(const Pair& pair, const std::vector<size_t>& sizes) {
  std::vector<std::vector<std::byte>> out, in;
  for (size_t i = 0; i < sizes.size(); ++i) {
    out.push_back(pattern(sizes[i], i));
    in.emplace_back(sizes[i] + 7, std::byte{0x5a});
  }
  size_t sent = 0, posted = 0, came = 0, acknowledged = 0;
  REQUIRE(until([&] {
    while (posted < sizes.size() && posted < came + 8 && *pair.receiver->post(in[posted])) ++posted;
    if (sent < sizes.size() && sent < acknowledged + 8) {
      const size_t head = std::min<size_t>(sizes[sent], sent * 13);
      if (*pair.sender->post(std::span(out[sent]).first(head), std::span(out[sent]).subspan(head))) ++sent;
    }
    pair.signal();
    while (*pair.sender->done()) ++acknowledged;
    while (const auto bytes = *pair.receiver->done()) {
      CHECK(*bytes == sizes[came]);
      ++came;
    }
    return came == sizes.size() && acknowledged == came;
  }));
  for (size_t i = 0; i < sizes.size(); ++i) {
    INFO("message " << i << " of " << sizes[i] << " bytes");
    CHECK(std::equal(out[i].begin(), out[i].end(), in[i].begin()));
    CHECK(std::all_of(in[i].begin() + static_cast<ptrdiff_t>(sizes[i]), in[i].end(),
                      [](std::byte b) { return b == std::byte{0x5a}; }));
  }
}

/// Watches the descriptors of an End as the proxy does.
class Watch {
 public:
  explicit Watch(End& end) : end_(end), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    for (const int fd : end.descriptors()) {
      epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {}};
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
    }
  }
  /// Sleeps until something shows; false where nothing does for ten seconds.
  bool sleep() {
    epoll_event events[8];
    if (epoll_wait(epoll_.get(), events, 8, 10000) <= 0) return false;
    end_.signalled();
    return true;
  }

 private:
  End& end_;
  BootFd epoll_;
};

}  // namespace

TEST_CASE("messages of all sizes come whole and in order, over any number of sockets", "[net]") {
  const std::string sockets = GENERATE("1", "2", "3", "8");
  const std::string family = GENERATE("AF_INET", "AF_INET6", "any");
  if (family == "AF_INET6" && !has_ipv6()) RONDE_SKIP("no IPv6 loopback address");
  CAPTURE(sockets, family);
  const auto net = loopback_net({{"RONDE_NSOCKS_PERTHREAD", sockets}, {"RONDE_SOCKET_FAMILY", family}});
  const Pair pair = connect_pair(*net);
  CHECK(pair.receiver->descriptors().size() == static_cast<size_t>(std::stoi(sockets)));
  CHECK(contains(pair.sender->describe(), family == "AF_INET6" ? "[::1]:" : "127.0.0.1:"));
  CHECK(pair.sender->describe() == pair.receiver->describe());
  carry(pair, kSizes);
  carry(pair, std::vector<size_t>(300, 40));
}

TEST_CASE("with small buffers of the kernel messages come whole too", "[net]") {
  const auto net =
      loopback_net({{"RONDE_SOCKET_SNDBUF", "65536"}, {"RONDE_SOCKET_RCVBUF", "16384"}, {"RONDE_SOCKET_NTHREADS", "3"}});
  carry(connect_pair(*net), {100000, 1, 0, 300001, 400000, 7, 0});
}

TEST_CASE("two threads that sleep until their descriptors show something lose no message", "[net]") {
  const std::string sockets = GENERATE("1", "4");
  const auto net = loopback_net({{"RONDE_NSOCKS_PERTHREAD", sockets}, {"RONDE_SOCKET_SNDBUF", "65536"}});
  const Pair pair = connect_pair(*net);
  constexpr size_t kMessages = 400, kMost = 400000;
  const std::vector<std::byte> data = pattern(kMost + kMessages, 1);
  const auto size_of = [](size_t i) { return i % 7 == 0 ? 300000 + i : i * 17; };
  Findings findings;
  run_threads(2, [&](int side) {
    if (side == 0) {
      Watch watch(*pair.sender);
      for (size_t posted = 0, done = 0; done < kMessages;) {
        const auto ended = pair.sender->done();
        if (!ended.ok()) return findings.expect(false, ended.error().what);
        if (*ended) ++done;
        bool moved = *ended;
        if (posted < kMessages && *pair.sender->post({}, std::span(data).subspan(posted, size_of(posted))))
          ++posted, moved = true;
        if (!moved && !watch.sleep()) return findings.expect(false, "the sender was not woken");
      }
      return;
    }
    Watch watch(*pair.receiver);
    std::vector<std::vector<std::byte>> rooms(9, std::vector<std::byte>(kMost));
    for (size_t posted = 0, done = 0; done < kMessages;) {
      for (; posted < done + rooms.size(); ++posted)
        findings.expect(*pair.receiver->post(rooms[posted % rooms.size()]), "no room");
      const auto came = pair.receiver->done();
      if (!came.ok()) return findings.expect(false, came.error().what);
      if (came->has_value()) {
        findings.expect(
            **came == size_of(done) && std::memcmp(rooms[done % rooms.size()].data(), data.data() + done, **came) == 0,
            "message " + std::to_string(done) + " is wrong");
        ++done;
      } else if (!watch.sleep()) {
        return findings.expect(false, "the receiver was not woken");
      }
    }
  });
  CHECK(findings.wrong() == std::vector<std::string>());
}

TEST_CASE("a descriptor that was found dry is left alone until it has shown something", "[net]") {
  const auto net = loopback_net();
  const Pair pair = connect_pair(*net);
  std::vector<std::byte> room(64);
  const auto sent = pattern(64, 3);
  REQUIRE(*pair.receiver->post(room));
  pair.signal();
  REQUIRE_FALSE(pair.receiver->done()->has_value());
  REQUIRE(*pair.sender->post(sent, {}));
  pollfd one{pair.receiver->descriptors().at(0), POLLIN, 0};
  REQUIRE(poll(&one, 1, 10000) == 1);
  CHECK_FALSE(pair.receiver->done()->has_value());
  pair.receiver->signalled();
  CHECK(*pair.receiver->done() == std::optional<size_t>(64));
  CHECK(room == sent);
}

TEST_CASE("what is under way has a limit of at least eight messages", "[net]") {
  const auto net = loopback_net({{"RONDE_SOCKET_SNDBUF", "4096"}});
  const Pair pair = connect_pair(*net);
  std::vector<std::byte> memory(8 << 20);
  int sends = 0, rooms = 0;
  while (sends < 1000 && *pair.sender->post(memory, {})) ++sends;
  while (rooms < 1000 && *pair.receiver->post(memory)) ++rooms;
  CHECK(sends == static_cast<int>(kMaxUnderWay));
  CHECK(rooms == static_cast<int>(kMaxUnderWay));
}

TEST_CASE("the peer's end inside a message is an error; what was whole before comes", "[net]") {
  const std::string sockets = GENERATE("1", "4");
  const auto net = loopback_net({{"RONDE_NSOCKS_PERTHREAD", sockets}});
  Pair pair = connect_pair(*net);
  const auto small = pattern(1000, 1);
  const std::vector<std::byte> large(64 << 20);
  std::vector<std::byte> rooms[6];
  for (auto& room : rooms) room.resize(&room == rooms + 5 ? large.size() : 1000);
  for (auto& room : rooms) REQUIRE(*pair.receiver->post(room));
  for (int i = 0; i < 5; ++i) REQUIRE(*pair.sender->post(small, {}));
  REQUIRE(*pair.sender->post(large, {}));
  pair.sender.reset();
  size_t bytes = 0;
  for (int i = 0; i < 5; ++i) {
    REQUIRE(receive(pair, &bytes) == "");
    CHECK(bytes == 1000);
    CHECK(rooms[i] == small);
  }
  const std::string text = receive(pair, &bytes);
  INFO(text);
  CHECK(contains(text, "the peer has closed the connection"));
  CHECK(contains(text, "over lo"));
  CHECK(receive(pair, &bytes) == text);  // it stays
  CHECK(pair.receiver->post(rooms[0]).code() == Code::remote_error);
}

TEST_CASE("the receiver's end is an error for a sender with something under way", "[net]") {
  const auto net = loopback_net();
  Pair pair = connect_pair(*net);
  const std::vector<std::byte> large(64 << 20);
  REQUIRE(*pair.sender->post(large, {}));
  pair.receiver.reset();
  std::string text;
  REQUIRE(until([&] {
    pair.sender->signalled();
    const auto done = pair.sender->done();
    if (!done.ok()) text = done.error().what;
    return !done.ok();
  }));
  INFO(text);
  CHECK(contains(text, "sending between 127.0.0.1:"));
  CHECK(contains(text, "its process has ended"));
}

TEST_CASE("a sender looks after its peer as long as something is under way, and no longer", "[net]") {
  const auto net = loopback_net();
  const Pair pair = connect_pair(*net);
  const auto beats = [&] {
    itimerspec left{};
    REQUIRE(timerfd_gettime(pair.sender->descriptors().back(), &left) == 0);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
  };
  CHECK(*pair.sender->arm());
  CHECK_FALSE(beats());
  const std::vector<std::byte> large(64 << 20);
  REQUIRE(*pair.sender->post(large, {}));
  CHECK(*pair.sender->arm());
  CHECK(beats());
  CHECK_FALSE(*pair.sender->done());
}

TEST_CASE("a message longer than its room is an error, and does not leave the room", "[net]") {
  const auto net = loopback_net();
  const Pair pair = connect_pair(*net);
  std::vector<std::byte> room(200, std::byte{0x5a});
  const auto sent = pattern(101, 1);
  REQUIRE(*pair.receiver->post(std::span(room).first(100)));
  REQUIRE(*pair.sender->post(sent, {}));
  size_t bytes = 0;
  CHECK(contains(receive(pair, &bytes), "message 0 has 101 bytes, where at most 100 fit"));
  CHECK(std::all_of(room.begin(), room.end(), [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_CASE("parts of a message cover it once, each stream has one at most, and small messages take turns", "[net]") {
  for (const uint32_t streams : {1u, 2u, 3u, 7u, 64u}) {
    for (const uint64_t total :
         {0ul, 1ul, 131071ul, 131072ul, 262144ul, 262145ul, 1000000ul, 8388608ul, 8388609ul, 100000007ul}) {
      for (const uint64_t number : {0ul, 1ul, 5ul, 1000ul}) {
        const Cut cut(number, total, streams);
        CAPTURE(streams, total, number);
        REQUIRE(cut.parts >= 1);
        REQUIRE(cut.parts <= streams);
        uint64_t at = 0;
        for (uint32_t i = 0; i < cut.parts; ++i) {
          REQUIRE(cut.part(i).begin == at);
          REQUIRE((cut.part(i).bytes > 0 || total == 0));
          REQUIRE(cut.part_on(cut.stream_of(i)) == i);
          at += cut.part(i).bytes;
        }
        REQUIRE(at == total);
        REQUIRE(cut.stream_of(0) == number % streams);
      }
    }
  }
}

TEST_CASE("a frame with any bit changed is none", "[net]") {
  const Frame right = make_frame(12, 345678);
  REQUIRE(is_frame(right));
  for (size_t bit = 0; bit < sizeof right * 8; ++bit) {
    std::array<uint8_t, sizeof right> bytes;
    std::memcpy(bytes.data(), &right, sizeof right);
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    Frame wrong;
    std::memcpy(&wrong, bytes.data(), sizeof wrong);
    CHECK_FALSE(is_frame(wrong));
  }
}
