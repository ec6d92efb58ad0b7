// The network that goes wrong on order: each fault strikes where and when it was ordered, and nothing else changes.
#include "support/catch.h"
#include "transport/fault/fault.h"
#include "unit/net_pairs.h"

using namespace ronde;
using namespace ronde::net;
using namespace ronde::test;

namespace {

/// A connection over a network with faults, and one message of each call.
struct Line {
  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::shared_ptr<Net> net = with_faults(loopback_net(), plan);
  Pair pair = connect_pair(*net);
  std::vector<std::byte> sent = pattern(100, 1);
  std::vector<std::byte> room = std::vector<std::byte>(100);

  void send() { REQUIRE(*pair.sender->post(std::span(sent).first(10), std::span(sent).subspan(10))); }
  /// What comes: its bytes, or an error's text.
  std::string come() {
    size_t bytes = 0;
    const std::string text = receive(pair, &bytes);
    return text.empty() ? std::to_string(bytes) : text;
  }
  std::string pass() {
    REQUIRE(*pair.receiver->post(room));
    send();
    return come();
  }
};

Fault fault(FaultAt at, FaultKind kind, uint64_t after = 0) { return {.at = at, .kind = kind, .after = after}; }

}  // namespace

TEST_CASE("without orders nothing changes, and messages are counted", "[net]") {
  Line line;
  for (int i = 0; i < 20; ++i) CHECK(line.pass() == "100");
  CHECK(line.room == line.sent);
  REQUIRE(until([&] { return !*line.pair.sender->done(); }));
  CHECK(line.plan->seen(FaultAt::send) == 20);
  CHECK(line.plan->seen(FaultAt::sent) == 20);
  CHECK(line.plan->seen(FaultAt::room) == 20);
  CHECK(line.plan->seen(FaultAt::received) == 20);
  CHECK(line.plan->seen(FaultAt::ready) == 2);
  CHECK(line.plan->struck() == 0);
}

TEST_CASE("errors strike after the ordered number of messages, and stay", "[net]") {
  Line line;
  SECTION("sending") {
    line.plan->order({.at = FaultAt::send, .after = 2, .errno_value = EHOSTUNREACH});
    CHECK(line.pass() == "100");
    CHECK(line.pass() == "100");
    const auto third = line.pair.sender->post(line.sent, {});
    REQUIRE_FALSE(third.ok());
    CHECK(contains(third.error().what, "sending, as ordered by a test: No route to host"));
    CHECK(line.pair.sender->post(line.sent, {}).code() == Code::system_error);
    CHECK(line.pair.sender->done().code() == Code::system_error);
  }
  SECTION("completions") {
    line.plan->order(fault(FaultAt::sent, FaultKind::error, 1));
    CHECK(line.pass() == "100");
    CHECK(contains(line.pass(), "sending, as ordered by a test: Connection reset by peer"));
  }
  SECTION("receiving") {
    line.plan->order(fault(FaultAt::received, FaultKind::error, 1));
    CHECK(line.pass() == "100");
    CHECK(contains(line.pass(), "receiving, as ordered by a test"));
    CHECK(line.pair.receiver->post(line.room).code() == Code::system_error);
  }
  CHECK(line.plan->struck() == 1);
}

TEST_CASE("a connection that is cut ends for the other side too", "[net]") {
  Line line;
  line.plan->order(fault(FaultAt::send, FaultKind::cut));
  REQUIRE(*line.pair.receiver->post(line.room));
  CHECK_FALSE(line.pair.sender->post(line.sent, {}).ok());
  CHECK(line.pair.sender->descriptors().empty());
  line.pair.sender.reset();
  CHECK(contains(line.come(), "the peer has closed the connection"));
}

TEST_CASE("a dropped message is said to have been sent", "[net]") {
  Line line;
  line.plan->order(fault(FaultAt::send, FaultKind::drop, 1));
  const auto lost = pattern(77, 2);
  const auto other = pattern(50, 9);
  line.send();
  REQUIRE(*line.pair.sender->post(lost, {}));
  REQUIRE(*line.pair.sender->post(other, {}));
  int done = 0;
  REQUIRE(until([&] {
    line.pair.signal();
    return *line.pair.sender->done() && ++done == 3;
  }));
  REQUIRE(*line.pair.receiver->post(line.room));
  CHECK(line.come() == "100");
  REQUIRE(*line.pair.receiver->post(line.room));
  CHECK(line.come() == "50");
}

TEST_CASE("messages come short on order", "[net]") {
  Line line;
  Fault less = fault(GENERATE(FaultAt::send, FaultAt::received), FaultKind::shorten, 1);
  less.bytes = GENERATE(0, 4, 60);
  line.plan->order(less);
  CHECK(line.pass() == "100");
  CHECK(line.pass() == std::to_string(less.bytes));
  CHECK(line.pass() == "100");
}

TEST_CASE("delays hold up what comes behind, and the caller is told to ask", "[net]") {
  Line line;
  const FaultAt at = GENERATE(FaultAt::sent, FaultAt::received);
  line.plan->order({.at = at, .kind = FaultKind::delay, .delay_ns = 50 * kMillisecond});
  REQUIRE(*line.pair.receiver->post(line.room));
  line.send();
  const uint64_t begin = now_ns();
  bool asked = false;
  REQUIRE(until([&] {
    line.pair.signal();
    const bool over = at == FaultAt::sent ? *line.pair.sender->done() : line.pair.receiver->done()->has_value();
    asked |= line.plan->struck() == 1 && !over && !*(at == FaultAt::sent ? line.pair.sender->arm() : line.pair.receiver->arm());
    return over;
  }));
  CHECK(now_ns() - begin >= 50 * kMillisecond);
  CHECK(asked);
}

TEST_CASE("what stalls says nothing", "[net]") {
  Line line;
  line.plan->order(fault(FaultAt::received, FaultKind::stall, 1));
  CHECK(line.pass() == "100");
  REQUIRE(*line.pair.receiver->post(line.room));
  line.send();
  REQUIRE(until([&] {
    line.pair.signal();
    CHECK_FALSE(line.pair.receiver->done()->has_value());
    return line.plan->struck() == 1;
  }));
  CHECK(*line.pair.receiver->arm());
}

TEST_CASE("a connection goes wrong while it is made", "[net]") {
  const auto plan = std::make_shared<FaultPlan>();
  const auto net = with_faults(loopback_net(), plan);
  SECTION("listen") {
    plan->order(fault(FaultAt::listen, FaultKind::error, 1));
    CHECK(net->listen(0).ok());
    CHECK(net->listen(0).code() == Code::system_error);
    CHECK(net->listen(0).ok());
  }
  SECTION("connect") {
    plan->order(fault(FaultAt::connect, FaultKind::error));
    CHECK_FALSE(net->connect(0, (*net->listen(0))->handle()).ok());
  }
  SECTION("ready") {
    plan->order(fault(FaultAt::ready, FaultKind::error));
    const auto listener = *net->listen(0);
    CHECK_FALSE((*net->connect(0, listener->handle()))->ready().ok());
  }
  SECTION("accept") {
    plan->order(fault(FaultAt::accept, FaultKind::error));
    const auto listener = *net->listen(0);
    const auto sender = *net->connect(0, listener->handle());
    CHECK(until([&] {
      REQUIRE(sender->ready().ok());
      return !listener->accept().ok();
    }));
  }
  SECTION("a moment") {
    plan->order({.at = FaultAt::ready, .kind = FaultKind::delay, .times = 2, .delay_ns = 20 * kMillisecond});
    const uint64_t begin = now_ns();
    connect_pair(*net);
    CHECK(now_ns() - begin >= 20 * kMillisecond);
  }
}
