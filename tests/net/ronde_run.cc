// ronde-run --hosts: what a process finds on its host, and that nothing of it is left.
#include <sys/stat.h>
#include <unistd.h>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "net/hosts.h"
#include "proc/command.h"
#include "support/children.h"

using namespace ronde::test;

namespace {

Outcome run(const std::string& arguments) { return run_command(built_file("tools/ronde-run") + " " + arguments); }

}  // namespace

TEST_CASE("ronde-run --hosts: each process knows its place and sees its host's interfaces alone", "[net][ronde-run]") {
  RONDE_NEED_HOSTS();
  const Outcome job =
      run("-n 3 --hosts 0,2/1 --rails 2 sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $NCCL_HOSTID "
          "$(ls -x /sys/class/net) $(cat /proc/self/net/dev | wc -l)'");
  INFO(job.err);
  CHECK(job.status == 0);
  CHECK(sorted_lines(job.out) == std::vector<std::string>{"[0] 0 3 0 2 10.77.0.1 host0 eth0 eth1 lo 5",
                                                          "[1] 1 3 0 1 10.77.0.1 host1 eth0 eth1 lo 5",
                                                          "[2] 2 3 1 2 10.77.0.1 host0 eth0 eth1 lo 5"});
}

TEST_CASE("ronde-run --hosts: rates are kept, and what cannot be is an error", "[net][ronde-run]") {
  RONDE_NEED_HOSTS();
  const Outcome job =
      run("-n 2 --hosts 2 --rate 1gbit,200mbit --no-prefix sh -c 'tc qdisc show dev eth0; tc qdisc show dev eth1'");
  INFO(job.out << job.err);
  CHECK(contains(job.out, "rate 1Gbit"));
  CHECK(contains(job.out, "rate 200Mbit"));
  CHECK(run("-n 2 --hosts 3 true").status == 2);
  CHECK(run("-n 2 --rate 1gbit true").status == 2);
}

TEST_CASE("ronde-run --hosts: without the right to make hosts it says what to do", "[net][ronde-run]") {
  RONDE_NEED_HOSTS();
  if (getuid() != 0) RONDE_SKIP("not root, who alone can give rights up");
  const Outcome job =
      run_command("setpriv --bounding-set -sys_admin --inh-caps -all " + built_file("tools/ronde-run") + " -n 2 --hosts 2 true");
  INFO(job.err);
  CHECK(job.status == 1);
  CHECK(contains(job.err, "cannot make hosts: making a network namespace"));
  CHECK(contains(job.err, "unshare --map-root-user --net"));
}

TEST_CASE("ronde-run --hosts: nothing is left where it is killed", "[net][ronde-run]") {
  RONDE_NEED_HOSTS();
  const Folder folder;
  const pid_t pid = launch(folder, built_file("tools/ronde-run") +
                                       " -n 2 --hosts 2 sh -c 'echo $$ > $RANK.tmp; mv $RANK.tmp $RANK.pid; exec sleep 100'");
  std::vector<pid_t> ranks;
  for (const char* name : {"0.pid", "1.pid"}) {
    REQUIRE(comes([&] { return std::filesystem::exists(folder.path / name); }));
    ranks.push_back(std::stoi(text_of(folder.path / name)));
  }
  // A namespace of its own, of which no file keeps a name.
  const auto space = [](const std::string& process) { return std::filesystem::read_symlink("/proc/" + process + "/ns/net"); };
  CHECK(space(std::to_string(ranks[0])) != space("self"));
  CHECK(space(std::to_string(ranks[0])) != space(std::to_string(ranks[1])));
  CHECK_FALSE(contains(text_of("/proc/self/mountinfo"), space(std::to_string(ranks[0]))));
  kill(pid, SIGKILL);
  finish(folder, pid);
  for (const pid_t rank : ranks) CHECK(ends_within(rank, 20));
}
