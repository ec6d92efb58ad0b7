// The machine of a communicator and its channels: where they come from, where they go, and that all ranks have the same.
#include <algorithm>
#include <string>
#include <vector>

#include "graph/graph_file.h"
#include "support/catch.h"
#include "support/scratch.h"
#include "support/world.h"
#include "topo/cpu_ranks.h"
#include "topo/xml.h"

using namespace ronde::test;

namespace {

/// Every collective that follows a ring or a tree, with exact sums.
std::string sums_are_right(ncclComm_t comm, int rank) {
  int ranks = 0;
  RONDE_RANK_OK(ncclCommCount(comm, &ranks));
  constexpr size_t kCount = 10'007;
  std::vector<int> in(kCount), out(kCount), all(kCount * static_cast<size_t>(ranks));
  for (size_t i = 0; i < kCount; ++i) in[i] = small_value(rank, i, 1);
  RONDE_RANK_OK(ncclAllReduce(in.data(), out.data(), kCount, ncclInt32, ncclSum, comm, nullptr));
  RONDE_RANK_OK(ncclAllGather(in.data(), all.data(), kCount, ncclInt32, comm, nullptr));
  for (size_t i = 0; i < kCount; ++i) {
    int sum = 0;
    for (int r = 0; r < ranks; ++r) {
      sum += small_value(r, i, 1);
      if (all[static_cast<size_t>(r) * kCount + i] != small_value(r, i, 1)) return "AllGather: element " + std::to_string(i);
    }
    if (out[i] != sum) return "AllReduce: element " + std::to_string(i);
  }
  return "";
}

std::string graph_file(const std::string& order) {
  std::string devices;
  for (const char rank : order) devices += std::string("<cpurank rank=\"") + rank + "\"/>";
  return "<graphs version=\"1\"><graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"12\" speedinter=\"12\" "
         "latencyinter=\"0\" typeintra=\"SYS\" typeinter=\"PIX\" samechannels=\"1\"><channel>" +
         devices + "</channel></graph></graphs>";
}

/// The orders of the first channels in a graph file that was written: of rings, then of trees.
std::vector<std::vector<int>> dumped_orders(const std::string& text, int ranks) {
  std::string machine = "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">";
  for (int r = 0; r < ranks; ++r) machine += "<cpurank rank=\"" + std::to_string(r) + "\" cores=\"1\"/>";
  const auto reading = ronde::topo::from_xml(machine + "</cpu></system>", "machine of the test");
  REQUIRE(reading.ok());
  std::vector<ronde::topo::NodeId> devices;
  for (int r = 0; r < ranks; ++r) devices.push_back(reading->machine.device_of_rank(r));
  const auto graphs = ronde::graph::from_graph_xml(text, "dumped file", reading->machine, devices);
  REQUIRE(graphs.ok());
  std::vector<std::vector<int>> orders;
  for (const auto& graph : *graphs) orders.push_back(graph.channels.at(0).order);
  return orders;
}

}  // namespace

TEST_CASE("the machine and the channels of a communicator can be written to files", "[world][layout]") {
  const Scratch folder;
  const std::string machine_file = folder.path("machine.xml"), graph_file = folder.path("graphs.xml");
  {
    const ScopedEnv env{{"NCCL_TOPO_DUMP_FILE", machine_file.c_str()},
                        {"NCCL_GRAPH_DUMP_FILE", graph_file.c_str()},
                        {"RONDE_TOPO_DUMP_FILE_RANK", "2"}};
    CHECK(run_world(5, sums_are_right) == "");
  }
  const auto reading = ronde::topo::from_xml(folder.read("machine.xml"), "machine.xml");
  REQUIRE(reading.ok());
  for (int rank = 0; rank < 5; ++rank) CHECK(reading->machine.device_of_rank(rank) != ronde::topo::kNone);
  CHECK(dumped_orders(folder.read("graphs.xml"), 5).size() == 2);
}

TEST_CASE("rings in an order that is asked for", "[world][layout]") {
  const Scratch folder;
  const std::string dump = folder.path("graphs.xml");
  for (const char* algorithm : {"ring", "tree", "direct", "hd"}) {
    const ScopedEnv env{{"NCCL_RINGS", "3 0 2 1 | 1 2 0 3"}, {"NCCL_GRAPH_DUMP_FILE", dump.c_str()}, {"NCCL_MIN_NCHANNELS", "3"}, {"NCCL_ALGO", algorithm}};
    CHECK(run_world(4, sums_are_right) == "");
    CHECK(dumped_orders(folder.read("graphs.xml"), 4).at(0) == std::vector<int>{3, 0, 2, 1});
  }
}

TEST_CASE("rings of a graph file are taken, and what is wrong in one is an error on all ranks", "[world][layout]") {
  const Scratch folder;
  const std::string dump = folder.path("dump.xml");
  const std::string good = folder.write("good.xml", graph_file("2031"));
  {
    const ScopedEnv env{{"NCCL_GRAPH_FILE", good.c_str()}, {"NCCL_GRAPH_DUMP_FILE", dump.c_str()}, {"NCCL_ALGO", "ring"}};
    CHECK(run_world(4, sums_are_right) == "");
    CHECK(dumped_orders(folder.read("dump.xml"), 4).at(0) == std::vector<int>{2, 0, 3, 1});
  }
  const std::string missing = folder.write("missing.xml", graph_file("203"));
  const std::string topology = folder.write("topology.xml", "<system version=\"1\"/>");
  const std::string absent = folder.path("absent.xml");
  for (const std::string& bad : {missing, topology, absent}) {
    const ScopedEnv env{{"NCCL_GRAPH_FILE", bad.c_str()}};
    const std::string complaints = run_world(4, sums_are_right);
    CAPTURE(bad, complaints);
    for (int rank = 0; rank < 4; ++rank) CHECK(contains(complaints, "rank " + std::to_string(rank) + ": "));
    CHECK(contains(complaints, bad));
  }
}

TEST_CASE("orders that are none are an error of the init", "[world][layout]") {
  for (const char* rings : {"0 1 2", "0 1 2 2", "0 1 2 4", "0 1 x 3", "| 0 1 2 3"}) {
    const ScopedEnv env{{"RONDE_RINGS", rings}};
    CAPTURE(rings);
    const std::string complaints = run_world(4, sums_are_right);
    CHECK(contains(complaints, "rank 3: "));
    CHECK_FALSE(complaints.empty());
  }
}

TEST_CASE("a topology file's CPUs are those of the ranks; a broken one is an error on all ranks", "[world][layout]") {
  const Scratch folder;
  const std::string two = folder.write("two.xml",
                                       "<system version=\"1\"><cpu numaid=\"0\" affinity=\"1\" arch=\"x86_64\" vendor=\"AuthenticAMD\"/>"
                                       "<cpu numaid=\"1\" affinity=\"2\" arch=\"x86_64\" vendor=\"AuthenticAMD\"/></system>");
  {
    const std::string dump = folder.path("dump.xml");
    const ScopedEnv env{{"NCCL_TOPO_FILE", two.c_str()}, {"NCCL_TOPO_DUMP_FILE", dump.c_str()}};
    CHECK(run_world(4, sums_are_right) == "");
    const auto reading = ronde::topo::from_xml(folder.read("dump.xml"), "dump.xml");
    REQUIRE(reading.ok());
    const ronde::topo::Machine& m = reading->machine;
    std::vector<int> nodes;
    for (int rank = 0; rank < 4; ++rank) nodes.push_back(m.numa(m.numa_of(m.device_of_rank(rank))).id);
    std::sort(nodes.begin(), nodes.end());
    // Where this process may use CPUs 0 and 1, two ranks are on each of the file's nodes; never on another.
    CHECK(std::all_of(nodes.begin(), nodes.end(), [](int id) { return id == 0 || id == 1; }));
    const auto usable = ronde::topo::calling_thread_affinity();
    if (usable.test(0) && usable.test(1)) CHECK(nodes == std::vector<int>{0, 0, 1, 1});
  }
  const std::string broken = folder.write("broken.xml", "<system version=\"1\">\n<cpu numaid=\"zero\"/></system>");
  const ScopedEnv env{{"NCCL_TOPO_FILE", broken.c_str()}};
  const std::string complaints = run_world(3, sums_are_right);
  CAPTURE(complaints);
  CHECK(contains(complaints, "broken.xml:2"));
  for (int rank = 0; rank < 3; ++rank) CHECK(contains(complaints, "rank " + std::to_string(rank) + ": "));
}
