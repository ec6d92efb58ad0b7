// What is asked for and cannot be had: one warning and the next best, or an error under RONDE_STRICT=1.
#include "support/catch.h"
#include "support/tune.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Variables = std::map<std::string, std::string>;

Result<Choice> chosen(Coll coll, const Variables& variables, size_t count = 1000, DataType type = DataType::float32,
                      ReduceOp op = ReduceOp::sum) {
  return choose({{coll, 4, 0}, count, type, op}, rules_of(variables), inputs_of(4));
}

/// The log of this call, whose variables no other test may have (log_once remembers texts), with the number of its lines.
struct Said {
  std::string text;
  size_t lines;
};
Said said(Coll coll, const Variables& variables, DataType type = DataType::float32, ReduceOp op = ReduceOp::sum) {
  const CapturedLog log;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{1} << 20, size_t{1} << 28}) {
    REQUIRE(chosen(coll, variables, count, type, op).ok());
  }
  return {log.text(), log.lines()};
}

Variables with_strict(Variables variables) {
  variables["RONDE_STRICT"] = "1";
  return variables;
}

}  // namespace

TEST_CASE("an algorithm that does not exist for a collective: one warning whatever the sizes") {
  const Said log = said(Coll::all_gather, {{"NCCL_ALGO", "tree,NVLS"}});
  INFO(log.text);
  CHECK(log.lines == 1);
  CHECK(contains(log.text, "NCCL_ALGO=tree,NVLS for AllGather"));
  CHECK(contains(log.text, "used instead: the cheapest of ring, direct, hd"));
}

TEST_CASE("NCCL's algorithms for other hardware fall back on CPU ranks") {
  for (const char* name : {"NVLS", "nvlstree", "CollNetDirect", "COLLNETCHAIN", "pat"}) {
    const Said log = said(Coll::all_reduce, {{"RONDE_ALGO", name}});
    INFO(log.text);
    CHECK(log.lines == 1);
    CHECK(contains(log.text, std::string("RONDE_ALGO=") + name + " for AllReduce"));
    const Result<Choice> strict = chosen(Coll::all_reduce, with_strict({{"RONDE_ALGO", name}}));
    REQUIRE_FALSE(strict.ok());
    CHECK(strict.error().code == Code::invalid_usage);
  }
}

TEST_CASE("each collective and each value has its own warning") {
  const CapturedLog log;
  for (const Coll coll : {Coll::all_gather, Coll::reduce_scatter}) {
    for (const char* value : {"oneshot", "chain"}) {
      for (int i = 0; i < 3; ++i) REQUIRE(chosen(coll, {{"NCCL_ALGO", value}}).ok());
    }
  }
  INFO(log.text());
  CHECK(log.lines() == 4);
}

TEST_CASE("what is inverted to nothing falls back too") {
  const Variables variables = {{"NCCL_ALGO", "alltoall:^direct"}};
  const Said log = said(Coll::all_to_all, variables);
  INFO(log.text);
  CHECK(log.lines == 1);
  CHECK(contains(log.text, "NCCL_ALGO=^direct for AlltoAll"));
  CHECK(contains(log.text, "used instead: direct"));
  CHECK_FALSE(chosen(Coll::all_to_all, with_strict(variables)).ok());
}

TEST_CASE("no warning where one of several exists") {
  const Variables variables = with_strict({{"NCCL_ALGO", "NVLS,tree,ring"}, {"NCCL_PROTO", "LL,Simple"}});
  const Said log = said(Coll::all_gather, variables);
  CHECK(log.text.empty());
  CHECK(chosen(Coll::all_gather, variables).value().algorithm->name == "ring");
}

TEST_CASE("under RONDE_STRICT=1 the error names what was asked, where, and what there is") {
  const Result<Choice> choice = chosen(Coll::all_gather, with_strict({{"NCCL_ALGO", "allgather:Tree"}}));
  REQUIRE_FALSE(choice.ok());
  INFO(choice.error().what);
  CHECK(choice.error().code == Code::invalid_usage);
  CHECK(choice.error().scope == Scope::operation);
  for (const char* part : {"NCCL_ALGO=Tree", "AllGather", "ring, direct, hd", "RONDE_STRICT=1"}) {
    CHECK(contains(choice.error().what, part));
  }
}

TEST_CASE("an entry without a name neither warns nor fails for collectives that NCCL's variable does not govern") {
  const Variables variables = with_strict({{"NCCL_ALGO", "ring"}, {"NCCL_PROTO", "^Simple"}});
  for (const Coll coll : {Coll::all_to_all, Coll::gather, Coll::scatter}) {
    const Said log = said(coll, variables);
    CHECK(log.text.empty());
    CHECK(chosen(coll, variables).value().algorithm->name == "direct");
  }
}

TEST_CASE("a protocol that CPU ranks do not have: one warning, or an error") {
  for (const char* value : {"LL", "ll128,LL", "^simple"}) {
    const Said log = said(Coll::all_reduce, {{"NCCL_PROTO", value}});
    INFO(log.text);
    CHECK(log.lines == 1);
    CHECK(contains(log.text, std::string("NCCL_PROTO=") + value + " for AllReduce"));
    CHECK(contains(log.text, "used instead: Simple"));
    const Result<Choice> strict = chosen(Coll::all_reduce, with_strict({{"NCCL_PROTO", value}}));
    REQUIRE_FALSE(strict.ok());
    CHECK(strict.error().code == Code::invalid_usage);
    CHECK(contains(strict.error().what, std::string("NCCL_PROTO=") + value));
    CHECK(chosen(Coll::all_reduce, {{"NCCL_PROTO", value}}).value().protocol == "Simple");
  }
  CHECK(said(Coll::broadcast, {{"NCCL_PROTO", "^LL128"}}).text.empty());
  CHECK(said(Coll::broadcast, {{"NCCL_PROTO", "allreduce:LL"}}).text.empty());
}

TEST_CASE("RONDE_DETERMINISTIC=1 admits only canonical algorithms for reductions") {
  const TuneRules rules = rules_of({{"RONDE_DETERMINISTIC", "1"}});
  for (const Coll coll : {Coll::all_reduce, Coll::reduce, Coll::reduce_scatter}) {
    for (const int ranks : {2, 3, 4, 64, 1000}) {
      for (size_t bytes = 8; bytes <= size_t{1} << 32; bytes *= 16) {
        const CallShape call{{coll, ranks, 0}, bytes / 4, DataType::float32, ReduceOp::sum};
        const Choice choice = choose(call, rules, inputs_of(ranks, 1, false)).value();
        CAPTURE(name_of(coll), ranks, bytes, choice.algorithm->name);
        REQUIRE(choice.algorithm->canonical(call.spec));
      }
    }
  }
  SECTION("and leaves the others free") {
    const CallShape call{{Coll::broadcast, 64, 0}, 2, DataType::float32, ReduceOp::sum};
    CHECK(choose(call, rules, inputs_of(64)).value().algorithm == choose(call, rules_of({}), inputs_of(64)).value().algorithm);
  }
}

TEST_CASE("a forced algorithm that is not canonical: one warning and another, or an error") {
  const Variables variables = {{"RONDE_DETERMINISTIC", "1"}, {"NCCL_ALGO", "Ring"}};
  const Said log = said(Coll::all_reduce, variables);
  INFO(log.text);
  CHECK(log.lines == 1);
  for (const char* part :
       {"NCCL_ALGO=Ring for AllReduce", "RONDE_DETERMINISTIC=1", "canonical", "the cheapest of direct, oneshot"}) {
    CHECK(contains(log.text, part));
  }
  const Result<Choice> strict = chosen(Coll::all_reduce, with_strict(variables));
  REQUIRE_FALSE(strict.ok());
  CHECK(strict.error().code == Code::invalid_usage);
  CHECK(contains(strict.error().what, "RONDE_DETERMINISTIC=1"));
  SECTION("no warning where one of several is") {
    const Variables two = with_strict({{"RONDE_DETERMINISTIC", "1"}, {"NCCL_ALGO", "ring,direct"}});
    CHECK(said(Coll::all_reduce, two).text.empty());
    CHECK(chosen(Coll::all_reduce, two).value().algorithm->name == "direct");
  }
}

TEST_CASE("averages of integers are canonical whatever is forced") {
  for (const DataType type :
       {DataType::int8, DataType::uint8, DataType::int32, DataType::uint32, DataType::int64, DataType::uint64}) {
    const Choice choice = chosen(Coll::reduce_scatter, {}, size_t{1} << 20, type, ReduceOp::avg).value();
    CHECK(choice.algorithm->canonical({Coll::reduce_scatter, 4, 0}));
    CHECK(chosen(Coll::all_reduce, {{"NCCL_ALGO", "oneshot"}}, 10, type, ReduceOp::avg).value().algorithm->name == "oneshot");
  }
  const Variables variables = {{"NCCL_ALGO", "ring,tree"}};
  const Said log = said(Coll::all_reduce, variables, DataType::int32, ReduceOp::avg);
  INFO(log.text);
  CHECK(log.lines == 1);
  CHECK(contains(log.text, "an average of integers"));
  CHECK_FALSE(chosen(Coll::all_reduce, with_strict(variables), 10, DataType::int32, ReduceOp::avg).ok());
  SECTION("floating point and other operations are free") {
    CHECK(said(Coll::all_reduce, with_strict(variables), DataType::bfloat16, ReduceOp::avg).text.empty());
    CHECK(said(Coll::all_reduce, with_strict(variables), DataType::int32, ReduceOp::sum).text.empty());
  }
}
