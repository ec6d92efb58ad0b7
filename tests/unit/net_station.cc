// Stations of ranks on two hosts over a network of two devices that fails on order.
#include <sys/eventfd.h>
#include <mutex>
#include <thread>

#include "base/fd.h"

#include "support/catch.h"
#include "support/local_bootstrap.h"
#include "transport/fault/fault.h"
#include "transport/net/station.h"
#include "unit/net_pairs.h"

using namespace ronde;
using namespace ronde::net;
using namespace ronde::test;

namespace {

/// The loopback interface as two devices.
class TwoDevices final : public Net {
 public:
  TwoDevices() {
    for (int i = 0; i < 2; ++i) {
      devices_.push_back(inner_->devices()[0]);
      devices_.back().name = "lo#" + std::to_string(i);
    }
  }
  std::string_view name() const override { return "Socket"; }
  std::span<const Device> devices() const override { return devices_; }
  Result<std::unique_ptr<Listener>> listen(int) override { return inner_->listen(0); }
  Result<std::unique_ptr<Sender>> connect(int, const Handle& handle) override { return inner_->connect(0, handle); }

 private:
  std::shared_ptr<Net> inner_ = loopback_net();
  std::vector<Device> devices_;
};

constexpr ArenaShape kShape{2, 2, 4, 1024};

/// One rank.
struct Host {
  int rank = 0;
  std::unique_ptr<LocalBootstrap> bootstrap;
  std::shared_ptr<Arena> arena, mirror;
  std::shared_ptr<Station> station;
  std::mutex mutex;  // guards errors
  std::vector<std::string> errors;

  void start(const std::shared_ptr<Meeting>& meeting, int own, std::shared_ptr<Net> net) {
    rank = own;
    bootstrap = std::make_unique<LocalBootstrap>(meeting, rank);
    arena = *Arena::create(kShape, false);
    mirror = *Arena::mirror(kShape, rank);
    StationParts parts;
    parts.bootstrap = bootstrap.get();
    parts.net = std::move(net);
    parts.arena = arena;
    parts.watch = std::make_shared<DeathWatch>(nullptr);
    parts.name = [](int peer) { return "rank " + std::to_string(peer); };
    parts.on_error = [this](int peer, const Error& error) {
      const std::lock_guard lock(mutex);
      errors.push_back(std::to_string(peer) + ": " + error.what);
    };
    station = std::make_shared<Station>(std::move(parts));
    station->attach(1 - rank, mirror);
    REQUIRE(station->start().ok());
  }
  std::string error() {
    station->report_lost();
    const std::lock_guard lock(mutex);
    return errors.empty() ? "" : errors.front();
  }
  /// A slot of 4 bytes for the other rank.
  void publish(int link, uint32_t value) {
    const auto fifo = mirror->make_fifo(rank, link);
    REQUIRE(fifo.ok());
    REQUIRE(station->open(1 - rank, link).ok());
    const uint64_t number = fifo->header->tail.load();
    Slot& slot = fifo->slot_of(number);
    slot.kind = SlotKind::bytes;
    slot.bytes = sizeof value;
    std::memcpy(fifo->data_of(number), &value, sizeof value);
    fifo->header->tail.store(number + 1);
  }
  void send(int link, uint32_t value) {
    publish(link, value);
    station->nudge(1 - rank);
    station->rest(false);
  }
  uint64_t came(int link) const {
    const FifoView fifo = arena->find_fifo(1 - rank, link);
    return fifo ? fifo.header->tail.load() : 0;
  }
  uint32_t value(int link, uint64_t number) const {
    uint32_t value = 0;
    std::memcpy(&value, arena->find_fifo(1 - rank, link).data_of(number), sizeof value);
    return value;
  }
  /// What it knows of the other.
  RankState state() const { return static_cast<RankState>(mirror->control().state.load()); }
};

struct TwoHosts {
  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::array<Host, 2> host;
  Host& a = host[0];
  Host& b = host[1];

  TwoHosts() {
    const auto meeting = make_meeting(2);
    const auto net = with_faults(std::make_shared<TwoDevices>(), plan);
    for (int rank = 0; rank < 2; ++rank) host[static_cast<size_t>(rank)].start(meeting, rank, net);
  }
  ~TwoHosts() {
    for (Host& one : host) {
      one.station->cut();  // without waiting for what cannot go any more
      one.station->close();
    }
  }
  void leave(Host& one, RankState how = RankState::closed) {
    one.arena->control().state.store(static_cast<uint32_t>(how));
    one.station->nudge(1 - one.rank);
    one.station->close();
  }
};

Fault broken(FaultAt at, uint64_t times, uint64_t after = 0) { return {.at = at, .after = after, .times = times}; }

}  // namespace

TEST_CASE("a connection that one pair of devices refuses is made by another", "[net]") {
  TwoHosts hosts;
  const FaultAt at = GENERATE(FaultAt::listen, FaultAt::connect, FaultAt::ready);
  const uint64_t times = GENERATE(1, 3);  // of four pairs
  CAPTURE(static_cast<int>(at), times);
  hosts.plan->order(broken(at, times));
  for (uint32_t i = 0; i < 3; ++i) hosts.a.send(0, 100 + i);
  REQUIRE(until([&] { return hosts.b.came(0) == 3; }));
  for (uint32_t i = 0; i < 3; ++i) CHECK(hosts.b.value(0, i) == 100 + i);
  CHECK(hosts.plan->struck() == times);
  CHECK(hosts.a.error().empty());
  CHECK(hosts.b.error().empty());
}

TEST_CASE("a connection that all pairs of devices refuse is reported, with the peer's reason", "[net]") {
  TwoHosts hosts;
  const FaultAt at = GENERATE(FaultAt::listen, FaultAt::connect);
  hosts.plan->order(broken(at, 100));
  hosts.a.send(0, 1);
  REQUIRE(until([&] { return !hosts.a.error().empty(); }));
  CHECK(contains(hosts.a.error(), at == FaultAt::listen ? "1: rank 1 does not listen: listening, as ordered by a test" : "1: connecting, as ordered by a test"));
  CHECK(hosts.plan->struck() == 4);
  CHECK(hosts.b.came(0) == 0);
}

TEST_CASE("a reader that cannot take a connection tells the writer, which believes it up", "[net]") {
  TwoHosts hosts;
  hosts.plan->order(broken(FaultAt::accept, 1));
  hosts.a.send(0, 1);
  REQUIRE(until([&] { return !hosts.a.error().empty(); }));
  CHECK(contains(hosts.a.error(), "1: rank 1 does not listen: accepting, as ordered by a test"));
  CHECK(hosts.plan->seen(FaultAt::connect) == 1);  // what was sent may be lost
}

TEST_CASE("a reader's end that broke is forgotten when its writer asks anew", "[net]") {
  const int again = GENERATE(0, 1, 2);  // of two links
  TwoHosts hosts;
  hosts.plan->order(broken(FaultAt::received, 2));
  for (const int link : {0, 1}) hosts.a.send(link, 1);
  REQUIRE(until([&] { return hosts.plan->struck() == 2; }));
  const auto passes = [&](uint64_t milliseconds) {
    const uint64_t later = now_ns() + milliseconds * kMillisecond;
    until([&] { return !hosts.b.error().empty() || now_ns() > later; });
  };
  passes(50);  // as a rule both ends are known to be lost by then; if not, the writer is only quicker
  for (int link = 0; link < again; ++link) REQUIRE(hosts.a.bootstrap->post(1, pack(OpenNews{link, 1, 0})).ok());
  passes(2500);  // two seconds are left to a better reason
  CHECK(hosts.b.error().empty() == (again == 2));
}

TEST_CASE("a connection that was up and breaks is not made again, and both ends hear of it", "[net]") {
  TwoHosts hosts;
  hosts.a.send(0, 1);
  REQUIRE(until([&] { return hosts.b.came(0) == 1; }));
  hosts.plan->order(broken(FaultAt::send, 1));
  hosts.a.send(0, 2);
  REQUIRE(until([&] { return !hosts.a.error().empty() && !hosts.b.error().empty(); }));
  CHECK(contains(hosts.a.error(), "1: sending, as ordered by a test"));
  CHECK(contains(hosts.b.error(), "0: receiving between"));
  CHECK(hosts.b.came(0) == 1);
  CHECK(hosts.plan->seen(FaultAt::connect) == 1);
}

TEST_CASE("that a rank has left counts once all has come that it had sent", "[net]") {
  TwoHosts hosts;
  hosts.a.send(1, 1);
  REQUIRE(until([&] { return hosts.b.came(1) == 1; }));
  hosts.plan->order({.at = FaultAt::received, .kind = FaultKind::delay, .delay_ns = 200 * kMillisecond});
  hosts.a.send(1, 2);
  hosts.leave(hosts.a);
  bool too_early = hosts.b.state() == RankState::closed && hosts.b.came(1) != 2;
  REQUIRE(until([&] {
    const bool left = hosts.b.state() == RankState::closed;
    too_early |= left && hosts.b.came(1) != 2;
    hosts.b.station->refresh({});
    return left;
  }));
  CHECK_FALSE(too_early);
  CHECK(hosts.b.value(1, 1) == 2);
}

TEST_CASE("a rank that leaves with something undelivered says so to who waits for it", "[net]") {
  TwoHosts hosts;
  hosts.plan->order(broken(FaultAt::connect, 100));
  hosts.a.send(0, 1);
  REQUIRE(until([&] { return hosts.plan->struck() == 4; }));
  hosts.leave(hosts.a);
  const ControlBlock& own = hosts.b.arena->control();
  REQUIRE(own.mail.load() == 2);
  CHECK(contains(own.mail_text, "rank 0 has left before all that it had sent to rank 1 could be delivered: connecting, as ordered by a test"));
}

TEST_CASE("nothing is owed to a rank that has left", "[net]") {
  TwoHosts hosts;
  hosts.plan->order(broken(FaultAt::connect, 100));
  hosts.b.arena->control().state.store(static_cast<uint32_t>(GENERATE(RankState::aborted, RankState::finalized, RankState::closed)));
  hosts.b.station->nudge(0);
  hosts.a.send(0, 1);
  hosts.leave(hosts.a);
  CHECK(hosts.b.arena->control().mail.load() == 0);
}

TEST_CASE("an answer from before a rank left does not bring it back", "[net]") {
  TwoHosts hosts;
  ControlNews news;
  const auto tell = [&](RankState state) {
    news.state = static_cast<uint32_t>(state);
    REQUIRE(hosts.a.bootstrap->post(1, pack(news)).ok());
    return hosts.b.state();
  };
  CHECK(tell(RankState::alive) == RankState::alive);
  const RankState gone = GENERATE(RankState::closed, RankState::aborted, RankState::revoked);
  CHECK(tell(gone) == gone);
  CHECK(tell(RankState::alive) == gone);
  CHECK(tell(RankState::closed) == RankState::closed);
}

TEST_CASE("news that no station sends hurt none", "[net]") {
  TwoHosts hosts;
  const auto tell = [&](const News& news) { REQUIRE(hosts.a.bootstrap->post(1, pack(news)).ok()); };
  ControlNews leaves;
  leaves.state = static_cast<uint32_t>(RankState::closed);
  leaves.sent = {{-1, 5}, {2, 5}, {1 << 30, 5}};
  for (const int link : {-1, 2, 1 << 30}) {
    tell(OpenNews{link, 0, 0});
    tell(ListeningNews{link, 0, 1, {}});
    tell(RefusedNews{link, 0, -3, "no"});
  }
  tell(OpenNews{0, 0, -7});
  REQUIRE(hosts.a.bootstrap->post(1, pattern(500, 3)).ok());
  REQUIRE(hosts.a.bootstrap->post(1, {}).ok());
  hosts.a.send(0, 7);
  REQUIRE(until([&] { return hosts.b.came(0) == 1; }));
  tell(leaves);
  CHECK(hosts.b.state() == RankState::closed);
}

namespace {

/// Keeps one thread inside for a while.
struct Gate final : Flow {
  std::atomic<std::thread::id> whom{};
  std::atomic<bool> inside{false}, leave{false};
  std::atomic<int> arms{0};
  UniqueFd event{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};

  Result<bool> pump() override {
    if (std::this_thread::get_id() != whom) return false;
    inside = true;
    while (!leave) std::this_thread::yield();
    whom = std::thread::id();
    return false;
  }
  bool unfinished() const override { return false; }
  bool settled() const override { return true; }
  std::vector<int> descriptors() const override { return {event.get()}; }
  void signalled() override {}
  Result<bool> arm() override {
    ++arms;
    return true;
  }
  void broken(Error) override {}
};

}  // namespace

TEST_CASE("what a helper left aside, since another was at it, goes out when it rests", "[net]") {
  TwoHosts hosts;
  hosts.a.send(0, 0);
  REQUIRE(until([&] { return hosts.b.came(0) == 1; }));
  const auto proxy = *Proxy::of("Socket:lo#1", "");  // of rank 0 to rank 1, link 0
  const auto gate = std::make_shared<Gate>();
  proxy->add(gate);
  for (uint32_t round = 1; round <= 20; ++round) {
    hosts.b.arena->find_fifo(0, 0).header->head.store(round);
    const int arms = gate->arms;
    proxy->take_over();
    REQUIRE(until([&] { return gate->arms > arms + 1 || (proxy->take_over(), false); }));  // it has nothing to do
    gate->inside = gate->leave = false;
    std::thread first([&] {
      gate->whom = std::this_thread::get_id();
      until([&] { return proxy->help() != Proxy::Help::busy; });
    });
    REQUIRE(until([&] { return gate->inside.load(); }));
    hosts.a.publish(0, round);
    hosts.a.station->nudge(1);
    CHECK_FALSE(hosts.a.station->help());
    gate->leave = true;
    first.join();
    hosts.a.station->rest(false);
    REQUIRE(until([&] { return hosts.b.came(0) == round + 1; }));
  }
  proxy->remove(gate);
}

TEST_CASE("a station knows when nothing is under way any more", "[net]") {
  TwoHosts hosts;
  const auto settled_after_question = [](Host& host) {
    const int other[] = {1 - host.rank};
    return host.station->settled(other, host.station->ask(other));
  };
  const auto taken_back = [&] { return hosts.a.mirror->find_fifo(0, 0).header->head.load(); };
  const int a[] = {0};
  CHECK(settled_after_question(hosts.b));
  CHECK_FALSE(hosts.b.station->settled(a, hosts.b.station->ask({}) + 1));  // no answer yet
  CHECK(hosts.b.station->settled({}, 1000));
  hosts.plan->order({.at = FaultAt::received, .kind = FaultKind::delay, .delay_ns = 200 * kMillisecond});
  hosts.a.send(0, 1);
  const uint64_t question = hosts.b.station->ask(a);
  const bool early = hosts.b.station->settled(a, question) || settled_after_question(hosts.a);
  const bool came_early = hosts.b.came(0) != 0;
  CHECK((came_early || !early));
  REQUIRE(until([&] { return hosts.b.came(0) == 1; }));
  CHECK(hosts.b.station->settled(a, question));
  CHECK(until([&] { return settled_after_question(hosts.a); }));

  // What has no room at the reader is not under way, until there is.
  for (uint32_t i = 1; i < 6; ++i) {
    hosts.a.send(0, 1 + i);
    REQUIRE(until([&] { return taken_back() == i + 1; }));
  }
  REQUIRE(until([&] { return hosts.b.came(0) == 4; }));
  CHECK(settled_after_question(hosts.a));
  CHECK(settled_after_question(hosts.b));
  hosts.plan->order({.at = FaultAt::received, .kind = FaultKind::delay, .delay_ns = 200 * kMillisecond});
  hosts.b.arena->find_fifo(0, 0).header->head.store(1);
  const bool still = settled_after_question(hosts.a) || settled_after_question(hosts.b);
  CHECK((hosts.b.came(0) != 4 || !still));
  hosts.b.station->rest(true);
  REQUIRE(until([&] { return hosts.b.came(0) == 5; }));
  CHECK(settled_after_question(hosts.b));
}

TEST_CASE("a question passes a probe on, once, and brings its answer", "[net]") {
  TwoHosts hosts;
  const int a[] = {0};
  ControlBlock &mirror = hosts.b.mirror->control(), &own = hosts.a.arena->control();
  own.probe = own.probe_answer = 7;  // of ranks of its own host
  mirror.probe = 1;
  hosts.b.station->ask(a);
  hosts.b.station->ask(a);
  CHECK(own.probe == 8);
  CHECK(mirror.probe_answer == 0);
  own.epoch = 5;
  own.blocked = 1;
  own.probe_answer = 8;
  hosts.b.station->ask(a);
  CHECK(mirror.probe_answer == 1);
  CHECK((mirror.epoch == 5 && mirror.blocked == 1));
  mirror.probe = 2;
  hosts.b.station->ask(a);
  CHECK(own.probe == 9);
  CHECK(mirror.probe_answer == 0);
}
