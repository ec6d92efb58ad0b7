// The text form: there and back, errors that say where, and no text that does harm.
#include "plan/text.h"

#include <fstream>
#include <random>
#include <sstream>

#include "plan_support.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

std::string file(const std::string& path) {
  std::ifstream in(path);
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void round_trip(const Schedule& schedule) {
  const std::string text = to_text(schedule);
  const Result<Schedule> back = from_text(text);
  INFO(text);
  INFO((back.ok() ? "" : back.error().what));
  REQUIRE(back.ok());
  REQUIRE(*back == schedule);
}

constexpr const char* kStart = "ronde-schedule 1\ncollective AllReduce ranks 2\n";
constexpr const char* kLane =
    "ronde-schedule 1\ncollective AllReduce ranks 2\nprogram rank 0 channel 0 blocks 1 scratch 0\nlane\n";

}  // namespace

TEST_CASE("text: every algorithm's Programs come back as they were", "[plan]") {
  for (const Algorithm& algorithm : algorithms()) {
    for (int c = 0; c < static_cast<int>(Coll::send); ++c) {
      for (int n : {1, 2, 3, 4, 7, 16, 33}) {
        const CollSpec spec{static_cast<Coll>(c), n, has_root(static_cast<Coll>(c)) ? n - 1 : 0};
        if (!algorithm.supports(spec)) continue;
        const Schedule schedule{spec, world_of(algorithm, spec, shuffled_ring(n, 5))};
        round_trip(schedule);
        REQUIRE(to_text(schedule).find('@') == std::string::npos);
        REQUIRE(to_text(schedule).find("peers") == std::string::npos);
      }
    }
  }
}

TEST_CASE("text: whatever stands in a Schedule comes back", "[plan]") {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) {
    return random() % 4 == 0 ? static_cast<uint32_t>(random()) : static_cast<uint32_t>(random() % n);
  };
  for (int i = 0; i < 300; ++i) {
    Schedule schedule;
    schedule.spec = {static_cast<Coll>(random() % 8), static_cast<int>(below(9)), static_cast<int>(below(3))};
    for (uint32_t p = random() % 3; p > 0; --p) {
      Program& program = schedule.world.emplace_back();
      program = {static_cast<int>(below(3)), static_cast<int>(below(2)), below(5), below(2), {}, {}};
      for (uint32_t k = random() % 5; k > 0; --k) program.peers.push_back({static_cast<int32_t>(below(4)), below(2)});
      for (uint32_t lanes = random() % 3; lanes > 0; --lanes) {
        std::vector<Move>& lane = program.lanes.emplace_back();
        for (uint32_t k = random() % 4; k > 0; --k) {
          Move m{below(4), below(4), below(3), below(3), below(3)};
          m.in_count = static_cast<uint16_t>(below(3));
          m.out_count = static_cast<uint16_t>(below(3));
          m.src_at = static_cast<uint16_t>(below(3));
          m.src = static_cast<Buf>(random() % 4);
          m.dst = static_cast<Buf>(random() % 4);
          m.flags = random() % 4;
          lane.push_back(m);
        }
      }
    }
    round_trip(schedule);
  }
}

TEST_CASE("text: the documented example parses and is right", "[plan]") {
  const std::string page = file("docs/programs.md");
  const std::string fence = "```ronde\n";
  const size_t start = page.find(fence) + fence.size();
  const Result<Schedule> schedule = from_text(std::string_view(page).substr(start, page.find("```", start) - start));
  INFO((schedule.ok() ? "" : schedule.error().what));
  REQUIRE(schedule.ok());
  for (bool in_place : {false, true}) {
    const Verdict verdict = verify(schedule->spec, schedule->world, {.in_place = in_place});
    INFO(faults_of(verdict));
    REQUIRE(verdict.ok());
    REQUIRE(verdict.canonical);
  }
}

TEST_CASE("text: comments, blank lines and spacing mean nothing", "[plan]") {
  const Result<Schedule> plain = from_text(std::string(kLane) + "move in 1 src input 0 dst output 0 final\n");
  const Result<Schedule> loose = from_text(
      "\n# a comment\nronde-schedule   1 # version\r\n\n\tcollective AllReduce\tranks 2\nprogram rank 0 channel 0 blocks 1 "
      "scratch 0\r\nlane\n"
      "move in 1/0 src input 0 at 0 dst output 0 blocks 1 final#end");
  REQUIRE(plain.ok());
  REQUIRE(loose.ok());
  REQUIRE(*plain == *loose);
}

TEST_CASE("text: an error says which line, what was found and what was expected", "[plan]") {
  struct Case {
    std::string text, part;
  };
  const std::string start = kStart;
  const std::string lane = kLane;
  const std::vector<Case> cases = {
      {"", "line 1: found the end of the line, expected \"ronde-schedule\""},
      {"hello", "line 1: found \"hello\", expected \"ronde-schedule\""},
      {"ronde-schedule 2", "line 1: found \"2\", expected version \"1\""},
      {"ronde-schedule 1\n\n\nAllReduce", "line 4: found \"AllReduce\", expected \"collective\""},
      {"ronde-schedule 1\ncollective Allreduce ranks 2", "line 2: found \"Allreduce\", expected one of AllReduce, Broadcast,"},
      {"ronde-schedule 1\ncollective AllReduce rank 2", "line 2: found \"rank\", expected \"ranks\""},
      {"ronde-schedule 1\ncollective AllReduce ranks two", "line 2: found \"two\", expected a number after \"ranks\""},
      {"ronde-schedule 1\ncollective AllReduce ranks 2 root 0 0", "line 2: found \"0\", expected the end of the line"},
      {start + "lane", "line 3: found \"lane\", expected \"program\""},
      {start + "program rank 0 channel 0 blocks 4294967296 scratch 0",
       "line 3: found \"4294967296\", expected a number after \"blocks\", from 0 to 4294967295"},
      {start + "program rank 0 channel 0 blocks -1 scratch 0", "line 3: found \"-1\""},
      {start + "program rank 0 channel 0 blocks 1\n", "line 3: found the end of the line, expected \"scratch\""},
      {start + "program rank 0 channel 0 blocks 1 scratch 0\nmove in 1 dst output 0",
       "line 4: found \"move\", expected \"lane\" before it"},
      {lane + "peers 1 2", "line 5: found \"1\", expected \"peers\" once, before the first lane"},
      {lane + "motion", "line 5: found \"motion\", expected \"program\", \"peers\", \"lane\" or \"move\""},
      {lane + "move in dst output 0", "line 5: found \"dst\", expected peers after \"in\""},
      {lane + "move in 1/x dst output 0", "line 5: found \"1/x\", expected a peer"},
      {lane + "move in @1 dst output 0", "line 5: found \"@1\", expected a place in the table of peers, @FIRST+COUNT"},
      {lane + "move in @1+65536 dst output 0", "line 5: found \"@1+65536\""},
      {lane + "move src memory 0", "line 5: found \"memory\", expected \"input\", \"output\", \"scratch\" or \"none\""},
      {lane + "move src input", "line 5: found the end of the line, expected a block's number"},
      {lane + "move src input 0 at 65536", "line 5: found \"65536\", expected the number of arrivals before src"},
      {lane + "move dst output 0 src input 0", "line 5: found \"src\", expected the end of the line; a move is [in PEERS]"},
      {lane + "move src input 0 out 1 final nolend final", "line 5: found \"final\", expected the end of the line"},
      {lane + "move \x01\x80\n", "line 5: found \"??\""},
  };
  for (const Case& one : cases) {
    INFO(one.text);
    const Result<Schedule> result = from_text(one.text);
    REQUIRE_FALSE(result.ok());
    INFO(result.error().what);
    INFO(one.part);
    REQUIRE(result.code() == Code::invalid_argument);
    REQUIRE(contains(result.error().what, one.part));
  }
}

TEST_CASE("text: numbers beyond reason allocate nothing and are refused by verify", "[plan]") {
  const Result<Schedule> huge = from_text(
      "ronde-schedule 1\ncollective AllReduce ranks 1\nprogram rank 0 channel 0 blocks 4294967295 scratch 4294967295\nlane\n"
      "move src input 4294967295 dst output 0 blocks 4294967295 final\n");
  REQUIRE(huge.ok());
  const Verdict verdict = verify(huge->spec, huge->world);
  REQUIRE(contains(faults_of(verdict), "too large to prove"));
  const Result<Schedule> many = from_text("ronde-schedule 1\ncollective AllReduce ranks 2147483647\n");
  REQUIRE(many.ok());
  REQUIRE(contains(faults_of(verify(many->spec, many->world)), "0 Programs for 2147483647 ranks"));
  std::string peers = std::string(kLane) + "move src input 0 out";
  for (int i = 0; i < 65536; ++i) peers += " 1";
  const Result<Schedule> crowd = from_text(peers);
  REQUIRE_FALSE(crowd.ok());
  REQUIRE(contains(crowd.error().what, "65535 peers at most"));
}

TEST_CASE("text: cut or garbled texts give a Schedule or an error, and verify survives it", "[plan]") {
  std::mt19937 random(11);
  int parsed = 0, failed = 0, right = 0;
  for (const char* name : {"ring", "tree", "hd", "oneshot"}) {
    const CollSpec spec{Coll::all_reduce, 4, 0};
    const std::string text = to_text({spec, world_of(*find_algorithm(name), spec, ordered_ring(4))});
    for (int i = 0; i < 1500; ++i) {
      std::string garbled = text;
      if (i % 3 == 0) garbled.resize(random() % text.size());
      for (uint32_t flips = i % 3 == 0 ? 0 : 1 + random() % 3; flips > 0; --flips) {
        const char digit = static_cast<char>('0' + random() % 10);
        garbled[random() % garbled.size()] = i % 3 == 1 ? static_cast<char>(random()) : digit;
      }
      const Result<Schedule> schedule = from_text(garbled);
      ++(schedule.ok() ? parsed : failed);
      if (!schedule.ok()) {
        REQUIRE(contains(schedule.error().what, "line "));
        continue;
      }
      round_trip(*schedule);
      const Verdict verdict = verify(schedule->spec, schedule->world);
      right += verdict.ok();
      if (verdict.ok())
        REQUIRE(play(schedule->spec, schedule->world, {.slices = 2, .seed = static_cast<uint32_t>(random())}) == "");
    }
  }
  CAPTURE(parsed, failed, right);
  REQUIRE(parsed > 100);
  REQUIRE(failed > 100);
  REQUIRE(right < parsed);
}

TEST_CASE("text: several Schedules in one text, each with its line; errors name file and line", "[plan]") {
  const std::string one =
      "ronde-schedule 1\ncollective Broadcast ranks 1 root 0\nprogram rank 0 channel 0 blocks 1 scratch 0\nlane\n  move src "
      "input 0 dst output 0\n";
  const auto list = schedules_from_text("# first\n" + one + "\n" + one, "mine.txt").value();
  REQUIRE(list.size() == 2);
  CHECK(list[0].line == 2);
  CHECK(list[1].line == 8);
  CHECK(list[0].schedule == list[1].schedule);
  CHECK(list[0].schedule == from_text(one).value());
  const auto error = [](const std::string& text) { return schedules_from_text(text, "mine.txt").error().what; };
  CHECK(error("") == "mine.txt:1: found the end of the line, expected \"ronde-schedule\"");
  CHECK(error(one + "ronde-schedule 2\n") == "mine.txt:6: found \"2\", expected version \"1\", the only one there is");
  CHECK(error(one + "collective\n") == "mine.txt:6: found \"collective\", expected \"program\", \"peers\", \"lane\" or \"move\"");
  const std::string both = from_text(one + one).error().what;
  CHECK(both == "line 6: found \"ronde-schedule\", expected \"program\", \"peers\", \"lane\" or \"move\"");
}
