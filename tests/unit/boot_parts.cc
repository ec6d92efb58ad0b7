// The small parts of the bootstrap: keyed hash, unique id, addresses, interface choice, port ranges, mailboxes, handshake.
#include <algorithm>

#include "base/fd.h"
#include "base/lists.h"
#include "boot/handshake.h"
#include "boot/interfaces.h"
#include "boot/listen.h"
#include "boot/mailbox.h"
#include "boot/messages.h"
#include "boot/unique_id.h"
#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

Address ip(const std::string& text) { return (*parse_address(text))[0]; }

Interface interface(const std::string& name, const std::string& address, bool up = true, bool loopback = false) {
  Interface one{name, ip(address), up, loopback};
  one.address.port = 0;
  return one;
}

std::vector<Interface> a_host() {
  return {interface("lo", "127.0.0.1:1", true, true),
          interface("lo", "[::1]:1", true, true),
          interface("docker0", "172.17.0.1:1"),
          interface("eth0", "[fe80::1]:1"),
          interface("eth0", "192.0.2.2:1"),
          interface("eth0", "[2001:db8::2]:1"),
          interface("eth1", "198.51.100.2:1"),
          interface("eth2", "203.0.113.2:1", false),
          interface("ib0", "10.0.0.2:1")};
}

std::vector<std::string> chosen(const std::string& ifname, const std::string& family = "any") {
  std::vector<std::string> names;
  for (const Interface& one : choose_interfaces(a_host(), ifname, family)) {
    names.push_back(one.name + (one.address.family == 4 ? "/4" : one.address.link_local() ? "/local" : "/6"));
  }
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("SipHash-2-4 gives the value of its authors' test vector", "[boot]") {
  const Secret key{0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
  std::array<std::byte, 15> message;
  for (size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(i);
  CHECK(siphash(key, message) == 0xa129ca6149be45e5u);
  CHECK(siphash(key, {}) == 0x726fdb47dd0e0e31u);
}

TEST_CASE("keyed hashes differ by secret, purpose and message", "[boot]") {
  const std::array<std::byte, 3> message{std::byte{1}, std::byte{2}, std::byte{3}};
  const auto base = keyed_hash({1, 2}, "a", message);
  CHECK(base == keyed_hash({1, 2}, "a", message));
  CHECK(base != keyed_hash({1, 3}, "a", message));
  CHECK(base != keyed_hash({1, 2}, "b", message));
  CHECK(base != keyed_hash({1, 2}, "a", std::span(message).first(2)));
  CHECK(base[0] != base[1]);
}

TEST_CASE("a unique id keeps what it was made of, and the addresses that fit", "[boot]") {
  IdInfo info;
  info.secret = {11, 22};
  info.root.process = 33;
  info.root.host = 44;
  info.root.pid = 55;
  info.version = 66;
  info.protocol = 7;
  for (int i = 1; i <= 6; ++i) info.root.addresses.push_back(ip("[2001:db8::" + std::to_string(i) + "]:4321"));
  info.root.addresses.push_back(ip("192.0.2.9:4321"));
  const auto id = encode_id(info);
  REQUIRE(id.ok());
  const auto back = decode_id(*id);
  REQUIRE(back.ok());
  CHECK(back->secret == info.secret);
  CHECK(back->root.process == 33);
  CHECK(back->root.host == 44);
  CHECK(back->root.pid == 55);
  CHECK(back->version == 66);
  CHECK(back->protocol == 7);
  CHECK(back->fixed.empty());
  // Four IPv6 addresses fit, and the small IPv4 one after them.
  REQUIRE(back->root.addresses.size() == 5);
  for (size_t i = 0; i < 4; ++i) CHECK(back->root.addresses[i] == info.root.addresses[i]);
  CHECK(back->root.addresses[4] == info.root.addresses[6]);
}

TEST_CASE("a unique id of a fixed address keeps its text, and refuses one that is too long", "[boot]") {
  IdInfo info;
  info.fixed = "head-node.example.org:29500";
  REQUIRE(encode_id(info).ok());
  CHECK(decode_id(*encode_id(info))->fixed == info.fixed);
  info.fixed = std::string(120, 'x') + ":1";
  const auto id = encode_id(info);
  REQUIRE_FALSE(id.ok());
  CHECK(id.code() == Code::invalid_argument);
  CHECK(contains(id.error().what, "too long"));
}

TEST_CASE("what is no unique id is refused with a reason", "[boot]") {
  const auto good = make_unique_id(*config_of());
  REQUIRE(good.ok());
  UniqueId id = *good;
  std::string reason;
  SECTION("zeros") {
    id = {};
    reason = "all zeros";
  }
  SECTION("cut after half") {
    std::fill(id.bytes.begin() + 64, id.bytes.end(), std::byte{0});
    reason = "damaged";
  }
  SECTION("one bit flipped") {
    id.bytes[20] ^= std::byte{4};
    reason = "damaged";
  }
  SECTION("another library's") {
    id.bytes.fill(std::byte{'x'});
    reason = "no unique id of this library";
  }
  const auto info = decode_id(id);
  REQUIRE_FALSE(info.ok());
  CHECK(info.code() == Code::invalid_argument);
  INFO(info.error().what);
  CHECK(contains(info.error().what, reason));
  const Joined joined = join({0, 1, {id}}, config_of(), nullptr);
  CHECK(joined.code() == Code::invalid_argument);
  // The root of the good id still waits for its rank: give it one.
  CHECK(join({0, 1, {*good}}, config_of(), nullptr).ok());
}

TEST_CASE("lists of ranks are written short", "[boot]") {
  CHECK(rank_list({3}) == "rank 3");
  CHECK(rank_list({1, 3}) == "ranks 1, 3");
  CHECK(rank_list({1, 2}) == "ranks 1, 2");
  CHECK(rank_list({30, 5, 3, 4, 2}) == "ranks 2-5, 30");
  CHECK(rank_list({0, 1, 2, 7, 8, 11}) == "ranks 0-2, 7, 8, 11");
}

TEST_CASE("addresses are parsed and written", "[boot]") {
  CHECK(to_string(ip("192.0.2.1:80")) == "192.0.2.1:80");
  CHECK(to_string(ip("[2001:db8::1]:65535")) == "[2001:db8::1]:65535");
  CHECK_FALSE(parse_address("localhost:80")->empty());
  for (const char* bad :
       {"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:8x", "::1:80", "[]:80", "[1.2.3.4]:80"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_address(bad).ok());
  }
  CHECK(ip("[fe80::1]:1").link_local());
  CHECK(ip("[febf::1]:1").link_local());
  CHECK_FALSE(ip("[fec0::1]:1").link_local());
}

TEST_CASE("interfaces without a setting: ib, others, and nothing that other hosts cannot reach", "[boot]") {
  CHECK(chosen("") == Names{"ib0/4", "eth0/4", "eth1/4", "eth0/6", "eth0/local"});
  CHECK(chosen("", "AF_INET") == Names{"ib0/4", "eth0/4", "eth1/4"});
  CHECK(chosen("", "AF_INET6") == Names{"eth0/6", "eth0/local"});
}

TEST_CASE("interfaces by NCCL_SOCKET_IFNAME: prefixes, exact names, exclusion", "[boot]") {
  CHECK(chosen("eth", "AF_INET") == Names{"eth0/4", "eth1/4"});
  CHECK(chosen("eth1,eth0", "AF_INET") == Names{"eth1/4", "eth0/4"});
  CHECK(chosen("=eth", "any") == Names{});
  CHECK(chosen("=eth1,ib0", "any") == Names{"eth1/4", "ib0/4"});
  CHECK(chosen("docker,lo", "AF_INET") == Names{"docker0/4", "lo/4"});
  CHECK(chosen("^eth", "any") == Names{"ib0/4"});
  CHECK(chosen("^eth,ib", "any") == Names{"docker0/4"});
  CHECK(chosen("^eth,ib,docker", "any") == Names{"lo/4", "lo/6"});
  CHECK(chosen("^=eth0,ib0", "any") == Names{"eth1/4"});
  CHECK(chosen("eth2", "any") == Names{});  // it is down
}

TEST_CASE("no more than sixteen addresses are used", "[boot]") {
  std::vector<Interface> many;
  for (int i = 1; i < 30; ++i) many.push_back(interface("eth" + std::to_string(i), "192.0.2." + std::to_string(i) + ":1", 24));
  CHECK(choose_interfaces(many, "", "any").size() == 16);
}

TEST_CASE("port ranges", "[boot]") {
  CHECK(parse_port_range("")->low == 0);
  CHECK(parse_port_range("4000-4010")->low == 4000);
  CHECK(parse_port_range("4000-4010")->high == 4010);
  CHECK(parse_port_range("4000")->high == 4000);
  for (const char* bad : {"0", "10-5", "a", "1-", "-5", "1-70000", "1-2-3", " 1-2"}) {
    CAPTURE(bad);
    const auto range = parse_port_range(bad);
    REQUIRE_FALSE(range.ok());
    CHECK(contains(range.error().what, "RONDE_PORT_RANGE"));
  }
}

TEST_CASE("listeners keep to the port range and say when it is full", "[boot]") {
  // Two neighbouring ports that are free now; another program may take them in between, so try a few places.
  Result<Listening> first = fail(Code::internal_error, "none");
  Result<Listening> second = fail(Code::internal_error, "none");
  PortRange range;
  for (uint16_t low = 42000; low < 42400 && !second.ok(); low = static_cast<uint16_t>(low + 10)) {
    range = {low, static_cast<uint16_t>(low + 1)};
    first = listen_tcp("any", range);
    if (first.ok()) second = listen_tcp("any", range);
  }
  REQUIRE(second.ok());
  CHECK(first->port != second->port);
  CHECK((first->port >= range.low && first->port <= range.high));
  CHECK((second->port >= range.low && second->port <= range.high));
  for (const char* family : {"any", "AF_INET", "AF_INET6"}) {
    const auto third = listen_tcp(family, range);
    REQUIRE_FALSE(third.ok());
    CHECK(third.code() == Code::system_error);
    INFO(third.error().what);
    CHECK(contains(third.error().what, "RONDE_PORT_RANGE=" + std::to_string(range.low) + "-" + std::to_string(range.high)));
    CHECK(contains(third.error().what, "Address already in use"));
  }
  const std::string text = std::to_string(range.low) + "-" + std::to_string(range.high);
  const auto id = make_unique_id(*config_of({{"RONDE_PORT_RANGE", text}}));
  REQUIRE_FALSE(id.ok());
  CHECK(contains(id.error().what, text));
}

TEST_CASE("mailboxes keep the order by sender and tag", "[boot]") {
  Mailbox box;
  const auto none = [] { return std::optional<Error>(); };
  const auto one = [](int value) { return Bytes(1, static_cast<std::byte>(value)); };
  const auto take = [&](int from, uint64_t tag) { return static_cast<int>(box.take(from, tag, {}, none).message.at(0)); };
  box.put(1, 5, one(10));
  box.put(2, 5, one(20));
  box.put(1, 6, one(11));
  box.put(1, 5, one(12));
  CHECK(take(2, 5) == 20);
  CHECK(take(1, 6) == 11);
  CHECK(take(1, 5) == 10);
  CHECK(take(1, 5) == 12);
  CHECK_FALSE(box.poll(1, 5));
}

TEST_CASE("a mailbox gives what came before it says what went wrong", "[boot]") {
  Mailbox box;
  const auto none = [] { return std::optional<Error>(); };
  box.put(1, 0, Bytes(3));
  box.leave(1);
  box.poison(0, fail(Code::remote_error, "first"));
  box.poison(0, fail(Code::remote_error, "second"));
  CHECK(box.take(1, 0, {}, none).how == Ended::message);
  const Taken after = box.take(1, 0, {}, none);
  CHECK(after.how == Ended::failed);
  CHECK(after.error.what == "first");
  const uint64_t other_exchange = uint64_t{1} << kTagBits;
  CHECK(box.take(2, other_exchange, {nullptr, Deadline::in(0.01)}, none).how == Ended::expired);
  Mailbox left;
  left.leave(4);
  CHECK(contains(left.take(4, 0, {}, none).error.what, "rank 4 has left"));
}

TEST_CASE("a wait for mail ends by abort and by time", "[boot]") {
  Mailbox box;
  const auto none = [] { return std::optional<Error>(); };
  AbortWord abort;
  CHECK(box.take(0, 0, {&abort, Deadline::in(0.01)}, none).how == Ended::expired);
  abort.raise();
  CHECK(box.take(0, 0, {&abort, Deadline::never()}, none).how == Ended::aborted);
  CHECK(box.take(0, 0, {nullptr, Deadline::never(), &abort}, none).how == Ended::aborted);
}

TEST_CASE("the handshake proves the secret in both directions, and nothing else does", "[boot]") {
  const Secret right{5, 6}, wrong{5, 7};
  const Hello hello = *make_hello(public_id(right), 77, 1);
  CHECK(is_hello(hello));
  CHECK(begins_hello(std::as_bytes(std::span(&hello, 1))));
  CHECK_FALSE(begins_hello(std::as_bytes(std::span("GET / HTTP/1.1"))));
  const Challenge challenge = *make_challenge(hello, Greeting::welcome, 77, &right);
  CHECK(proves(challenge, hello, right));
  CHECK_FALSE(proves(challenge, hello, wrong));
  CHECK_FALSE(proves(*make_challenge(hello, Greeting::welcome, 78, &right), hello, right));  // not the process that was asked for
  CHECK_FALSE(proves(challenge, *make_hello(public_id(right), 77, 1), right));               // a challenge of another time
  Challenge bent = challenge;
  bent.greeting = Greeting::used_up;
  CHECK_FALSE(proves(bent, hello, right));
  const Proof proof = make_proof(challenge, hello, right);
  CHECK(proves(proof, challenge, hello, right));
  CHECK_FALSE(proves(make_proof(challenge, hello, wrong), challenge, hello, right));
  CHECK_FALSE(proves(Proof{challenge.proof}, challenge, hello, right));  // the server's own words sent back
}

TEST_CASE("messages between ranks and root survive packing; cut ones are noticed", "[boot]") {
  JoinMessage join;
  join.protocol = 1;
  join.version = 2;
  join.rank = 3;
  join.ranks = 4;
  join.ids = 5;
  join.ids_hash = 6;
  join.place = {7, 8, 9, "host", {ip("192.0.2.1:5"), ip("[2001:db8::1]:5")}};
  const Bytes packed = join.pack();
  bool ok = false;
  const JoinMessage back = JoinMessage::unpack(packed, &ok);
  CHECK(ok);
  CHECK(back.ids_hash == 6);
  CHECK(back.place.host_name == "host");
  CHECK(back.place.addresses == join.place.addresses);
  for (size_t size = 0; size < packed.size(); ++size) {
    JoinMessage::unpack(std::span(packed).first(size), &ok);
    CHECK_FALSE(ok);
  }
  Reply reply;
  reply.kind = Reply::Kind::hand_out;
  reply.token = {1, 2};
  reply.neighbours = {{3, join.place}};
  const Bytes sent = reply.pack();
  CHECK(Reply::unpack(sent).neighbours.at(0).second.addresses == join.place.addresses);
  CHECK(Reply::unpack(std::span(sent).first(sent.size() - 1)).error.code == Code::internal_error);
}
