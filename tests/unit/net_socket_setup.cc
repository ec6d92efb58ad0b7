// How connections of the network "Socket" begin: interfaces, addresses, strangers, refusals.
#include <sys/resource.h>
#include <sys/socket.h>
#include <cstring>

#include "boot/listen.h"
#include "support/catch.h"
#include "support/scratch.h"
#include "transport/socket/door.h"
#include "transport/socket/frame.h"
#include "transport/socket/greeting.h"
#include "transport/socket/locals.h"
#include "unit/net_pairs.h"

using namespace ronde;
using namespace ronde::net;
using namespace ronde::test;

namespace {

Address address_of(const std::string& text) { return parse_address(text + ":1")->at(0); }

Interface interface_of(const std::string& name, const std::string& ip, uint8_t prefix) {
  Interface one;
  one.name = name;
  one.address = address_of(ip);
  one.address.port = 0;
  one.up = true;
  one.loopback = name == "lo";
  one.prefix = prefix;
  return one;
}

/// A connection to a listener by somebody who is not of the library.
BootFd call(const Handle& handle) {
  const Contact contact = *from_handle(handle);
  Connecting made = connect_tcp(contact.addresses.at(0));
  REQUIRE(made.errno_value == 0);
  return std::move(made.fd);
}

void say(const BootFd& fd, const void* what, size_t bytes) {
  REQUIRE(send(fd.get(), what, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
}

/// True if the other side has ended the connection without a word.
bool turned_away(const BootFd& fd) {
  char byte = 0;
  const ssize_t n = recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

/// What a sender says in the end.
std::string failure_of(Sender& sender) {
  std::string text = "it did not end";
  until([&] {
    const auto ready = sender.ready();
    if (!ready.ok()) text = ready.error().what;
    return !ready.ok();
  });
  return text;
}

}  // namespace

TEST_CASE("each interface is one device, with its speed and adapter", "[net]") {
  Scratch host;
  host.write("sys/class/net/eth0/speed", "100000\n");
  host.write("sys/class/net/eth0/device/vendor", "0x8086\n");
  host.write("sys/class/net/eth1/speed", "-1\n");
  host.write("sys/class/net/eth1/device/vendor", "0x1d0f\n");
  const auto files = topo::HostFiles::open(host.root());
  REQUIRE(files.ok());
  const std::vector<Interface> usable = {interface_of("eth0", "10.0.0.1", 24), interface_of("eth1", "10.0.1.1", 24),
                                         interface_of("lo", "127.0.0.1", 8), interface_of("eth0", "[2001:db8::1]", 64)};
  const auto locals = make_locals(usable, *files, *config_of());
  REQUIRE(locals.size() == 3);
  CHECK(locals[0].device.name == "eth0");
  CHECK(locals[0].device.gbps == 100);
  CHECK(locals[0].device.pci_path == "/sys/class/net/eth0/device");
  CHECK(locals[0].device.gathers);
  CHECK(locals[0].addresses.size() == 2);
  CHECK(locals[0].streams == 4);
  CHECK(locals[1].device.gbps == 0);
  CHECK(locals[1].streams == 8);
  CHECK(locals[2].device.pci_path.empty());
  CHECK(locals[2].streams == 1);
  CHECK(make_locals(usable, *files, *config_of({{"RONDE_SOCKET_NTHREADS", "2"}}))[0].streams == 2);
  CHECK(make_locals(usable, *files, *config_of({{"RONDE_SOCKET_NTHREADS", "3"}, {"RONDE_NSOCKS_PERTHREAD", "4"}}))[1].streams ==
        12);
  CHECK(make_locals(usable, *files, *config_of({{"RONDE_SOCKET_NTHREADS", "16"}, {"RONDE_NSOCKS_PERTHREAD", "16"}}))[1].streams ==
        64);
  CHECK(default_streams(0, 0) == 1);
  CHECK(default_streams(25, 0) == 1);
  CHECK(default_streams(50, 0) == 2);
  CHECK(default_streams(400, 0) == 8);
}

TEST_CASE("interfaces know the network that they are in", "[net]") {
  for (const Interface& one : list_interfaces()) {
    if (one.loopback && one.address.family == 4) CHECK(one.prefix == 8);
    CHECK(same_network(one, one.address));
  }
  const Interface odd = interface_of("eth0", "10.1.64.7", 18);
  CHECK(same_network(odd, address_of("10.1.127.1")));
  CHECK_FALSE(same_network(odd, address_of("10.1.128.1")));
  CHECK_FALSE(same_network(odd, address_of("[2001:db8::1]")));
}

TEST_CASE("addresses of a peer are tried by how near they are, from an address that can reach them", "[net]") {
  Local local;
  local.device.name = "lo";  // for its index
  local.addresses = {interface_of("eth0", "10.0.0.1", 24), interface_of("eth0", "[2001:db8:1::1]", 64),
                     interface_of("eth0", "[fe80::1]", 64)};
  const auto found = ways(local, {address_of("127.0.0.1"), address_of("[fe80::2]"), address_of("192.168.0.2"),
                                  address_of("10.0.0.2"), address_of("[2001:db8:2::2]"), address_of("[2001:db8:1::2]")});
  std::vector<std::string> texts;
  for (const Way& way : found) texts.push_back(to_string(way.from) + " > " + to_string(way.to));
  CHECK(texts == std::vector<std::string>{"10.0.0.1:0 > 10.0.0.2:1", "[2001:db8:1::1]:0 > [2001:db8:1::2]:1",
                                          "10.0.0.1:0 > 192.168.0.2:1", "[2001:db8:1::1]:0 > [2001:db8:2::2]:1",
                                          "[fe80::1]:0 > [fe80::2%lo]:1", "no address > 127.0.0.1:1"});
}

TEST_CASE("a handle holds what a listener is, and nothing else is one", "[net]") {
  Contact contact;
  contact.number = 77;
  contact.secret = {1, 2};
  contact.port = 4242;
  for (int i = 0; i < 7; ++i) contact.addresses.push_back(address_of("10.0.0." + std::to_string(i)));
  const Handle handle = to_handle(contact);
  const auto back = from_handle(handle);
  REQUIRE(back.ok());
  CHECK(back->number == 77);
  CHECK(back->secret == contact.secret);
  REQUIRE(back->addresses.size() == kMaxAddresses);
  CHECK(to_string(back->addresses[4]) == "10.0.0.4:4242");
  CHECK_FALSE(from_handle(Handle{}).ok());
  Handle family = handle;
  family[31] = std::byte{5};
  CHECK_FALSE(from_handle(family).ok());
  CHECK(loopback_net()->connect(0, Handle{}).code() == Code::internal_error);
}

TEST_CASE("hundreds of connections come in through one port, in any order", "[net]") {
  const auto net = loopback_net({{"RONDE_NSOCKS_PERTHREAD", "2"}});
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<Pair> pairs(120);
  for (size_t i = 0; i < pairs.size(); ++i) {
    listeners.push_back(std::move(*net->listen(0)));
    CHECK(from_handle(listeners.back()->handle())->port == from_handle(listeners.front()->handle())->port);
  }
  for (size_t i = pairs.size(); i-- > 0;) pairs[i].sender = std::move(*net->connect(0, listeners[i]->handle()));
  REQUIRE(until([&] {
    bool all = true;
    for (size_t i = 0; i < pairs.size(); ++i) all &= pairs[i].step(*listeners[i]);
    return all;
  }));
  for (size_t i = 0; i < pairs.size(); ++i) {
    std::vector<std::byte> room(100);
    const auto sent = pattern(100, i);
    REQUIRE(*pairs[i].receiver->post(room));
    REQUIRE(*pairs[i].sender->post(sent, {}));
    size_t bytes = 0;
    REQUIRE(receive(pairs[i], &bytes) == "");
    CHECK(room == sent);
  }
}

TEST_CASE("a port is listened on only while a connection is awaited", "[net]") {
  const auto net = loopback_net({{"RONDE_SOCKET_RETRY_CNT", "2"}, {"RONDE_SOCKET_RETRY_SLEEP_MSEC", "1"}});
  auto listener = *net->listen(0);
  const Handle handle = listener->handle();
  listener.reset();
  auto sender = *net->connect(0, handle);
  const std::string text = failure_of(*sender);
  INFO(text);
  CHECK(contains(text, "Connection refused"));
  CHECK(contains(text, "over lo, 3 times"));
  CHECK(contains(text, "NCCL_SOCKET_IFNAME"));
  CHECK(sender->ready().code() == Code::remote_error);  // it stays
}

TEST_CASE("a fixed port serves one connection after the other", "[net]") {
  PortRange range;
  range.low = range.high = [] {
    const auto listening = listen_tcp("AF_INET", {});
    REQUIRE(listening.ok());
    return listening->port;
  }();
  const auto net = loopback_net({{"RONDE_PORT_RANGE", std::to_string(range.low)}});
  for (int i = 0; i < 50; ++i) {
    const Pair pair = connect_pair(*net);
    CHECK(contains(pair.sender->describe(), "to 127.0.0.1:" + std::to_string(range.low)));
  }
}

TEST_CASE("one port is not enough for the bootstrap and the network", "[net]") {
  const auto bootstrap = listen_tcp("AF_INET", {});
  REQUIRE(bootstrap.ok());
  const std::string port = std::to_string(bootstrap->port);
  const auto listener = loopback_net({{"RONDE_PORT_RANGE", port}, {"RONDE_SOCKET_FAMILY", "AF_INET"}})->listen(0);
  REQUIRE_FALSE(listener.ok());
  const std::string text = listener.error().what;
  INFO(text);
  CHECK(contains(text, "listening for the network between hosts on a port of RONDE_PORT_RANGE=" + port + "-" + port + ": none is free"));
  CHECK(contains(text, "each process takes one for the bootstrap and one for the network"));
}

TEST_CASE("strangers keep nobody waiting, get no answer and stay few", "[net]") {
  const auto net = loopback_net();
  auto listener = *net->listen(0);
  const int before = open_descriptors();
  std::vector<BootFd> strangers;
  SECTION("silent") {
    for (int i = 0; i < 300; ++i) strangers.push_back(call(listener->handle()));
    Pair pair{*net->connect(0, listener->handle()), nullptr};
    REQUIRE(until([&] { return pair.step(*listener); }));
    CHECK(open_descriptors() - before - 300 <= static_cast<int>(Door::kMaxPending) + 2);
  }
  SECTION("talking") {
    const Contact contact = *from_handle(listener->handle());
    Contact wrong = contact;
    wrong.secret[1] ^= 1;
    Contact other = contact;
    other.number += 1000;
    for (int i = 0; i < 5; ++i) strangers.push_back(call(listener->handle()));
    say(strangers[0], "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    say(strangers[1], "x", 1);
    Hello hello = make_hello(wrong, 0, 1);
    say(strangers[2], &hello, sizeof hello);
    hello = make_hello(other, 0, 1);
    say(strangers[3], &hello, sizeof hello);
    hello = make_hello(contact, 3, 3);  // a stream beyond their number
    say(strangers[4], &hello, sizeof hello);
    CHECK(until([&] {
      auto came = listener->accept();
      REQUIRE(came.ok());
      REQUIRE(*came == nullptr);
      return std::all_of(strangers.begin(), strangers.end(), turned_away);
    }));
    Pair pair{*net->connect(0, listener->handle()), nullptr};
    REQUIRE(until([&] { return pair.step(*listener); }));
  }
  SECTION("resetting") {
    for (int i = 0; i < 20; ++i) {
      const BootFd stranger = call(listener->handle());
      const linger at_once{1, 0};
      setsockopt(stranger.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    Pair pair{*net->connect(0, listener->handle()), nullptr};
    REQUIRE(until([&] { return pair.step(*listener); }));
  }
}

TEST_CASE("a sender with the wrong secret is turned away, and says so", "[net]") {
  const auto net = loopback_net({{"RONDE_SOCKET_RETRY_CNT", "1"}, {"RONDE_SOCKET_RETRY_SLEEP_MSEC", "1"}});
  auto listener = *net->listen(0);
  Contact contact = *from_handle(listener->handle());
  contact.secret[0] ^= 1;
  auto sender = *net->connect(0, to_handle(contact));
  std::string text;
  REQUIRE(until([&] {
    REQUIRE(*listener->accept() == nullptr);
    const auto ready = sender->ready();
    if (!ready.ok()) text = ready.error().what;
    return !ready.ok();
  }));
  INFO(text);
  CHECK(contains(text, "closed without an answer"));
}

TEST_CASE("a listener that cannot prove itself is none", "[net]") {
  auto listening = listen_tcp("AF_INET", {});
  REQUIRE(listening.ok());
  Contact contact;
  contact.port = listening->port;
  contact.addresses = {address_of("127.0.0.1")};
  const auto net = loopback_net();
  auto sender = *net->connect(0, to_handle(contact));
  BootFd peer;
  std::string text;
  REQUIRE(until([&] {
    if (!peer) {
      peer = BootFd(accept4(listening->fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (peer) say(peer, "0123456789abcdef", 16);
    }
    const auto ready = sender->ready();
    if (!ready.ok()) text = ready.error().what;
    return !ready.ok();
  }));
  CHECK(contains(text, "something else than the peer answered"));
}

TEST_CASE("what a peer sends after its proof leads outside of no room", "[net]") {
  const auto net = loopback_net();
  auto listener = *net->listen(0);
  const BootFd peer = call(listener->handle());
  const Hello hello = make_hello(*from_handle(listener->handle()), 0, 1);
  say(peer, &hello, sizeof hello);
  Pair pair;
  REQUIRE(until([&] {
    pair.receiver = std::move(*listener->accept());
    return pair.receiver != nullptr;
  }));
  std::vector<std::byte> room(100);
  REQUIRE(*pair.receiver->post(room));
  size_t bytes = 0;
  const auto after = [&](const Frame& frame) {
    say(peer, &frame, sizeof frame);
    return receive(pair, &bytes);
  };
  SECTION("no frame") {
    Frame frame = make_frame(0, 10);
    frame.total = 1ul << 40;
    CHECK(contains(after(frame), "where message 0 or later should begin is none"));
  }
  SECTION("too long") { CHECK(contains(after(make_frame(0, UINT64_MAX)), "at most 100 fit")); }
  SECTION("not its turn") {
    CHECK(contains(after(make_frame(1, 10)), "message 1 of 10 bytes came on socket 0 where one from 0 to 0 should"));
  }
}

TEST_CASE("where descriptors are short, who comes is let in later", "[net]") {
  const auto net = loopback_net();
  auto listener = *net->listen(0);
  auto sender = *net->connect(0, listener->handle());
  REQUIRE_FALSE(*sender->ready());
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlimit few = limit;
  few.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  auto came = listener->accept();
  const bool refused = came.ok() && *came == nullptr;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(refused);
  Pair pair{std::move(sender), nullptr};
  CHECK(until([&] { return pair.step(*listener); }));
}

TEST_CASE("where descriptors stay short, both ends say so", "[net]") {
  const auto net = loopback_net();
  auto listener = *net->listen(0);
  auto sender = *net->connect(0, listener->handle());
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  rlimit few = limit;
  few.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  const auto sends = sender->ready();
  std::string receives;
  until([&] {
    const auto came = listener->accept();
    if (!came.ok()) receives = came.error().what;
    return !came.ok();
  });
  REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  REQUIRE_FALSE(sends.ok());
  for (const std::string& text : {sends.error().what, receives}) {
    CHECK(contains(text, "Too many open files"));
    CHECK(contains(text, "ulimit -n"));
  }
}
