// NCCL_ALGO and NCCL_PROTO: every form of the syntax, every error.
#include "support/catch.h"
#include "support/tune.h"

using namespace ronde;
using namespace ronde::test;

namespace {

constexpr Coll kAll[] = {Coll::all_reduce,     Coll::broadcast,  Coll::reduce, Coll::all_gather,
                         Coll::reduce_scatter, Coll::all_to_all, Coll::gather, Coll::scatter};

/// The names among `names` that `value` of NCCL_ALGO admits for `coll`.
std::string admitted(const std::string& value, Coll coll) {
  const TuneRules rules = rules_of({{"NCCL_ALGO", value}});
  std::string text;
  for (const Algorithm& one : algorithms()) {
    if (rules.admits(coll, one.name)) text += text.empty() ? std::string(one.name) : "," + std::string(one.name);
  }
  return text;
}

}  // namespace

TEST_CASE("without NCCL_ALGO and NCCL_PROTO everything is admitted") {
  const TuneRules rules = rules_of({});
  for (const Coll coll : kAll) {
    for (const Algorithm& one : algorithms()) CHECK(rules.admits(coll, one.name));
    for (const char* protocol : {"LL", "LL128", "Simple"}) CHECK(rules.admits_protocol(coll, protocol));
    CHECK_FALSE(rules.algo(coll).given);
  }
  CHECK_FALSE(rules.strict());
  CHECK_FALSE(rules.deterministic());
  CHECK(rules.min_channels() == 1);
  CHECK(rules.max_channels() == 16);
  CHECK(rules.slice() == 0);
}

TEST_CASE("NCCL_ALGO: one list for all collectives") {
  for (const Coll coll : kAll) {
    CHECK(admitted("ring", coll) == "ring");
    CHECK(admitted("RiNg,TREE", coll) == "ring,tree");
    CHECK(admitted("^ring", coll) == "tree,direct,oneshot,hd,chain,hier");
    CHECK(admitted("^Ring,tree,HD", coll) == "direct,oneshot,chain,hier");
    CHECK(admitted("nvls,NVLSTree,PAT,CollNetDirect,collnetchain", coll).empty());
    CHECK(admitted("hd,direct,oneshot,chain", coll) == "direct,oneshot,hd,chain");
    CHECK(admitted("ring,ring", coll) == "ring");
  }
}

TEST_CASE("NCCL_ALGO: entries for single collectives") {
  SECTION("named entries leave the other collectives alone") {
    CHECK(admitted("allreduce:tree", Coll::all_reduce) == "tree");
    CHECK(admitted("allreduce:tree", Coll::broadcast) == "ring,tree,direct,oneshot,hd,chain,hier");
  }
  SECTION("the first entry may stand for all, later ones replace it") {
    const std::string value = "ring,collnetdirect;allreduce:tree,collnetdirect;BROADCAST:^ring";
    CHECK(admitted(value, Coll::all_reduce) == "tree");
    CHECK(admitted(value, Coll::broadcast) == "tree,direct,oneshot,hd,chain,hier");
    CHECK(admitted(value, Coll::reduce) == "ring");
    CHECK(admitted(value, Coll::reduce_scatter) == "ring");
  }
  SECTION("a later entry for the same collective replaces the earlier one") {
    CHECK(admitted("allreduce:tree;allreduce:ring", Coll::all_reduce) == "ring");
    CHECK(admitted("allreduce:tree;reduce:hd;allreduce:^hd", Coll::all_reduce) == "ring,tree,direct,oneshot,chain,hier");
  }
  SECTION("every collective can be named, in any case") {
    for (const Coll coll : kAll) {
      CHECK(admitted(std::string(name_of(coll)) + ":hd", coll) == "hd");
      for (const Coll other : kAll) CHECK((admitted(std::string(name_of(coll)) + ":hd", other) == "hd") == (other == coll));
    }
    CHECK(admitted("ALLTOALL:direct", Coll::all_to_all) == "direct");
    CHECK(admitted("alltoall:direct;gather:chain;scatter:ring", Coll::scatter) == "ring");
  }
  SECTION("a closing semicolon ends the last entry") { CHECK(admitted("ring;", Coll::all_reduce) == "ring"); }
}

TEST_CASE("NCCL_ALGO: an entry without a name is meant for NCCL's five collectives") {
  const TuneRules rules = rules_of({{"NCCL_ALGO", "ring;gather:tree"}});
  for (const Coll coll : {Coll::all_reduce, Coll::broadcast, Coll::reduce, Coll::all_gather, Coll::reduce_scatter}) {
    CHECK(rules.algo(coll).named);
  }
  CHECK_FALSE(rules.algo(Coll::all_to_all).named);
  CHECK_FALSE(rules.algo(Coll::scatter).named);
  CHECK(rules.algo(Coll::gather).named);
}

TEST_CASE("NCCL_PROTO has the same syntax") {
  const TuneRules rules = rules_of({{"NCCL_PROTO", "^ll128;AllGather:LL,ll128;reduce:simple"}});
  CHECK(rules.admits_protocol(Coll::all_reduce, "Simple"));
  CHECK(rules.admits_protocol(Coll::all_reduce, "LL"));
  CHECK_FALSE(rules.admits_protocol(Coll::all_reduce, "LL128"));
  CHECK_FALSE(rules.admits_protocol(Coll::all_gather, "Simple"));
  CHECK(rules.admits_protocol(Coll::all_gather, "LL128"));
  CHECK(rules.admits_protocol(Coll::reduce, "Simple"));
  CHECK_FALSE(rules.admits_protocol(Coll::reduce, "LL"));
}

TEST_CASE("NCCL_ALGO: errors name the variable, the place and what would do") {
  struct Case {
    const char* value;
    const char* part;
  };
  const Case cases[] = {
      {"rong", "at character 1, \"rong\" is no algorithm"},
      {"ring,tre", "at character 6, \"tre\" is no algorithm"},
      {"simple", "\"simple\" is no algorithm"},
      {"ring, tree", "at character 6, \" tree\" is no algorithm (blanks count"},
      {"ring ", "\"ring \" is no algorithm (blanks count"},
      {"ring,^tree", "\"^tree\" is no algorithm (^ stands once"},
      {"^^ring", "at character 2, \"^ring\" is no algorithm (^ stands once"},
      {"^", "at character 2, an empty word names no algorithm"},
      {"ring,,tree", "at character 6, an empty word names no algorithm"},
      {"ring,", "at character 6, an empty word names no algorithm"},
      {",", "at character 1, an empty word names no algorithm"},
      {";", "at character 1, an empty word names no algorithm"},
      {"allreduce:", "at character 11, an empty word names no algorithm"},
      {"allreduce:^", "at character 12, an empty word names no algorithm"},
      {"allreduce:ring:tree", "\"ring:tree\" is no algorithm"},
      {"allredu:ring", "at character 1, \"allredu\" is no collective"},
      {"all_reduce:ring", "\"all_reduce\" is no collective"},
      {" allreduce:ring", "\" allreduce\" is no collective"},
      {"send:ring", "\"send\" is no collective"},
      {":ring", "\"\" is no collective"},
      {"ring;tree", "at character 6, entry 2 (\"tree\") names no collective"},
      {"ring;;allreduce:tree", "at character 6, entry 2 (\"\") names no collective"},
      {"allreduce:ring;^tree", "entry 2 (\"^tree\") names no collective"},
      {"ring;allreduce:tree,foo", "at character 21, \"foo\" is no algorithm"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.value);
    const Result<TuneRules> rules = TuneRules::parse(config_of({{"NCCL_ALGO", one.value}}));
    REQUIRE_FALSE(rules.ok());
    CHECK(rules.error().code == Code::invalid_usage);
    CHECK(rules.error().scope == Scope::communicator);
    INFO(rules.error().what);
    CHECK(contains(rules.error().what, std::string("NCCL_ALGO=") + one.value + ":"));
    CHECK(contains(rules.error().what, one.part));
  }
}

TEST_CASE("errors list the known words, and the variable that was really set") {
  const std::string algo = parse_error({{"RONDE_ALGO", "x"}, {"NCCL_ALGO", "ring"}});
  INFO(algo);
  CHECK(contains(algo, "RONDE_ALGO=x"));
  for (const char* word :
       {"ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat", "hd", "direct", "oneshot", "chain", "hier"}) {
    CHECK(contains(algo, word));
  }
  const std::string proto = parse_error({{"NCCL_PROTO", "ring"}});
  INFO(proto);
  CHECK(contains(proto, "NCCL_PROTO=ring"));
  CHECK(contains(proto, "\"ring\" is no protocol"));
  CHECK(contains(proto, "ll, ll128, simple"));
  const std::string function = parse_error({{"NCCL_PROTO", "ll;x:ll"}});
  INFO(function);
  for (const Coll coll : kAll) CHECK(contains(function, std::string(name_of(coll))));
}

TEST_CASE("any text either parses or is an error") {
  const std::string letters = "^,;:rALl1 ";
  uint32_t state = 1;
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string value;
    for (uint32_t length = 1 + i % 9; value.size() < length;) {
      state = state * 1664525u + 1013904223u;
      const uint32_t pick = (state >> 16) % (letters.size() + 3);
      value += pick < letters.size() ? std::string(1, letters[pick]) : pick == letters.size() ? "ll" : "reduce:";
    }
    const Result<TuneRules> rules = TuneRules::parse(config_of({{"NCCL_PROTO", value}}));
    parsed += rules.ok() ? 1 : 0;
    if (rules.ok()) continue;
    CAPTURE(value);
    REQUIRE(rules.error().code == Code::invalid_usage);
  }
  CHECK(parsed > 0);
}

TEST_CASE("the text of the rules is equal for equal rules and differs otherwise") {
  const auto text = [](const std::map<std::string, std::string>& variables) { return rules_of(variables).text(); };
  CHECK(text({{"NCCL_ALGO", "RING,tree"}}) == text({{"RONDE_ALGO", "tree,ring,tree"}}));
  const std::map<std::string, std::string> different[] = {
      {},
      {{"NCCL_ALGO", "ring"}},
      {{"NCCL_ALGO", "^ring"}},
      {{"NCCL_ALGO", "ring;reduce:tree"}},
      {{"NCCL_ALGO", "allreduce:ring"}},
      {{"NCCL_PROTO", "ll"}},
      {{"NCCL_PROTO", "simple"}},
      {{"RONDE_STRICT", "1"}},
      {{"RONDE_DETERMINISTIC", "1"}},
      {{"NCCL_MIN_NCHANNELS", "2"}},
      {{"NCCL_MAX_NCHANNELS", "2"}},
      {{"RONDE_SLICE", "4K"}},
  };
  for (const auto& a : different) {
    for (const auto& b : different) CHECK((text(a) == text(b)) == (&a == &b));
  }
}
