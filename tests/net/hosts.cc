#include "net/hosts.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstring>
#include <sstream>

namespace ronde::test {
namespace {

std::vector<std::string> words(const std::string& command) {
  std::istringstream in(command);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

/// A process on a host that runs `body`; it ends with the test's own.
pid_t start(const run::NetSpace& host, const std::function<void()>& body) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (run::move_into(host).empty()) body();
  _exit(0);
}

}  // namespace

const std::string& why_no_hosts() {
  static const std::string why = [] {
    run::HostNet net;
    return net.make(1, {});
  }();
  return why;
}

HostWorld::HostWorld(int ranks, const std::string& split, const run::Links& links)
    : ranks_(ranks), host_of_(static_cast<size_t>(ranks)) {
  void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(at != MAP_FAILED);
  REQUIRE(ranks <= kMostRanks);
  shared_ = static_cast<Shared*>(at);  // zeros are what all of it begins with
  run::Split hosts;
  REQUIRE(run::read_split(split, ranks, hosts) == "");
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (const int rank : hosts[host]) host_of_.at(static_cast<size_t>(rank)) = static_cast<int>(host);
  }
  REQUIRE(net_.make(static_cast<int>(hosts.size()), links) == "");
}

HostWorld::~HostWorld() {
  for (const pid_t pid : companions_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  munmap(shared_, sizeof(Shared));
}

void HostWorld::on_host(int host, const std::string& command) { REQUIRE(net_.host(host).run(words(command)) == ""); }
void HostWorld::set(int host, const std::string& file, const std::string& value) {
  REQUIRE(net_.host(host).run({"sh", "-c", "echo '" + value + "' > /proc/sys/" + file}) == "");
}
void HostWorld::between(const std::string& command) { REQUIRE(net_.between().run(words(command)) == ""); }

void HostWorld::add_interface(int host, const std::string& name, const std::vector<std::string>& addresses) {
  on_host(host, "ip link add " + name + " type veth peer name far-" + name);
  on_host(host, "ip link set far-" + name + " up");
  on_host(host, "ip link set " + name + " up");
  for (const std::string& address : addresses) on_host(host, "ip address add " + address + " dev " + name);
}

void HostWorld::cut(int host, int rail) {
  between("ip link set h" + std::to_string(host) + "." + std::to_string(rail) + " nomaster");
}
void HostWorld::mend(int host, int rail) {
  between("ip link set h" + std::to_string(host) + "." + std::to_string(rail) + " master br" + std::to_string(rail));
}

std::vector<std::string> HostWorld::run(const std::function<std::string(int)>& body, const std::function<void()>& meanwhile,
                                        int seconds) {
  for (auto& count : shared_->counts) count = 0;
  shared_->put = false;
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks_; ++rank) {
    shared_->answers[rank].done = false;
    pids.push_back(start(net_.host(host_of(rank)), [&] {
      alarm(static_cast<unsigned>(seconds));
      const std::string text = body(rank);
      strncpy(shared_->answers[rank].text, text.c_str(), sizeof shared_->answers[rank].text - 1);
      shared_->answers[rank].done = true;
    }));
  }
  if (meanwhile) meanwhile();
  std::vector<std::string> answers;
  for (int rank = 0; rank < ranks_; ++rank) {
    waitpid(pids[static_cast<size_t>(rank)], nullptr, 0);
    answers.emplace_back(shared_->answers[rank].done ? shared_->answers[rank].text : "(no answer)");
    memset(shared_->answers[rank].text, 0, sizeof shared_->answers[rank].text);
  }
  return answers;
}

void HostWorld::accompany(int host, const std::function<void()>& body) { companions_.push_back(start(net_.host(host), body)); }

void HostWorld::put(const void* bytes, size_t size) {
  memcpy(shared_->bytes, bytes, std::min(size, sizeof shared_->bytes));
  shared_->put = true;
}

void HostWorld::get(void* bytes, size_t size) {
  comes([&] { return shared_->put.load(); });
  memcpy(bytes, shared_->bytes, std::min(size, sizeof shared_->bytes));
}

}  // namespace ronde::test
