// The choice: valid for every call, fast, and the one that the model finds cheapest.
#include <ctime>
#include <numeric>

#include "support/catch.h"
#include "support/tune.h"
#include "tune/model.h"

using namespace ronde;
using namespace ronde::test;

namespace {

constexpr Coll kAll[] = {Coll::all_reduce,     Coll::broadcast,  Coll::reduce, Coll::all_gather,
                         Coll::reduce_scatter, Coll::all_to_all, Coll::gather, Coll::scatter};

CallShape call_of(Coll coll, int ranks, size_t bytes, DataType type = DataType::float32, ReduceOp op = ReduceOp::sum) {
  return {{coll, ranks, has_root(coll) ? ranks - 1 : 0}, bytes / size_of(type), type, op};
}

/// The name of what is chosen where nothing is forced.
std::string pick(Coll coll, size_t bytes, const TuneInputs& inputs, const std::map<std::string, std::string>& variables = {}) {
  return std::string(choose(call_of(coll, inputs.ranks, bytes), rules_of(variables), inputs).value().algorithm->name);
}

/// Everything that a Choice promises.
void require_valid(const CallShape& call, const TuneRules& rules, const TuneInputs& inputs, const Choice& choice) {
  REQUIRE(choice.algorithm != nullptr);
  REQUIRE(choice.algorithm->supports(call.spec));
  REQUIRE(choice.protocol == "Simple");
  REQUIRE_FALSE(choice.reason.empty());
  REQUIRE(choice.channels >= 1);
  REQUIRE(choice.channels <= rules.max_channels());
  const size_t bytes = call.count * size_of(call.type);
  REQUIRE(static_cast<size_t>(choice.channels) <= std::max<size_t>(1, (bytes + 63) / 64));
  REQUIRE(choice.slice > 0);
  REQUIRE(choice.slice % 64 == 0);
  REQUIRE(choice.slice <= inputs.slot_capacity);
  const Footprint shape = footprint(choice.algorithm->name, call.spec);
  const size_t block = largest_block(call.spec.coll, bytes, choice.channels, shape.blocks);
  if (!choice.merged) return;
  REQUIRE(shape.widest > 1);
  REQUIRE((!counts_per_rank(call.spec.coll) || choice.channels == 1));
  REQUIRE(block <= choice.slice);
  REQUIRE(block * shape.widest <= inputs.slot_capacity);
}

}  // namespace

TEST_CASE("every call gets a valid choice, quickly, and the same one again") {
  const TuneRules rules = rules_of({});
  std::vector<std::pair<CallShape, TuneInputs>> calls;
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 24, 63, 64, 65, 128, 500, 1023, 1024}) {
    for (const Coll coll : kAll) {
      for (size_t bytes = 0; bytes <= size_t{8} << 30; bytes = bytes == 0 ? 4 : bytes * 4) {
        for (const int load : {1, 4, 512})
          calls.emplace_back(call_of(coll, ranks, bytes), inputs_of(ranks, load, bytes % 5 != 0));
      }
    }
  }
  std::vector<Choice> choices;
  choices.reserve(calls.size());
  const clock_t start = std::clock();  // of this process: what else the machine does is no matter
  for (const auto& [call, inputs] : calls) choices.push_back(choose(call, rules, inputs).value());
  const double micros = 1e6 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC / static_cast<double>(calls.size());
  CHECK(micros < 60);  // about 1 in a release build; the room is for sanitizers
  for (size_t i = 0; i < calls.size(); ++i) {
    const auto& [call, inputs] = calls[i];
    CAPTURE(name_of(call.spec.coll), call.spec.ranks, call.count, inputs.ranks_per_core, inputs.lends);
    require_valid(call, rules, inputs, choices[i]);
    const Choice again = choose(call, rules, inputs).value();
    REQUIRE(again.algorithm == choices[i].algorithm);
    REQUIRE(again.channels == choices[i].channels);
    REQUIRE(again.slice == choices[i].slice);
    REQUIRE(again.merged == choices[i].merged);
    REQUIRE(again.nanos == choices[i].nanos);
    REQUIRE(again.reason == choices[i].reason);
  }
}

TEST_CASE("forced algorithms, slices and channels keep every promise") {
  size_t merged = 0;
  for (const Algorithm& algorithm : algorithms()) {
    for (const char* slice : {"0", "1", "100", "4096", "1G"}) {
      for (const char* channels : {"1", "3", "16"}) {
        const TuneRules rules = rules_of({{"RONDE_SLICE", slice}, {"NCCL_MIN_NCHANNELS", channels}, {"NCCL_MAX_NCHANNELS", "8"}});
        for (const Coll coll : kAll) {
          for (const size_t bytes : {size_t{0}, size_t{1}, size_t{130}, size_t{5000}, size_t{300000}, size_t{1} << 26}) {
            CallShape call = call_of(coll, 13, bytes, DataType::int8);
            if (!algorithm.supports(call.spec)) continue;
            const TuneRules forced = rules_of({{"NCCL_ALGO", std::string(name_of(coll)) + ":" + std::string(algorithm.name)},
                                               {"RONDE_SLICE", slice},
                                               {"NCCL_MIN_NCHANNELS", channels},
                                               {"NCCL_MAX_NCHANNELS", "8"}});
            TuneInputs inputs = inputs_of(13);
            inputs.slot_capacity = 10000;  // no multiple of 64
            CAPTURE(algorithm.name, slice, channels, name_of(coll), bytes);
            const Choice choice = choose(call, forced, inputs).value();
            REQUIRE(choice.algorithm == &algorithm);
            require_valid(call, rules, inputs, choice);
            merged += choice.merged ? 1 : 0;
          }
        }
      }
    }
  }
  CHECK(merged > 0);
}

TEST_CASE("the slice is the one that was set, on lines of 64 bytes and within a slot") {
  const auto slice = [](const char* set) {
    return choose(call_of(Coll::broadcast, 8, 1 << 24), rules_of({{"RONDE_SLICE", set}}), inputs_of(8)).value().slice;
  };
  CHECK(slice("1") == 64);
  CHECK(slice("64") == 64);
  CHECK(slice("65") == 128);
  CHECK(slice("4096") == 4096);
  CHECK(slice("1M") == 65536);
}

TEST_CASE("a pipeline gets several slices, everything else a whole slot") {
  const TuneInputs inputs = inputs_of(8, 1, false);
  for (const char* algorithm : {"ring", "tree", "chain"}) {
    const Choice choice = choose(call_of(Coll::broadcast, 8, 120000), rules_of({{"NCCL_ALGO", algorithm}}), inputs).value();
    CAPTURE(algorithm, choice.slice);
    CHECK(choice.slice * 4 <= 65536);
    CHECK(choice.slice >= 4096);
  }
  CHECK(choose(call_of(Coll::all_reduce, 8, 1 << 24), rules_of({{"NCCL_ALGO", "ring"}}), inputs).value().slice == 65536);
  CHECK(choose(call_of(Coll::all_reduce, 8, 1 << 24), rules_of({{"NCCL_ALGO", "direct"}}), inputs).value().slice == 65536);
}

TEST_CASE("hd merges blocks exactly where they are adjacent and fit") {
  const auto merged = [](Coll coll, int ranks, size_t bytes, const std::map<std::string, std::string>& more = {}) {
    std::map<std::string, std::string> variables = more;
    variables["NCCL_ALGO"] = "hd";
    return choose(call_of(coll, ranks, bytes), rules_of(variables), inputs_of(ranks)).value().merged;
  };
  CHECK(merged(Coll::all_reduce, 8, 131072));  // half of it in one slot of 64 KiB
  CHECK_FALSE(merged(Coll::all_reduce, 8, 131072 + 512));
  CHECK(merged(Coll::all_reduce, 9, 65536));  // the folded rank sends all of it
  CHECK_FALSE(merged(Coll::all_reduce, 9, 65536 + 512));
  CHECK_FALSE(merged(Coll::all_reduce, 2, 64));  // no Move has more than one block
  CHECK(merged(Coll::all_gather, 8, 16384));
  CHECK_FALSE(merged(Coll::all_gather, 8, 16384 + 64));
  CHECK(merged(Coll::all_reduce, 8, 131072, {{"NCCL_MIN_NCHANNELS", "2"}}));
  CHECK_FALSE(merged(Coll::all_gather, 8, 1024, {{"NCCL_MIN_NCHANNELS", "2"}}));
  CHECK_FALSE(merged(Coll::all_reduce, 8, 8192, {{"RONDE_SLICE", "512"}}));
  CHECK(merged(Coll::all_reduce, 8, 4096, {{"RONDE_SLICE", "512"}}));
}

TEST_CASE("channels: one, unless more are asked for and there is data for them") {
  const auto channels = [](size_t bytes, const char* least, const char* most) {
    return choose(call_of(Coll::all_reduce, 4, bytes), rules_of({{"NCCL_MIN_NCHANNELS", least}, {"NCCL_MAX_NCHANNELS", most}}),
                  inputs_of(4))
        .value()
        .channels;
  };
  CHECK(channels(1 << 20, "1", "16") == 1);
  CHECK(channels(1 << 20, "4", "16") == 4);
  CHECK(channels(1 << 20, "8", "3") == 3);
  CHECK(channels(0, "4", "16") == 1);
  CHECK(channels(64, "4", "16") == 1);
  CHECK(channels(128, "4", "16") == 2);
  CHECK(channels(132, "4", "16") == 3);
}

TEST_CASE("the model picks what is known to be best") {
  for (const int ranks : {4, 8}) {
    CAPTURE(ranks);
    for (const int load : {1, 2}) CHECK(pick(Coll::all_reduce, 8, inputs_of(ranks, load)) == "oneshot");
    CHECK(pick(Coll::all_reduce, 32768, inputs_of(ranks)) == "hd");
    for (const size_t bytes : {size_t{1} << 22, size_t{1} << 26, size_t{1} << 32}) {
      for (const int load : {1, 2}) {
        CHECK(pick(Coll::all_reduce, bytes, inputs_of(ranks, load)) == "direct");
        CHECK(pick(Coll::all_gather, bytes, inputs_of(ranks, load)) == "direct");
        CHECK(pick(Coll::reduce_scatter, bytes, inputs_of(ranks, load)) == "direct");
      }
      CHECK(pick(Coll::all_reduce, bytes, inputs_of(ranks, 1, false)) == "ring");
      CHECK(pick(Coll::reduce_scatter, bytes, inputs_of(ranks, 1, false)) == "ring");
    }
    CHECK(pick(Coll::broadcast, 8, inputs_of(ranks)) == "direct");
    CHECK(pick(Coll::reduce, 8, inputs_of(ranks)) == "direct");
  }
  CHECK(pick(Coll::all_reduce, 8, inputs_of(64)) == "hd");
  CHECK(pick(Coll::broadcast, 8, inputs_of(64)) == "tree");
  CHECK(pick(Coll::broadcast, 1 << 28, inputs_of(64, 1, false)) == "tree");
  CHECK(pick(Coll::all_gather, 8, inputs_of(64)) == "hd");
  for (const Coll coll : {Coll::all_to_all, Coll::gather, Coll::scatter}) CHECK(pick(coll, 1 << 20, inputs_of(8)) == "direct");
}

TEST_CASE("the reason says what decided") {
  const auto reason = [](const std::map<std::string, std::string>& variables, ReduceOp op = ReduceOp::sum) {
    return choose(call_of(Coll::all_reduce, 4, 4096, DataType::int32, op), rules_of(variables), inputs_of(4)).value().reason;
  };
  CHECK(contains(reason({}), "5 algorithms, "));
  CHECK(contains(reason({}), " us, next "));
  CHECK(contains(reason({{"NCCL_ALGO", "Tree"}}), "NCCL_ALGO=Tree admits tree alone"));
  CHECK(contains(reason({{"RONDE_ALGO", "tree,ring"}}), "RONDE_ALGO=tree,ring admits 2 algorithms"));
  CHECK(contains(reason({{"RONDE_DETERMINISTIC", "1"}}), "RONDE_DETERMINISTIC=1 needs canonical order"));
  CHECK(contains(reason({}, ReduceOp::avg), "an average of integers needs canonical order"));
}

TEST_CASE("messages have no algorithm") {
  for (const Coll coll : {Coll::send, Coll::recv}) {
    const Result<Choice> choice = choose({{coll, 2, 0}, 1, DataType::int8, ReduceOp::sum}, rules_of({}), inputs_of(2));
    REQUIRE_FALSE(choice.ok());
    CHECK(choice.error().code == Code::invalid_usage);
    CHECK(contains(choice.error().what, std::string(name_of(coll))));
  }
}

TEST_CASE("a count that overflows still gets a choice") {
  const TuneInputs inputs = inputs_of(1024, 512, false);
  for (const Coll coll : kAll) {
    const CallShape call{{coll, 1024, 0}, SIZE_MAX, DataType::float64, ReduceOp::sum};
    const Choice choice = choose(call, rules_of({}), inputs).value();
    CHECK(choice.algorithm->supports(call.spec));
    CHECK_FALSE(choice.merged);
    CHECK(choice.nanos > uint64_t{1} << 50);
  }
}
