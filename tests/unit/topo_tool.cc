// What ronde-topo's texts and drawings are made of.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "support/catch.h"
#include "support/topo.h"
#include "tools/topo/channel_sets.h"
#include "tools/topo/json.h"
#include "tools/topo/outline.h"
#include "tools/topo/svg.h"
#include "tools/topo/tree.h"
#include "topo/text.h"

using namespace ronde;
using namespace ronde::topo;
using tool::Look;
using tool::Outline;
using tool::Tone;

namespace {

Outline sample() {
  Outline outline;
  outline.add(0, {{"top"}});
  outline.add(1, {{"first", Tone::title}, {"one two three four five six seven"}});
  outline.add(2, {{"inner"}});
  outline.add(1, {{"last"}});
  return outline;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The longest line's bytes.
size_t longest(const std::string& text) {
  size_t most = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    most = std::max(most, end - at);
    at = end + 1;
  }
  return most;
}

}  // namespace

TEST_CASE("outlines: trees in ASCII and UTF-8", "[unit][topo_tool]") {
  CHECK(sample().text({}) ==
        "top\n"
        "|- first  one two three four five six seven\n"
        "|  `- inner\n"
        "`- last\n");
  CHECK(contains(sample().text({false, true, 0}), "│  └─ inner\n"));
}

TEST_CASE("outlines: long lines are broken between words, below their own text", "[unit][topo_tool]") {
  CHECK(sample().text({false, false, 40}) ==
        "top\n"
        "|- first  one two three four five six\n"
        "|  |    seven\n"
        "|  `- inner\n"
        "`- last\n");
  // What does not fit anywhere stands alone.
  Outline outline;
  outline.add(0, {{"word " + std::string(100, 'x') + " word"}});
  CHECK(outline.text({false, false, 40}) == "word\n     " + std::string(100, 'x') + "\n     word\n");
}

TEST_CASE("outlines: colours enclose the words of a tone and take no room", "[unit][topo_tool]") {
  const std::string text = sample().text({true, false, 40});
  CHECK(contains(text, "\x1b[1mfirst\x1b[0m  one two"));
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      plain += text[i];
    }
  }
  CHECK(plain == sample().text({false, false, 40}));
}

TEST_CASE("trees say where each bandwidth comes from", "[unit][topo_tool]") {
  const Machine m = test::read_text("cpu sapphire { gpu h100; nic gen4x8 200G; nic nobus { port } }").machine;
  const std::string text = tool::tree(m, {}, false);
  INFO(text);
  CHECK(contains(text, "PCI 32 GT/s x16 = 48 GB/s  (derived)"));
  CHECK(contains(text, "200 Gbit/s = 25 GB/s  (given)"));
  CHECK(contains(text, "1.25? GB/s  (assumed)"));
}

TEST_CASE("trees name the CPU that a GPU has links to, at the GPU", "[unit][topo_tool]") {
  const Machine m = test::read_text("cpu power9 { 2 gpu p100 }\nnvlink 0-1 cpu x2\nnvlink 0 1 x2").machine;
  const std::string text = tool::tree(m, {}, false);
  INFO(text);
  CHECK(contains(text, "NVLink x2 to NUMA node 0, gpu 1 = "));
  CHECK_FALSE(contains(text, "NVLink x2 to gpus 0-1"));
}

TEST_CASE("trees show hosts of one build once, unless all are asked for", "[unit][topo_tool]") {
  const Machine m =
      test::read_text("3 host { cpu grace { gpu b200 } }\nhost { cpu grace { gpu h100 } }\nnvlink 0-2 domain x18").machine;
  const std::string few = tool::tree(m, {}, false);
  INFO(few);
  CHECK(contains(few, "hosts 1-2  built like host 0"));
  CHECK(contains(few, "host 3  "));
  CHECK_FALSE(contains(few, "host 1  "));
  const std::string all = tool::tree(m, {}, true);
  CHECK(contains(all, "host 1  "));
  CHECK_FALSE(contains(all, "built like"));
}

TEST_CASE("tables of paths fit their width", "[unit][topo_tool]") {
  const Machine m = test::read_text("2 cpu sapphire { 4 gpu h100 }\nnvlink 0-1 switch x18").machine;
  const std::string narrow = tool::matrix(m, {false, false, 60});
  INFO(narrow);
  CHECK(longest(narrow) <= 60);
  CHECK(contains(narrow, "NVL 370.8"));
  CHECK(contains(narrow, "SYS 22"));
  CHECK(longest(tool::matrix(m, {})) > 60);
  CHECK(tool::matrix(test::read_text("cpu grace { gpu b200 }").machine, {}) == "");
}

TEST_CASE("channels: orders once, by what their devices are called", "[unit][topo_tool]") {
  const Machine m =
      test::read_text("cpu sapphire { gpu h100 rank=1; gpu h100 rank=0; gpu h100 rank=2 }\nnvlink 0-2 switch x18").machine;
  const auto sets = tool::channel_sets(m);
  REQUIRE(sets.size() == 2);
  const auto rings = tool::grouped(sets[0]);
  REQUIRE(rings.size() == 1);
  CHECK(rings[0].count == static_cast<int>(sets[0].channels.size()));
  CHECK(tool::numbers_of(m, sets[0].devices) == std::vector<int>{1, 0, 2});
  graph::Channel tree;
  tree.parent = {-1, 0, 0};
  CHECK(tool::order_of(tree, {1, 0, 2}) == "1: 0 2");
  tree.parent = {1, 2, -1};
  CHECK(tool::order_of(tree, {1, 0, 2}) == "2 0 1");
  // Never found, but never a loop without end either.
  tree.parent = {1, 0, -1};
  CHECK(tool::order_of(tree, {1, 0, 2}) == "2");
}

TEST_CASE("JSON has all that is known", "[unit][topo_tool]") {
  const Reading reading = test::read_text("cpu sapphire { gpu h100; gpu h100; nic gen5x16 { port name=\"a\xff\\\"b\" 400G } }");
  const auto json = nlohmann::json::parse(tool::to_json(reading, tool::channel_sets(reading.machine)));
  CHECK(json.at("nodes").size() == reading.machine.nodes.size());
  CHECK(json.at("nodes")[1].at("sm") == 90);
  CHECK(json.at("links").size() == reading.machine.links.size());
  CHECK(json.at("paths").size() == 6);
  CHECK(json.at("channels")[0].at("channels")[0].at("ring").size() == 2);
}

TEST_CASE("drawings are XML, whatever names are", "[unit][topo_tool]") {
  const std::vector<std::string> machines = {
      "cpu", "cpu { gpu }", "4 cpu rome { switch { 2 gpu mi250 } }\nxgmi 0-7 0-7 x2",
      "cpu grace { gpu b200 c2c=5 c2crate=45000; nic { port name=\"</text><script>&\\\"\" 400G } }",
      "2 host { 2 cpu sapphire { gpu h100; nic gen5x16 400G 400G } }\nnvlink 0-3 domain x18"};
  for (const std::string& text : machines) {
    const auto read = from_text(text, "m");
    INFO(text);
    REQUIRE(read.ok());
    pugi::xml_document document;
    const std::string svg = tool::drawing(read->machine, tool::channel_sets(read->machine));
    CHECK(document.load_string(svg.c_str()));
    CHECK(document.child("svg").child("g").child("rect"));
    CHECK_FALSE(contains(svg, "<script"));
  }
}
