// The log: names of files and subsystems, levels, whole lines.
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/fd.h"
#include "base/log.h"
#include "base/thread.h"
#include "support/catch.h"

using namespace ronde;
using namespace ronde::test;

namespace {

/// Sets variables of the log and reads its settings anew; puts everything back at the end. A forked child may log into a file of its own, so that
/// the files have a folder, which goes with all that is in it.
class LogTo {
 public:
  LogTo(const char* level, const char* subsystems) {
    REQUIRE(mkdtemp(folder_.data()) != nullptr);
    path_ = folder_ + "/" + std::to_string(getpid());
    for (const char* name : kNames) old_.emplace_back(getenv(name) != nullptr ? getenv(name) : "");
    setenv("RONDE_DEBUG", level, 1);
    setenv("RONDE_DEBUG_SUBSYS", subsystems, 1);
    setenv("RONDE_DEBUG_FILE", (folder_ + "/%p").c_str(), 1);
    log_reset();
  }
  ~LogTo() {
    for (size_t i = 0; i < old_.size(); ++i) old_[i].empty() ? unsetenv(kNames[i]) : setenv(kNames[i], old_[i].c_str(), 1);
    log_reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }

 private:
  static constexpr const char* kNames[] = {"RONDE_DEBUG", "RONDE_DEBUG_SUBSYS", "RONDE_DEBUG_FILE"};
  std::string folder_ = "/tmp/ronde-log-test-XXXXXX";
  std::string path_;
  std::vector<std::string> old_;
};

}  // namespace

TEST_CASE("the log's file name: host, process, percent, and nothing else", "[base]") {
  CHECK(expand_log_path("/tmp/%h.%p", "node1", 42) == "/tmp/node1.42");
  CHECK(expand_log_path("%h", "a/b%c", 1) == "a-b-c");
  CHECK(expand_log_path("100%%", "h", 1) == "100%");
  CHECK(expand_log_path("%x%", "h", 1) == "%x%");
  CHECK(expand_log_path("%%p", "h", 7) == "%p");
  CHECK(expand_log_path("~/log", "h", 1) == "~/log");
}

TEST_CASE("subsystems: lists, ALL, inversion, any case", "[base]") {
  CHECK(parse_subsystems("INIT") == 0x1);
  CHECK(parse_subsystems("init,NET") == 0x11);
  CHECK(parse_subsystems("BOOTSTRAP") == 0x1000);
  CHECK(parse_subsystems("ALLOC_HOST") == 0x20000);
  CHECK(parse_subsystems("ALL") == 0x3ffff);
  CHECK(parse_subsystems("^COLL") == (0x3ffff & ~0x2u));
  CHECK(parse_subsystems("^COLL,NET") == (0x3ffff & ~0x12u));
  CHECK(parse_subsystems("NOTHING,INIT") == 0x1);
  CHECK(parse_subsystems("") == 0);
}

TEST_CASE("words that are no subsystem are found, as they were written", "[base]") {
  using Words = std::vector<std::string>;
  CHECK(unknown_subsystems("INIT,net,ALL").empty());
  CHECK(unknown_subsystems("").empty());
  CHECK(unknown_subsystems("^COLL,Foo,,NET") == Words{"Foo", ""});
  CHECK(contains(known_subsystems(), "INIT, COLL,"));
  CHECK(contains(known_subsystems(), ", ALL"));
}

TEST_CASE("levels and subsystems decide what is written, and warnings pass every filter", "[base]") {
  const LogTo log("INFO", "NET");
  CHECK(log_enabled(Level::info, Subsys::net));
  CHECK_FALSE(log_enabled(Level::info, Subsys::init));
  CHECK_FALSE(log_enabled(Level::trace, Subsys::net));
  CHECK(log_enabled(Level::warn, Subsys::init));
  RONDE_INFO(net, "one {}", 1);
  RONDE_INFO(init, "not {}", 2);
  RONDE_WARN("three {}", 3);
  log_error(fail(Code::system_error, "four"));
  const auto lines = log.lines();
  REQUIRE(lines.size() == 3);
  CHECK(contains(lines[0], "RONDE INFO one 1"));
  CHECK(contains(lines[0], host_name() + ":" + std::to_string(getpid()) + ":"));
  CHECK(contains(lines[1], "base_log.cc:"));
  CHECK(contains(lines[1], "RONDE WARN three 3"));
  CHECK(contains(lines[2], "RONDE WARN four"));
}

TEST_CASE("level NONE writes nothing", "[base]") {
  const LogTo log("NONE", "ALL");
  RONDE_INFO(net, "x");
  RONDE_WARN("y");
  CHECK(log.lines().empty());
}

TEST_CASE("what is logged once is logged once, by any number of threads", "[base]") {
  const LogTo log("WARN", "");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([] { log_once("the log test's own line"); });
  for (std::thread& thread : threads) thread.join();
  CHECK(log.lines().size() == 1);
}

TEST_CASE("lines of many threads stay whole", "[base]") {
  const LogTo log("INFO", "ALL");
  std::vector<std::thread> threads;
  const std::string body(200, 'z');
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) RONDE_INFO(net, "<{}>", body);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = log.lines();
  CHECK(lines.size() == 400);
  for (const std::string& line : lines) CHECK((contains(line, "<" + body + ">") && line.back() == '>'));
}

TEST_CASE("a child of fork can log, whatever other threads were doing", "[base]") {
  const LogTo log("WARN", "");
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) RONDE_WARN("a line of the parent");
    });
  }
  int stuck = 0;
  for (int i = 0; i < 30; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      RONDE_WARN("a line of the child");
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    stuck += !WIFEXITED(status);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(stuck == 0);
}
