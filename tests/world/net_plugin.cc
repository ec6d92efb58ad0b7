// Network plugins: each version of NCCL's interface carries all there is, is used by its rules, and what goes wrong in one is
// said.
#include <filesystem>
#include <map>
#include <numeric>

#include "ronde.h"
#include "support/catch.h"
#include "support/example_net.h"
#include "support/tune.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

/// How this rank reaches `peer`.
std::string way(ncclComm_t comm, int peer) {
  rondeChoice_t choice{};
  choice.size = sizeof choice;
  const ncclResult_t code = rondeExplain(comm, rondeSend, 1, ncclFloat, ncclSum, peer, &choice);
  return code == ncclSuccess ? choice.transport : ncclGetErrorString(code);
}

/// "" where the collectives that matter are right, in sizes around those of slots.
std::string collectives(ncclComm_t comm, int rank) {
  int ranks = 0;
  RONDE_RANK_OK(ncclCommCount(comm, &ranks));
  for (const size_t count : {size_t{1}, size_t{7}, size_t{4095}, size_t{65537}, size_t{300001}}) {
    std::vector<int> in(count), out(count, -1);
    for (size_t i = 0; i < count; ++i) in[i] = small_value(rank, i, 3);
    RONDE_RANK_OK(ncclAllReduce(in.data(), out.data(), count, ncclInt32, ncclSum, comm, nullptr));
    for (size_t i = 0; i < count; ++i) {
      int sum = 0;
      for (int r = 0; r < ranks; ++r) sum += small_value(r, i, 3);
      if (out[i] != sum) return "AllReduce of " + std::to_string(count) + ": element " + std::to_string(i);
    }
    RONDE_RANK_OK(ncclBroadcast(in.data(), out.data(), count, ncclInt32, ranks - 1, comm, nullptr));
    for (size_t i = 0; i < count; ++i) {
      if (out[i] != small_value(ranks - 1, i, 3))
        return "Broadcast of " + std::to_string(count) + ": element " + std::to_string(i);
    }
    const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    RONDE_RANK_OK(ncclGroupStart());
    RONDE_RANK_OK(ncclSend(in.data(), count, ncclInt32, to, comm, nullptr));
    RONDE_RANK_OK(ncclRecv(out.data(), count, ncclInt32, from, comm, nullptr));
    RONDE_RANK_OK(ncclGroupEnd());
    for (size_t i = 0; i < count; ++i) {
      if (out[i] != small_value(from, i, 3)) return "Send of " + std::to_string(count) + ": element " + std::to_string(i);
    }
  }
  return "";
}

/// The network of two ranks on two hosts with these settings, after a call over it; else the code and text of the init.
std::string network_of(std::initializer_list<std::pair<const char*, const char*>> settings, const char* net_name = nullptr,
                       int traffic_class = NCCL_CONFIG_UNDEF_INT) {
  const ScopedEnv env(settings);
  const ScopedEnv hosts({{"RONDE_HOSTS", "2"}});
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  std::string network[2];
  const std::string complaints = run_threads(2, [&](int rank) -> std::string {
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.netName = net_name;
    config.trafficClass = traffic_class;
    const ncclResult_t code = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    if (code != ncclSuccess) {
      network[rank] = std::to_string(code) + ": " + ncclGetLastError(nullptr);
      return "";
    }
    network[rank] = way(comm, 1 - rank);
    const int in = rank + 1;
    int out = 0;
    RONDE_RANK_OK(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, comm, nullptr));
    RONDE_RANK_OK(ncclCommDestroy(comm));
    return out == 3 ? "" : "the sum is wrong";
  });
  CHECK(complaints == "");
  return network[0];
}

}  // namespace

TEST_CASE("net plugin: each version carries collectives and messages", "[world][net_plugin]") {
  const std::string version = GENERATE("6", "7", "8", "9", "10", "11", "12", "8and11");
  CAPTURE(version);
  const ExampleNet example(version);
  const ScopedEnv env({{"RONDE_HOSTS", "0,1,0,1"}, {"NCCL_NET_PLUGIN", example.path()}});
  CHECK(run_world(4, [](ncclComm_t comm, int rank) -> std::string {
          if (way(comm, (rank + 1) % 4) != "NET/Example") return way(comm, (rank + 1) % 4);
          return collectives(comm, rank);
        }) == "");
  example.check();
  const bool per_communicator = version.size() > 1 && version != "10";
  CHECK(example.count("inits") == (per_communicator ? 4 : 1));  // of two versions the newest
}

TEST_CASE("net plugin: what is not possible yet is asked for again", "[world][net_plugin]") {
  const ExampleNet example("10");
  for (const char* function : {"connect", "accept"}) example.order(function, 0, 1, 20);
  for (const char* function : {"isend", "irecv", "test"}) example.order(function, 0, 5, 300);
  const ScopedEnv env({{"RONDE_HOSTS", "2"}, {"NCCL_NET_PLUGIN", example.path()}});
  CHECK(run_world(2, collectives) == "");
  example.check();
}

TEST_CASE("net plugin: one that serves several communicators, and children of one", "[world][net_plugin]") {
  const std::string version = GENERATE("10", "11");
  const ExampleNet example(version);
  const ScopedEnv env({{"RONDE_HOSTS", "0,1,1"}, {"NCCL_NET_PLUGIN", example.path()}});
  for (int round = 0; round < 3; ++round) {
    CHECK(run_world(3, [&](ncclComm_t comm, int rank) -> std::string {
            ncclComm_t child = nullptr;
            RONDE_RANK_OK(ncclCommSplit(comm, rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, rank, &child, nullptr));
            std::string complaint = collectives(comm, rank);
            if (child == nullptr) return complaint;
            if (complaint.empty())
              complaint = way(child, rank == 0 ? 1 : 0) == "NET/Example" ? collectives(child, rank == 0 ? 0 : 1)
                                                                         : "the child has another network";
            ncclCommDestroy(child);
            return complaint;
          }) == "");
    example.check();
  }
  CHECK(example.count("inits") == (version == "10" ? 1 : 15));
}

TEST_CASE("net plugin: its errors end the communicator, with function, device, plugin and peer", "[world][net_plugin]") {
  struct Case {
    const char* function;
    int code;
    const char* words;
  };
  const Case it = GENERATE(
      Case{"isend", 2, "isend returned code 2 (a call of the system"},
      Case{"irecv", 3, "irecv returned code 3 (an internal error"}, Case{"test", 6, "test returned code 6 (the peer has failed"},
      Case{"test", 4, "test returned code 4 (an argument is invalid)"},
      Case{"regMr", 5, "regMr returned code 5 (it is used or configured wrongly)"}, Case{"connect", 2, "connect returned code 2"},
      Case{"listen", 99, "listen returned code 99 (which the interface does not have)"});
  CAPTURE(it.function, it.code);
  const ExampleNet example("10");
  const std::string function = it.function;
  example.order(it.function, it.code, 0, function == "connect" || function == "listen" || function == "regMr" ? 1000 : 1);
  const ScopedEnv env({{"RONDE_HOSTS", "2"}, {"NCCL_NET_PLUGIN", example.path()}});
  std::string texts[2];
  CHECK(run_world(
            2,
            [&](ncclComm_t comm, int rank) -> std::string {
              std::vector<int> data(1000, rank);
              const ncclResult_t code =
                  failure_of(comm, ncclAllReduce(data.data(), data.data(), data.size(), ncclInt32, ncclSum, comm, nullptr));
              texts[rank] = std::to_string(code) + ": " + ncclGetLastError(comm);
              ncclCommAbort(comm);
              return code == ncclSuccess ? "no error came" : "";
            },
            false) == "");
  INFO(texts[0]);
  INFO(texts[1]);
  const bool first = contains(texts[0], it.words);
  const std::string& text = texts[first ? 0 : 1];
  CHECK(contains(text, "6: "));
  CHECK(contains(text, it.words));
  CHECK(contains(text, "t of Example (plugin of version 10)"));  // left or right
  CHECK(contains(text, first ? "rank 1" : "rank 0"));
  CHECK(example.error() == "");
  CHECK(example.left("registrations") == 0);
}

TEST_CASE("net plugin: a failure of one device is no failure while another one works", "[world][net_plugin]") {
  const ExampleNet example("9");
  example.order("listen", 2, 0, 1);
  example.order("connect", 6, 2, 1);
  example.order("regMr of a sender", 2, 0, 1);
  CHECK(network_of({{"NCCL_NET_PLUGIN", example.path()}}) == "NET/Example");
  example.check();
}

TEST_CASE("net plugin: networks are picked by name, that of a plugin too", "[world][net_plugin]") {
  const ExampleNet example("11");
  const char* const path = example.path();
  CHECK(network_of({{"NCCL_NET_PLUGIN", path}}) == "NET/Example");
  CHECK(network_of({{"NCCL_NET_PLUGIN", path}, {"NCCL_NET", "EXAMPLE"}}) == "NET/Example");
  CHECK(network_of({{"NCCL_NET_PLUGIN", path}, {"NCCL_NET", "socket"}}) == "NET/Socket");
  CHECK(network_of({{"NCCL_NET_PLUGIN", path}}, "Socket") == "NET/Socket");
  CHECK(network_of({{"NCCL_NET_PLUGIN", path}, {"NCCL_NET", "Socket"}}, "example") == "NET/Socket");
  CHECK(network_of({{"NCCL_NET_PLUGIN", "none"}}) == "NET/Socket");
  CHECK(network_of({{"NCCL_NET_PLUGIN", (std::string("/nowhere/libx.so,none,") + path).c_str()}}) == "NET/Example");
  const std::string pigeon = network_of({{"NCCL_NET_PLUGIN", path}}, "Pigeon");
  CHECK(contains(pigeon, "5: CommInitRankConfig: there is no network \"Pigeon\" (ncclConfig_t.netName); there are: Example, "));
  CHECK(contains(pigeon, "Socket"));
  example.check();
  CHECK(example.count("traffic_class") == -1);
  CHECK(network_of({{"NCCL_NET_PLUGIN", path}}, nullptr, 3) == "NET/Example");
  CHECK(example.count("traffic_class") == 3);
  CHECK(network_of({{"NCCL_NET_PLUGIN", path}, {"RONDE_TRAFFIC_CLASS", "4"}}, nullptr, 3) == "NET/Example");
  CHECK(example.count("traffic_class") == 4);
}

TEST_CASE("net plugin: one that was asked for and cannot be had is told of, and done without", "[world][net_plugin]") {
  const std::map<std::string, std::string> cases = {
      {"/nowhere/libnccl-net-x.so", "no library can be loaded (/nowhere/libnccl-net-x.so: cannot open"},
      {"nowhere", "libnccl-net-nowhere.so: cannot open"},
      {net_plugin_library("foreign"), "its library has none of ncclNetPlugin_v6 to _v12"},
      {net_plugin_library("old"), "its library has only ncclNetPlugin_v5; versions 6 to 12"},
      {net_plugin_library("incomplete"), "its structure lacks init"},
      {"STATIC_PLUGIN", "its library has none of"},
      {RONDE_TEST_SOURCE "/meson.build", "no library can be loaded ("},
  };
  for (const auto& [value, words] : cases) {
    CAPTURE(value);
    const CapturedLog log;
    CHECK(network_of({{"NCCL_NET_PLUGIN", value.c_str()}}) == "NET/Socket");
    CHECK(contains(log.text(), words));
    CHECK(contains(log.text(), value + " (NCCL_NET_PLUGIN)"));
    CHECK(log.lines() == 1);  // not once for each rank
  }
  const CapturedLog log;
  const std::string refused = network_of({{"NCCL_NET_PLUGIN", "nowhere"}, {"NCCL_NET", "Example"}});
  CHECK(contains(refused, "5: CommInitRankConfig: there is no network \"Example\" (NCCL_NET); there are: "));
  CHECK(contains(refused, "nowhere (NCCL_NET_PLUGIN): no library can be loaded (nowhere: cannot open"));
}

TEST_CASE("net plugin: one that does not work here is done without, unless it is named", "[world][net_plugin]") {
  struct Case {
    const char* function;
    int code;
    const char* words;
  };
  const Case it =
      GENERATE(Case{"init", 2, "its init returned code 2 (a call of the system or of another library has failed)"},
               Case{"devices", 3, "its devices returned code 3"}, Case{"devices", 0, "it has no device here"},
               Case{"getProperties", 2, "its getProperties returned code 2"},
               Case{"getProperties", 0, "it has no device here; left does not take memory of the host; right does not"});
  CAPTURE(it.function, it.code);
  const std::string version = GENERATE("10", "11");
  const ExampleNet example(version);
  example.order(it.function, it.code, 0, 1000);
  {
    const CapturedLog log;
    CHECK(network_of({{"NCCL_NET_PLUGIN", example.path()}}) == "NET/Socket");
    CHECK(contains(log.text(), it.words));
  }
  const std::string refused = network_of({{"NCCL_NET_PLUGIN", example.path()}, {"NCCL_NET", "Example"}});
  CHECK(contains(refused,
                 "2: CommInitRankConfig: the network that NCCL_NET asks for does not work here; Example (plugin of version " +
                     version + "): "));
  CHECK(contains(refused, it.words));
  CHECK(example.left("contexts") == 0);
}

TEST_CASE("net plugin: slots that are too long for it are refused, with what to set", "[world][net_plugin]") {
  const ExampleNet example("10");
  example.order("largest", 0, 0, 1000);
  const ScopedEnv env({{"RONDE_HOSTS", "2"}, {"NCCL_NET_PLUGIN", example.path()}});
  CHECK(run_world(
            2,
            [&](ncclComm_t comm, int) -> std::string {
              int data = 1;
              const ncclResult_t code = failure_of(comm, ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, nullptr));
              const std::string text = ncclGetLastError(comm);
              ncclCommAbort(comm);
              if (code != ncclInvalidUsage && code != ncclRemoteError) return "code " + std::to_string(code) + ": " + text;
              return contains(text, "which takes 4096; set RONDE_BUFFSIZE lower") ? "" : text;
            },
            false) == "");
}

TEST_CASE("net plugin: what it logs is in the log", "[world][net_plugin]") {
  const ExampleNet example("10");
  const ScopedEnv subsystems({{"NCCL_DEBUG_SUBSYS", "NET"}});
  const CapturedLog log;
  setenv("RONDE_DEBUG", "INFO", 1);
  CHECK(network_of({{"NCCL_NET_PLUGIN", example.path()}}) == "NET/Example");
  CHECK(contains(log.text(), "network plugin: example is initialised, 42"));
  CHECK(contains(log.text(), "the network is Example (plugin of version 10), from "));
}

TEST_CASE("in another process: goes over the example plugin", "[.net-plugin-child]") { REQUIRE(network_of({}) == "NET/Example"); }

TEST_CASE("net plugin: it is found by its name, in the program itself, and where nothing is asked for", "[world][net_plugin]") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string folder = std::filesystem::path(net_plugin_library("old")).parent_path().string();
  const auto run = [&](const std::string& variables) {
    const std::string command = "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 " + variables + " '" + self +
                                "' '[.net-plugin-child]' >/dev/null 2>&1";
    return std::system(command.c_str()) == 0;
  };
  CHECK(run("LD_LIBRARY_PATH=" + folder + " NCCL_NET_PLUGIN=example9"));
  CHECK(run("LD_LIBRARY_PATH=" + folder + " NCCL_NET_PLUGIN=old,libnccl-net-example11.so"));
  CHECK(run("LD_PRELOAD=" + net_plugin_library("example10") + " NCCL_NET_PLUGIN=static_plugin"));
  CHECK_FALSE(run("LD_LIBRARY_PATH=" + folder + " NCCL_NET_PLUGIN=NONE"));
  CHECK_FALSE(run("LD_LIBRARY_PATH=" + folder));  // no libnccl-net.so there
  const Scratch other;
  std::filesystem::create_symlink(net_plugin_library("example8"), other.path("libnccl-net.so"));
  CHECK(run("LD_LIBRARY_PATH=" + other.root()));
}
