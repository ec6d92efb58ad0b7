// ronde-plan show and verify.
#include "support/catch.h"
#include "support/scratch.h"
#include "tools/plan/programs.h"

using namespace ronde;
using namespace ronde::plan::tool;
using ronde::test::contains;
using ronde::test::ScratchFile;

namespace {

ProgramOptions options_of(const ScratchFile& file) {
  ProgramOptions it;
  it.file = file.path();
  return it;
}

ProgramOptions options_of(const char* algorithm, const char* call, int ranks, int nodes = 1, int root = 0) {
  ProgramOptions it;
  it.algorithm = algorithm;
  it.call = call;
  it.ranks = ranks;
  it.nodes = nodes;
  it.root = root;
  return it;
}

}  // namespace

TEST_CASE("ronde-plan show: Programs as text come back from a file as they were", "[plan][tool]") {
  const std::string ring = show_text(options_of("ring", "allreduce", 3)).value();
  const std::string hier = show_text(options_of("hier", "AllGather", 6, 2)).value();
  const ScratchFile file(ring + "\n" + hier);
  CHECK(show_text(options_of(file)).value() == ring + "\n" + hier);
  const auto list = programs_of(options_of(file)).value();
  REQUIRE(list.size() == 2);
  CHECK(list[0].line == 1);
  CHECK(list[1].schedule.spec == CollSpec{Coll::all_gather, 6, 0});
}

TEST_CASE("ronde-plan show: the steps of each lane", "[plan][tool]") {
  CHECK(show_steps(options_of("chain", "broadcast", 3, 1, 1)).value() ==
        "Broadcast on 3 ranks, root 1, channel 0\n"
        "rank 0   lane 0   .    .      <2=\n"
        "rank 1   lane 0   =>2  .      .\n"
        "rank 2   lane 0   .    <1=>0  .\n");
  CHECK(contains(show_steps(options_of("oneshot", "AllReduce", 2)).value(), "<1+=!"));
}

TEST_CASE("ronde-plan show: a box for each Move, an arrow for each message", "[plan][tool]") {
  const std::string ring = show_svg(options_of("ring", "AllReduce", 3)).value();
  const auto count = [](const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
    return n;
  };
  CHECK(count(ring, "<title>rank ") == 3 * 5);
  CHECK(count(ring, "z\" fill=") == 3 * 4 + 1);  // heads of arrows; one is the legend's
  CHECK(contains(ring, ">reduce, keep, send<"));
  CHECK(contains(ring, ">input 1, output 1<"));
  CHECK_FALSE(contains(ring, "are drawn"));
  CHECK_FALSE(contains(ring, ">node 0<"));
  const std::string hier = show_svg(options_of("hier", "AllReduce", 4, 2)).value();
  CHECK(contains(hier, ">node 1<"));
  CHECK(contains(hier, ">lane 2<"));
  const std::string large = show_svg(options_of("ring", "AllReduce", 40)).value();
  CHECK(contains(large, ">the first 16 of 40 ranks and 16 of 79 steps are drawn<"));
  CHECK_FALSE(contains(large, ">rank 16<"));
  CHECK(count(large, "<title>rank ") == 16 * 16);
}

TEST_CASE("ronde-plan show: channels are drawn below each other, as many as are readable", "[plan][tool]") {
  std::string text = "ronde-schedule 1\ncollective AllReduce ranks 1\n";
  for (int c = 0; c < 6; ++c)
    text += "program rank 0 channel " + std::to_string(c) + " blocks 1 scratch 0\nlane\n  move src input 0 dst output 0 final\n";
  const ScratchFile file(text);
  const std::string drawn = show_svg(options_of(file)).value();
  CHECK(contains(drawn, ">AllReduce on 1 ranks, channel 3<"));
  CHECK_FALSE(contains(drawn, "channel 4"));
  CHECK(contains(drawn, ">and 2 more channels<"));
  CHECK(contains(drawn, ">keep<"));
}

TEST_CASE("ronde-plan verify: right Programs, with the slots that they need", "[plan][tool]") {
  const Proof ring = prove(options_of("ring", "AllReduce", 4), 2).value();
  CHECK(ring.right);
  CHECK(contains(ring.text, "AllReduce on 4 ranks, channel 0: right, needs "));
  CHECK(contains(ring.text, ", not canonical"));
  CHECK(contains(prove(options_of("direct", "ReduceScatter", 5), 2).value().text, ", canonical"));
  CHECK_FALSE(contains(prove(options_of("hier", "AllGather", 6, 3), 2).value().text, "canonical"));
}

TEST_CASE("ronde-plan verify: wrong Programs, with rank, lane and Move", "[plan][tool]") {
  std::string text = show_text(options_of("chain", "Broadcast", 3)).value();
  text.replace(text.find("out 1"), 5, "out 2");
  const ScratchFile file(text);
  const Proof proof = prove(options_of(file), 4).value();
  CHECK_FALSE(proof.right);
  CHECK(contains(proof.text, "Broadcast on 3 ranks, root 0, channel 0: wrong\n  "));
  CHECK(contains(show_steps(options_of(file)).error().what, file.path() + ":1: the Programs are wrong: "));
}

TEST_CASE("ronde-plan show and verify: errors name what is wrong, and files the line", "[plan][tool]") {
  const auto error = [](const ProgramOptions& options) { return programs_of(options).error().what; };
  CHECK(contains(error(options_of("ring", "reduceall", 4)), "\"reduceall\" is no collective"));
  CHECK(contains(error(options_of("rings", "AllReduce", 4)), "\"rings\" is no algorithm"));
  CHECK(contains(error(options_of("ring", "AlltoAll", 4)), "ring does not exist for AlltoAll"));
  CHECK(contains(error(options_of("ring", "AllReduce", 0)), "0 ranks"));
  CHECK(contains(error(options_of("hier", "AllReduce", 4, 5)), "5 nodes for 4 ranks"));
  CHECK(contains(error(options_of("ring", "AllReduce", 100000)), "100000 ranks; from 1 to 1024 are possible"));
  CHECK(contains(error(options_of("chain", "Reduce", 4, 1, 4)), "root 4 is none of 4 ranks"));
  ProgramOptions nowhere;
  nowhere.file = "/nonexistent/programs";
  CHECK(contains(error(nowhere), "reading the file '/nonexistent/programs': No such file or directory"));
  nowhere.file = "/tmp";
  CHECK(contains(error(nowhere), "'/tmp': that is no regular file"));
  CHECK(contains(error(options_of(ScratchFile(""))), ":1: "));
  const ScratchFile file(
      "# two\nronde-schedule 1\ncollective AllReduce ranks 1\nprogram rank 0 channel 0 blocks 1 scratch 0\nlane\n  move src "
      "input\n");
  CHECK(contains(error(options_of(file)), file.path() + ":6: found the end of the line, expected a block's number"));
  const ScratchFile short_file("ronde-schedule 1\ncollective AllReduce ranks 2\nprogram rank 0 channel 0 blocks 1 scratch 0\n");
  CHECK(contains(prove(options_of(short_file), 4).error().what, short_file.path() + ":1: 1 Programs; each channel needs one for each of 2 ranks"));
  std::string text = show_text(options_of("chain", "Broadcast", 1)).value();
  text.replace(text.find("channel 0"), 9, "channel 7");
  const ScratchFile gap(text);
  CHECK(contains(prove(options_of(gap), 4).error().what, ":1: channel 7 where 0 is expected"));
}
