// ronde-run: exit status, prefixes, and that nothing of a job survives it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "proc/command.h"
#include "support/catch.h"
#include "support/children.h"

namespace {

using ronde::test::contains;
using ronde::test::ends_within;
using ronde::test::finish;
using ronde::test::Folder;
using ronde::test::Outcome;
using ronde::test::sorted_lines;
using ronde::test::text_of;

Outcome run(const std::string& arguments, const Folder& folder = {}) {
  return ronde::test::run_command(ronde::test::built_file("tools/ronde-run") + " " + arguments, folder);
}

pid_t start(const Folder& folder, const std::string& arguments) {
  return ronde::test::launch(folder, ronde::test::built_file("tools/ronde-run") + " " + arguments);
}

/// Waits until `count` processes have written their ids to files in `folder`, for 20 s at most.
std::vector<pid_t> written_pids(const Folder& folder, size_t count) {
  const ronde::Deadline deadline = ronde::Deadline::in(20);
  for (;;) {
    std::vector<pid_t> pids;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
      if (entry.path().extension() != ".pid") continue;
      pid_t pid = 0;
      if (std::istringstream(text_of(entry.path())) >> pid) pids.push_back(pid);
    }
    if (pids.size() == count) return pids;
    REQUIRE_FALSE(deadline.passed());
    std::this_thread::yield();
  }
}

bool all_end_within(const std::vector<pid_t>& pids, double seconds) {
  return std::all_of(pids.begin(), pids.end(), [&](pid_t pid) { return ends_within(pid, seconds); });
}

}  // namespace

TEST_CASE("ronde-run: each process knows its place", "[ronde-run]") {
  const Outcome job =
      run("-n 3 sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR; echo $MASTER_PORT > $RANK.port'");
  CHECK(job.status == 0);
  CHECK(job.err.empty());
  CHECK(sorted_lines(job.out) ==
        std::vector<std::string>{"[0] 0 3 0 3 127.0.0.1", "[1] 1 3 1 3 127.0.0.1", "[2] 2 3 2 3 127.0.0.1"});
}

TEST_CASE("ronde-run: all processes get one port, and may listen there", "[ronde-run]") {
  const Folder folder;
  CHECK(run("-n 4 sh -c 'echo $MASTER_PORT > $RANK.port'", folder).status == 0);
  const std::string port = text_of(folder.path / "0.port");
  CHECK(std::stoi(port) > 1023);
  for (const char* other : {"1.port", "2.port", "3.port"}) CHECK(text_of(folder.path / other) == port);
}

TEST_CASE("ronde-run: output is prefixed by whole lines, each stream by itself", "[ronde-run]") {
  const Outcome job = run("-n 2 sh -c 'printf \"a\\nb\"; printf \"%s\" c >&2'");
  CHECK(sorted_lines(job.out) == std::vector<std::string>{"[0] a", "[0] b", "[1] a", "[1] b"});
  CHECK(sorted_lines(job.err) == std::vector<std::string>{"[0] c", "[1] c"});
  CHECK(sorted_lines(run("-n 2 --no-prefix echo x").out) == std::vector<std::string>{"x", "x"});
}

TEST_CASE("ronde-run: nothing of a large output is lost or mixed", "[ronde-run]") {
  const Outcome job =
      run("-n 4 sh -c 'i=0; while [ $i -lt 20000 ]; do echo $RANK-$i-abcdefghijklmnopqrstuvwxyz; i=$((i+1)); done'");
  std::istringstream lines(job.out);
  std::vector<int> next(4);
  for (std::string line; std::getline(lines, line);) {
    const auto rank = static_cast<size_t>(line[1] - '0');
    REQUIRE(rank < 4);
    REQUIRE(line == "[" + std::to_string(rank) + "] " + std::to_string(rank) + "-" + std::to_string(next[rank]) +
                        "-abcdefghijklmnopqrstuvwxyz");
    ++next[rank];
  }
  CHECK(next == std::vector<int>(4, 20000));
}

TEST_CASE("ronde-run: the first failure ends the job and gives the status", "[ronde-run]") {
  const Outcome failed = run("-n 3 sh -c 'if [ $RANK = 1 ]; then exit 7; fi; exec sleep 100'");
  CHECK(failed.status == 7);
  CHECK(failed.seconds < 20);
  CHECK(contains(failed.err, "rank 1 (pid "));
  CHECK(contains(failed.err, "ended with status 7; ending the others"));
  const Outcome killed = run("-n 2 sh -c 'if [ $RANK = 0 ]; then kill -9 $$; fi; exec sleep 100'");
  CHECK(killed.status == 128 + SIGKILL);
  CHECK(contains(killed.err, "rank 0 (pid "));
  CHECK(contains(killed.err, "signal 9 (Killed)"));
}

TEST_CASE("ronde-run: a process that was killed gives the status, also where others failed first", "[ronde-run]") {
  SECTION("both have ended when the launcher looks") {
    const Folder folder;
    const pid_t pid =
        start(folder, "-n 2 sh -c 'trap \"exit 3\" TERM; echo $$ > $RANK.pid; while :; do sleep 0.02; done'");
    written_pids(folder, 2);
    const pid_t failing = std::stoi(text_of(folder.path / "0.pid")), killed = std::stoi(text_of(folder.path / "1.pid"));
    kill(pid, SIGSTOP);
    kill(failing, SIGTERM);
    CHECK(ends_within(failing, 30));
    kill(killed, SIGKILL);
    CHECK(ends_within(killed, 30));
    kill(pid, SIGCONT);
    const Outcome job = finish(folder, pid);
    CHECK(job.status == 128 + SIGKILL);
    CHECK(contains(job.err, "rank 1 (pid "));
    CHECK_FALSE(contains(job.err, "rank 0"));
  }
  SECTION("the killed one ends later") {
    const Outcome job = run(
        "-n 2 sh -c 'if [ $RANK = 0 ]; then while [ ! -e set ]; do sleep 0.02; done; exit 3; fi; trap \"kill -9 $$\" TERM; touch set; "
        "while :; do sleep 0.02; done'");
    CHECK(job.status == 128 + SIGKILL);
    CHECK(contains(job.err, "ended with status 3"));
    CHECK(contains(job.err, "rank 1 (pid "));
  }
}

TEST_CASE("ronde-run: one that does not hear SIGTERM is killed", "[ronde-run]") {
  const Outcome job =
      run("-n 2 --grace 0.2 sh -c 'trap \"\" TERM; if [ $RANK = 1 ]; then exit 3; fi; while :; do sleep 0.05; done'");
  CHECK(job.status == 3);
  CHECK(job.seconds < 20);
}

TEST_CASE("ronde-run: a stopped process ends too", "[ronde-run]") {
  const Outcome job = run("-n 2 sh -c 'if [ $RANK = 0 ]; then kill -STOP $$; else sleep 0.2; exit 5; fi'");
  CHECK(job.status == 5);
  CHECK(job.seconds < 20);
}

TEST_CASE("ronde-run: --timeout", "[ronde-run]") {
  const Outcome job = run("-n 2 --timeout 0.2 sleep 100");
  CHECK(job.status == 124);
  CHECK(contains(job.err, "has not ended within 0.2 s"));
}

TEST_CASE("ronde-run: a command that is not there", "[ronde-run]") {
  const Outcome job = run("-n 2 /nonexistent/program");
  CHECK(job.status == 127);
  CHECK(job.err == "ronde-run: cannot run '/nonexistent/program': No such file or directory (errno 2)\n");
  CHECK(run("-n 2 /dev/null").status == 126);
}

TEST_CASE("ronde-run: bad usage", "[ronde-run]") {
  CHECK(run("--nix").status == 2);
  CHECK(run("-n 2").status == 2);
  CHECK(run("true").status == 2);
  CHECK(run("-n many true").status == 2);
  CHECK(run("-n 2 --timeout soon true").status == 2);
  CHECK(contains(run("-n").err, "option '-n' needs a value"));
  const Outcome help = run("--help");
  CHECK(help.status == 0);
  CHECK(contains(help.out, "usage: ronde-run"));
  // The command's own options are its own.
  CHECK(run("-n 1 sh -c 'echo $1' sh --help").out == "[0] --help\n");
  CHECK(run("-n 1 -- echo -n x").out == "[0] x\n");
}

TEST_CASE("ronde-run: standard input belongs to rank 0", "[ronde-run]") {
  const Folder folder;
  std::ofstream(folder.path / "in") << "hello\n";
  CHECK(run("-n 3 cat < in", folder).out == "[0] hello\n");
}

TEST_CASE("ronde-run: signals are passed on, and everybody ends", "[ronde-run]") {
  const int signal = GENERATE(SIGINT, SIGTERM);
  const Folder folder;
  const std::string name = signal == SIGINT ? "INT" : "TERM";
  const pid_t pid =
      start(folder, "-n 2 sh -c 'trap \"echo heard; exit 0\" " + name + "; echo $$ > $RANK.pid; while :; do sleep 0.02; done'");
  const auto pids = written_pids(folder, 2);
  kill(pid, signal);
  const Outcome job = finish(folder, pid);
  CHECK(job.status == 128 + signal);
  CHECK(sorted_lines(job.out) == std::vector<std::string>{"[0] heard", "[1] heard"});
  CHECK(all_end_within(pids, 10));
}

TEST_CASE("ronde-run: processes die with their launcher", "[ronde-run]") {
  const Folder folder;
  const pid_t pid = start(folder, "-n 3 sh -c 'echo $$ > $RANK.pid; exec sleep 100'");
  const auto pids = written_pids(folder, 3);
  kill(pid, SIGKILL);
  CHECK(finish(folder, pid).status == 1000 + SIGKILL);
  CHECK(all_end_within(pids, 10));
}

TEST_CASE("ronde-run: what processes leave behind ends with the job", "[ronde-run]") {
  const Folder folder;
  // One stays in its parent's process group, the other leaves it; both keep the output open.
  const Outcome job = run("-n 1 sh -c 'sleep 100 & echo $! > near.pid; setsid sleep 100 & echo $! > far.pid'", folder);
  CHECK(job.status == 0);
  CHECK(job.seconds < 20);
  CHECK(all_end_within(written_pids(folder, 2), 10));
}

TEST_CASE("ronde-run: many processes", "[ronde-run]") {
  const Outcome job = run("-n 300 sh -c 'echo $RANK'");
  CHECK(job.status == 0);
  CHECK(sorted_lines(job.out).size() == 300);
}

TEST_CASE("ronde-run: a reader that closes ends the job", "[ronde-run]") {
  const Outcome job = run("-n 2 yes | head -n 1");
  CHECK(job.seconds < 20);
}
