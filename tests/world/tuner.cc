// Tuner plugins: found by every kind of name, told and asked what NCCL's interface says, obeyed, and done without where they
// fail.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/catch.h"
#include "support/tune.h"
#include "support/world.h"

using namespace ronde::test;

namespace {

const std::string kFolder = RONDE_TEST_BUILD "/tests/support/tuner/";

std::string plugin(const std::string& name) { return kFolder + "libnccl-tuner-" + name + ".so"; }

/// A file of the example plugin's commands, and the file that it writes to.
class Script {
 public:
  explicit Script(const std::string& commands) {
    static std::atomic<int> number{0};
    base_ = "/tmp/ronde-tuner-" + std::to_string(getpid()) + "-" + std::to_string(number++);
    std::ofstream(base_) << "log " << base_ << ".log\n" << commands;
  }
  ~Script() {
    std::filesystem::remove(base_);
    std::filesystem::remove(base_ + ".log");
  }
  const char* path() const { return base_.c_str(); }
  /// The lines that begin with `word`, without it.
  std::vector<std::string> said(const std::string& word) const {
    std::vector<std::string> lines;
    std::ifstream file(base_ + ".log");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind(word + " ", 0) == 0) lines.push_back(line.substr(word.size() + 1));
    }
    return lines;
  }

 private:
  std::string base_;
};

rondeChoice_t explained(ncclComm_t comm, rondeCall_t call = rondeAllReduce, size_t count = 1000) {
  rondeChoice_t choice{};
  choice.size = sizeof choice;
  if (rondeExplain(comm, call, count, ncclFloat32, ncclSum, 0, &choice) != ncclSuccess)
    strcpy(choice.reason, ncclGetLastError(comm));
  return choice;
}

/// "" if an all-reduce of a few thousand elements is right.
std::string sums(ncclComm_t comm, int ranks) {
  const std::vector<int> in(5000, 3);
  std::vector<int> out(5000);
  RONDE_RANK_OK(ncclAllReduce(in.data(), out.data(), in.size(), ncclInt32, ncclSum, comm, nullptr));
  return out == std::vector<int>(5000, 3 * ranks) ? "" : "the sum is wrong";
}

/// What 4 ranks choose for an all-reduce of 1000 floats with this plugin and these commands; it is run too.
rondeChoice_t chosen_with(const std::string& library, const std::string& commands, rondeCall_t call = rondeAllReduce) {
  const Script script(commands);
  const ScopedEnv env{{"RONDE_TUNER_PLUGIN", library.c_str()}, {"NCCL_TUNER_CONFIG_FILE", script.path()}};
  rondeChoice_t first{};
  const std::string complaints = run_world(4, [&](ncclComm_t comm, int rank) -> std::string {
    const rondeChoice_t choice = explained(comm, call);
    if (rank == 0) first = choice;
    return sums(comm, 4);
  });
  CHECK(complaints == "");
  return first;
}

struct Tried {
  rondeChoice_t choice;
  std::string log;
};
Tried tried_with(const std::string& library, const std::string& commands) {
  const CapturedLog log;
  const rondeChoice_t choice = chosen_with(library, commands);
  return {choice, log.text()};
}

std::string usual() { return chosen_with("none", "").algorithm; }

}  // namespace

TEST_CASE("a plugin of each version is told, asked and ended", "[world][tuner]") {
  const std::string version = GENERATE("3", "4", "5", "35");
  const std::string told = version.back() == '3' ? "v3 ranks 2 nodes 1"
                           : version == "4"      ? "v4 ranks 2 nodes 1"
                                                 : "v5 ranks 2 nodes 1 id 1 domains 1 of 2 to 2 constants 0";
  const std::string extra = version == "3" ? "" : " registered 0";
  const Script script("");
  const ScopedEnv env{{"RONDE_TUNER_PLUGIN", plugin("example" + version).c_str()}, {"NCCL_TUNER_CONFIG_FILE", script.path()}};
  const std::string complaints = run_world(2, [](ncclComm_t comm, int) { return sums(comm, 2); });
  CHECK(complaints == "");
  CHECK(script.said("init") == std::vector<std::string>(2, told));
  CHECK(script.said("end").size() == 2);
  CHECK(script.said("error").empty());
  const std::vector<std::string> asked = script.said("get");
  REQUIRE(asked.size() == 2);
  CHECK(asked[0] == asked[1]);
  std::istringstream words(asked[0].substr(asked[0].find(" table ") + 7));
  CHECK(asked[0].substr(0, asked[0].find(" table ")) == "function 4 bytes 20000 ops 1" + extra + " size 7x3");
  for (int cell = 0; cell < 21; ++cell) {
    float cost = 0;
    words >> cost;
    CAPTURE(cell, asked[0]);
    if (cell == 2 || cell == 5)
      CHECK(cost > 0);  // Tree/Simple, Ring/Simple
    else
      CHECK(cost == -1);
  }
}

TEST_CASE("a plugin is asked of the five collectives that NCCL asks of, by number and by the bytes of the larger buffer",
          "[world][tuner]") {
  const Script script("");
  const ScopedEnv env{{"RONDE_TUNER_PLUGIN", plugin("example4").c_str()}, {"NCCL_TUNER_CONFIG_FILE", script.path()}};
  const std::string complaints = run_world(3, [](ncclComm_t comm, int rank) -> std::string {
    if (rank != 0) return "";
    for (int call = rondeAllReduce; call <= rondeRecv; ++call) explained(comm, static_cast<rondeCall_t>(call), 10);
    explained(comm, rondeAllReduce, 0);
    return "";
  });
  CHECK(complaints == "");
  std::vector<std::string> calls;
  for (const std::string& line : script.said("get")) calls.push_back(line.substr(0, line.find(" ops")));
  CHECK(calls == std::vector<std::string>{"function 4 bytes 40", "function 0 bytes 40", "function 1 bytes 40",
                                          "function 2 bytes 120", "function 3 bytes 120"});
}

TEST_CASE("what a plugin prefers is done", "[world][tuner]") {
  const std::string version = GENERATE("3", "4", "5");
  CAPTURE(version);
  const std::string library = plugin("example" + version);
  const rondeChoice_t ring = chosen_with(library, "set 1 2 0\n");
  CHECK(std::string(ring.algorithm) == "ring");
  CHECK(contains(ring.reason, "the tuner plugin Example (version " + version + ") gives ring 0 us, the least of its table"));
  CHECK(std::string(chosen_with(library, "set 0 2 0\n").algorithm) == "tree");
  const rondeChoice_t channels = chosen_with(library, "set 0 2 0\nchannels 3\n");
  CHECK(channels.channels == 3);
  CHECK(std::string(channels.algorithm) == "tree");
  CHECK(chosen_with(library, "channels 3\n").channels == 3);  // of what the model takes too
}

TEST_CASE("a plugin that changes nothing, or makes its algorithms dearer, leaves the choice to the model", "[world][tuner]") {
  const std::string model = usual();
  REQUIRE(model != "ring");
  REQUIRE(model != "tree");
  CHECK(std::string(chosen_with(plugin("example5"), "").algorithm) == model);
  CHECK(std::string(chosen_with(plugin("example5"), "set 1 2 1e9\n").algorithm) == model);
  CHECK(std::string(chosen_with(plugin("example5"), "set 1 2 -1\nset 0 2 -1\n").algorithm) == model);
}

TEST_CASE("the rules come before a plugin", "[world][tuner]") {
  {
    const ScopedEnv rule{{"NCCL_ALGO", "tree,direct"}};
    const Tried barred = tried_with(plugin("example4"), "set 1 2 0\n");
    CHECK(std::string(barred.choice.algorithm) != "ring");
    CHECK(contains(barred.log, "gave a cost to Ring/Simple, which cannot be had"));
  }
  {
    const ScopedEnv rule{{"NCCL_MAX_NCHANNELS", "2"}};
    CHECK(chosen_with(plugin("example4"), "channels 60\n").channels == 2);
  }
  {
    const ScopedEnv rule{{"RONDE_DETERMINISTIC", "1"}};
    const std::string canonical = chosen_with(plugin("example4"), "set 1 2 0\nset 0 2 0\n").algorithm;
    CHECK(canonical != "ring");
    CHECK(canonical != "tree");
  }
  const ScopedEnv rule{{"NCCL_ALGO", "ring"}};
  const Tried nothing_left = tried_with(plugin("example4"), "set 1 2 -1\n");
  CHECK(std::string(nothing_left.choice.algorithm) == "ring");
  CHECK(contains(nothing_left.log, "rules out everything that AllReduce can use: ignored"));
}

TEST_CASE("an answer that makes no sense counts as none, with one warning", "[world][tuner]") {
  const std::string model = usual();
  const struct {
    const char *commands, *warning;
  } cases[] = {
      {"set 1 2 nan\nchannels 2\n", "gave Ring/Simple a cost of nan"},
      {"set 0 2 inf\n", "gave Tree/Simple a cost of inf"},
      {"set 0 2 -3\nset 1 2 0\n", "gave Tree/Simple a cost of -3"},
      {"channels -1\n", "asked for -1 channels"},
      {"channels 1000000\n", "asked for 1000000 channels"},
      {"get 3\nset 1 2 0\nchannels 2\n", "returned code 3 for AllReduce"},
      {"set 4 2 0\n", "gave a cost to NVLS/Simple, which cannot be had"},
      {"set 1 0 0\n", "gave a cost to Ring/LL, which cannot be had"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.commands);
    const Tried tried = tried_with(plugin("example5"), one.commands);
    CHECK(std::string(tried.choice.algorithm) == model);
    CHECK(tried.choice.channels == 1);
    INFO(tried.log);
    CHECK(contains(tried.log, std::string("the tuner plugin Example (version 5) ") + one.warning));
    CHECK(std::count(tried.log.begin(), tried.log.end(), '\n') == 1);
  }
}

TEST_CASE("a plugin that cannot be used is done without, with a warning that says why", "[world][tuner]") {
  const std::string model = usual();
  const struct {
    std::string library;
    const char *commands, *warning;
  } cases[] = {
      {"no-such-plugin", "", "libnccl-tuner-no-such-plugin.so"},
      {"/no/such/file.so", "", "RONDE_TUNER_PLUGIN=/no/such/file.so: no library can be loaded"},
      {RONDE_TEST_SOURCE "/README.md", "", "no library can be loaded"},
      {plugin("incomplete"), "", "ncclTunerPlugin_v4 lacks functions"},
      {plugin("foreign"), "", "the library has only ncclTunerPlugin_v2"},
      {"libm.so.6", "", "the library has none of ncclTunerPlugin_v5, _v4 and _v3"},
      {plugin("example3"), "init 2\nset 1 2 0\n", "its init returned code 2"},
      {plugin("example5"), "init 5\nset 1 2 0\n", "it failed to initialise on ranks 0-3"},
  };
  for (const auto& one : cases) {
    CAPTURE(one.library, one.commands);
    const Tried tried = tried_with(one.library, one.commands);
    INFO(tried.log);
    CHECK(std::string(tried.choice.algorithm) == model);
    CHECK(contains(tried.log, one.warning));
  }
}

TEST_CASE("RONDE_STRICT=1 makes a plugin that cannot be used an error on every rank", "[world][tuner]") {
  const Script script("init 2\n");
  const std::string library = GENERATE(std::string("no-such-plugin"), plugin("example4"));
  const ScopedEnv env{{"RONDE_TUNER_PLUGIN", library.c_str()}, {"NCCL_TUNER_CONFIG_FILE", script.path()}, {"RONDE_STRICT", "1"}};
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  const std::string complaints = run_threads(3, [&](int rank) -> std::string {
    ncclComm_t comm = nullptr;
    return check_code("init", ncclCommInitRank(&comm, 3, id, rank), ncclInvalidUsage);
  });
  CHECK(complaints == "");
}

TEST_CASE("ranks that a plugin answers differently are told so, and nothing hangs", "[world][tuner]") {
  const Script script(GENERATE("odd\nset 1 2 0\n", "odd\nset 0 2 0\n"));
  const ScopedEnv env{{"RONDE_TUNER_PLUGIN", plugin("example4").c_str()}, {"NCCL_TUNER_CONFIG_FILE", script.path()}};
  const std::string complaints = run_world(
      4,
      [](ncclComm_t comm, int) -> std::string {
        const std::vector<int> in(5000, 3);
        std::vector<int> out(5000);
        ncclResult_t code = ncclAllReduce(in.data(), out.data(), in.size(), ncclInt32, ncclSum, comm, nullptr);
        code = failure_of(comm, code);
        char text[2048] = "";
        rondeCommGetLastError(comm, text, sizeof text);
        ncclCommAbort(comm);
        if (code != ncclInvalidUsage) return "code " + std::to_string(code) + ": " + text;
        return contains(text, "a tuner plugin has to answer the same on all") ? "" : text;
      },
      false);
  CHECK(complaints == "");
}

TEST_CASE("what a plugin says goes to the log", "[world][tuner]") {
  const Tried tried = tried_with(plugin("example5"), "say hello\n");
  INFO(tried.log);
  CHECK(contains(tried.log, "example.c:7 RONDE WARN tuner plugin: hello and 42"));
}

TEST_CASE("a plugin is asked for every call, and by explain", "[world][tuner]") {
  const Script script("");
  const ScopedEnv env{{"RONDE_TUNER_PLUGIN", plugin("example4").c_str()}, {"NCCL_TUNER_CONFIG_FILE", script.path()}};
  const std::string complaints = run_world(2, [](ncclComm_t comm, int) -> std::string {
    for (int i = 0; i < 5; ++i) {
      const std::string complaint = sums(comm, 2);
      if (!complaint.empty()) return complaint;
    }
    explained(comm);
    return "";
  });
  CHECK(complaints == "");
  CHECK(script.said("get").size() == 12);
}

TEST_CASE("in another process: prefers ring", "[.tuner-child]") {
  const std::string complaints = run_world(2, [](ncclComm_t comm, int) -> std::string {
    const rondeChoice_t choice = explained(comm);
    return std::string(choice.algorithm) == "ring" ? sums(comm, 2) : std::string(choice.algorithm) + ": " + choice.reason;
  });
  REQUIRE(complaints == "");
}

TEST_CASE("a plugin is found by its name, and in the program itself", "[world][tuner]") {
  const Script script("set 1 2 0\n");
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const auto run = [&](const std::string& variables) {
    const std::string command =
        "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 NCCL_TUNER_CONFIG_FILE=" + std::string(script.path()) + " " +
        variables + " '" + self + "' '[.tuner-child]' >/dev/null 2>&1";
    return std::system(command.c_str()) == 0;
  };
  CHECK(run("LD_LIBRARY_PATH=" + kFolder + " NCCL_TUNER_PLUGIN=example4"));
  CHECK(run("LD_LIBRARY_PATH=" + kFolder + " NCCL_TUNER_PLUGIN=libnccl-tuner-example3.so"));
  CHECK(run("LD_PRELOAD=" + plugin("example5") + " NCCL_TUNER_PLUGIN=static_plugin"));
  CHECK_FALSE(run("LD_LIBRARY_PATH=" + kFolder + " NCCL_TUNER_PLUGIN=NONE"));
  CHECK_FALSE(run("LD_LIBRARY_PATH=" + kFolder));  // no libnccl-tuner.so there
  // The name that is looked for where none is given.
  const std::string folder = std::string(script.path()) + ".d";
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink(plugin("example5"), folder + "/libnccl-tuner.so");
  CHECK(run("LD_LIBRARY_PATH=" + folder));
  CHECK_FALSE(run("LD_LIBRARY_PATH=" + folder + " NCCL_TUNER_PLUGIN=none"));
  // Else a network plugin's library may have one.
  const std::string net = "NCCL_NET_PLUGIN=" RONDE_TEST_BUILD "/tests/support/netplugin/libnccl-net-example10.so,none,";
  CHECK(run(net + plugin("example5")));
  CHECK_FALSE(run(net + plugin("incomplete")));
  CHECK_FALSE(run(net + plugin("example5") + " NCCL_TUNER_PLUGIN=none"));
  CHECK_FALSE(run(net + plugin("example5") + " NCCL_TUNER_PLUGIN=nowhere"));
  std::filesystem::create_symlink(plugin("example5"), folder + "/libnccl-net.so");
  std::filesystem::remove(folder + "/libnccl-tuner.so");
  CHECK(run("LD_LIBRARY_PATH=" + folder));
  std::filesystem::remove_all(folder);
}
