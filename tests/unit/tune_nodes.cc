// The choice for ranks on several nodes.
#include "support/catch.h"
#include "support/tune.h"

using namespace ronde;
using namespace ronde::test;

namespace {

Choice choose_for(const NodeShape& nodes, const std::map<std::string, std::string>& variables, size_t count = 1 << 20) {
  TuneInputs inputs = inputs_of(16);
  inputs.nodes = nodes;
  return choose({{Coll::all_reduce, 16, 0}, count, DataType::float32, ReduceOp::sum}, rules_of(variables), inputs).value();
}

}  // namespace

TEST_CASE("what is made for several nodes is considered on several, and on one only where it is named", "[nodes]") {
  const NodeShape two{2, 8, 8}, unlike{3, 4, 6}, one;
  CHECK(contains(choose_for(one, {}).reason, "5 algorithms"));
  CHECK(contains(choose_for(two, {}).reason, "6 algorithms"));
  CHECK(contains(choose_for(unlike, {}).reason, "6 algorithms"));
  CHECK(contains(choose_for(one, {{"NCCL_ALGO", "^ring"}}).reason, "4 algorithms"));
  CHECK(contains(choose_for(two, {{"NCCL_ALGO", "^ring"}}).reason, "5 algorithms"));
  for (const NodeShape& nodes : {one, two, unlike}) {
    CHECK(choose_for(nodes, {{"NCCL_ALGO", "hier"}}).algorithm->name == "hier");
    CHECK(contains(choose_for(nodes, {{"NCCL_ALGO", "Hier,ring"}}).reason, "admits 2 algorithms"));
  }
}

TEST_CASE("a fold over nodes is never taken where the order must be canonical", "[nodes]") {
  for (const char* algorithms : {"hier", "hier,tree", "^direct"}) {
    const Choice choice = choose_for({2, 8, 8}, {{"NCCL_ALGO", algorithms}, {"RONDE_DETERMINISTIC", "1"}});
    CHECK(choice.algorithm->canonical({Coll::all_reduce, 16, 0}));
  }
}

namespace {

/// Ranks that are 8 GPUs a node with NVLink, and 8 ports of 400 Gbit/s on each of several nodes.
TuneInputs gpus_on(int nodes) {
  TuneInputs inputs = inputs_of(8 * nodes);
  if (nodes > 1) inputs.nodes = {nodes, 8, 8};
  inputs.links = {.inside = 370'000, .network = nodes > 1 ? 8 * 50'000 : 0, .channels = 16};
  inputs.slots = 8;
  inputs.slot_capacity = 512 << 10;
  return inputs;
}

Choice choose_on(int nodes, Coll coll, size_t bytes, const std::map<std::string, std::string>& variables = {}) {
  const TuneInputs inputs = gpus_on(nodes);
  const bool whole = coll == Coll::all_reduce || coll == Coll::broadcast;
  const size_t count = bytes / 4 / (whole ? 1 : static_cast<size_t>(inputs.ranks));
  return choose({{coll, inputs.ranks, 0}, count, DataType::float32, ReduceOp::sum}, rules_of(variables), inputs).value();
}

uint64_t nanos_on(int nodes, const char* algorithm, Coll coll, size_t bytes) {
  return choose_on(nodes, coll, bytes, {{"NCCL_ALGO", algorithm}}).nanos;
}

}  // namespace

TEST_CASE("what crosses between nodes is charged: few hops for little data, few bytes for much", "[nodes][tune]") {
  for (const int nodes : {2, 4, 8, 16}) {
    CAPTURE(nodes);
    const Choice large = choose_on(nodes, Coll::all_reduce, size_t{4} << 30);
    CAPTURE(large.reason);
    CHECK((large.algorithm->name == "ring" || large.algorithm->name == "hier"));
    CHECK(large.channels == 16);
    for (const Coll coll : {Coll::all_gather, Coll::reduce_scatter}) {
      const Choice whole = choose_on(nodes, coll, size_t{4} << 30);
      CAPTURE(name_of(coll), whole.reason);
      CHECK((whole.algorithm->name == "ring" || whole.algorithm->name == "hier"));
    }
    // Each rank for itself sends over the network what a ring sends once for its node.
    for (const char* wasteful : {"direct", "oneshot"}) {
      CAPTURE(wasteful);
      CHECK(nanos_on(nodes, wasteful, Coll::all_reduce, size_t{4} << 30) > 3 * large.nanos / 2);
    }
  }
  for (const int nodes : {4, 8, 16}) {
    const Choice small = choose_on(nodes, Coll::all_reduce, 1 << 10);
    CAPTURE(nodes, small.reason);
    CHECK(small.algorithm->name != "ring");
    CHECK(nanos_on(nodes, "tree", Coll::all_reduce, 1 << 10) < nanos_on(nodes, "ring", Coll::all_reduce, 1 << 10) / 2);
  }
}

TEST_CASE("GPUs get as many channels as their rings, for little data fewer", "[nodes][tune]") {
  const auto channels = [](size_t bytes, const std::map<std::string, std::string>& variables = {}) { return choose_on(1, Coll::all_reduce, bytes, variables).channels; };
  CHECK(channels(8) == 1);
  CHECK(channels(31 << 10) == 1);
  CHECK(channels(64 << 10) == 4);
  CHECK(channels(1 << 20) == 16);
  CHECK(channels(16 << 10, {{"NCCL_MIN_NCHANNELS", "8"}}) == 8);
  CHECK(channels(1 << 20, {{"NCCL_MAX_NCHANNELS", "2"}}) == 2);
}

TEST_CASE("the model's rings over nodes are as fast as their ports", "[nodes][tune]") {
  for (const int nodes : {2, 16}) {
    const double n = 8 * nodes;
    const double seconds = static_cast<double>(nanos_on(nodes, "ring", Coll::all_reduce, size_t{8} << 30)) / 1e9;
    const double busbw = 8.0 * (1 << 30) / 1e9 / seconds * 2 * (n - 1) / n;
    CAPTURE(nodes, busbw);
    CHECK(busbw > 300);
    CHECK(busbw < 370);
  }
}

TEST_CASE("CPU ranks on several nodes pay for the network too", "[nodes][tune]") {
  TuneInputs inputs = inputs_of(16);
  inputs.nodes = {2, 8, 8};
  inputs.links.by_cpu = false;
  const CallShape call{{Coll::all_reduce, 16, 0}, 1 << 24, DataType::float32, ReduceOp::sum};
  const TuneRules direct = rules_of({{"NCCL_ALGO", "direct"}}), hier = rules_of({{"NCCL_ALGO", "hier"}});
  const uint64_t free_direct = choose(call, direct, inputs).value().nanos;
  inputs.links.network = 3'000;
  CHECK(choose(call, direct, inputs).value().nanos > free_direct);
  // 64 MiB: 15/16 of them leave each node twice over by direct's eight ranks each, once by hier's rails together.
  CHECK(choose(call, direct, inputs).value().nanos > 3 * choose(call, hier, inputs).value().nanos);
}

namespace {

/// CPU ranks of several processes over sockets, `shared` of them on a core.
TuneInputs sockets_between(int nodes, int each, int shared) {
  TuneInputs inputs = inputs_of(nodes * each, shared);
  inputs.nodes = {nodes, each, each};
  inputs.one_process = false;
  return inputs;
}

uint64_t nanos_over(const TuneInputs& inputs, const char* algorithm, size_t bytes) {
  const CallShape call{{Coll::all_reduce, inputs.ranks, 0}, bytes / 4, DataType::float32, ReduceOp::sum};
  return choose(call, rules_of({{"NCCL_ALGO", algorithm}}), inputs).value().nanos;
}

}  // namespace

TEST_CASE("cores that send and receive are part of the price, and no adapter's rate has to be known", "[nodes][tune]") {
  for (const int shared : {1, 2, 4}) {
    TuneInputs inputs = sockets_between(2, 4, shared);
    for (const char* algorithm : {"ring", "tree", "direct", "oneshot", "hd", "hier"}) {
      for (const size_t bytes : {size_t{64}, size_t{1} << 16, size_t{1} << 24}) {
        CAPTURE(shared, algorithm, bytes);
        inputs.links.by_cpu = true;
        const uint64_t by_cpu = nanos_over(inputs, algorithm, bytes);
        CHECK(by_cpu > nanos_over(inputs, algorithm, bytes / 64));
        if (bytes < 4096) continue;
        inputs.links.by_cpu = false;
        CHECK(by_cpu > nanos_over(inputs, algorithm, bytes));
      }
    }
  }
}

TEST_CASE("over sockets what crosses seldom is chosen for much data, and what waits seldom for little", "[nodes][tune]") {
  const auto chosen = [](const TuneInputs& inputs, size_t bytes) {
    const CallShape call{{Coll::all_reduce, inputs.ranks, 0}, bytes / 4, DataType::float32, ReduceOp::sum};
    return choose(call, rules_of({}), inputs).value().algorithm->name;
  };
  // As measured with as many processes and hosts on two cores.
  CHECK(chosen(sockets_between(2, 1, 1), 8) == "oneshot");
  for (const TuneInputs& inputs : {sockets_between(2, 2, 2), sockets_between(2, 4, 4), sockets_between(4, 2, 4)}) {
    CAPTURE(inputs.ranks, inputs.nodes.nodes);
    CHECK(chosen(inputs, 8) == "tree");
    CHECK(chosen(inputs, 64 << 20) == "tree");
    for (const char* wasteful : {"ring", "direct", "oneshot"}) {
      CHECK(nanos_over(inputs, wasteful, 64 << 20) > 5 * nanos_over(inputs, "tree", 64 << 20) / 4);
    }
  }
  // With a core for each rank all of them share the work of a hierarchy.
  CHECK(chosen(sockets_between(4, 8, 1), 64 << 20) == "hier");
}
