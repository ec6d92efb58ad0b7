#include "support/children.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/core.h>

#include "base/clock.h"
#include "support/catch.h"

extern char** environ;

namespace ronde::test {
namespace {

constexpr int kFirstFd = 10;  // in a child: control, then one for each bootstrap
constexpr const char* kVariable = "TEST_CHILD";

std::map<std::string, Role>& roles() {
  static std::map<std::string, Role> all;
  return all;
}

bool write_all(int fd, const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool read_all(int fd, void* data, size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = read(fd, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// A rank's end of a bootstrap that only gathers: its part goes to the test's process, the whole comes back.
class PipeBootstrap final : public Bootstrap {
 public:
  PipeBootstrap(int rank, int size, int fd) : rank_(rank), size_(size), fd_(fd) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::array<uint64_t, 2> token() const override { return {1, 2}; }
  Result<> all_gather(std::span<std::byte> all) override {
    const uint64_t part = all.size() / static_cast<size_t>(size_);
    uint64_t answer = 0;
    if (!write_all(fd_, &part, sizeof part) || !write_all(fd_, all.data() + part * static_cast<size_t>(rank_), part) ||
        !read_all(fd_, &answer, sizeof answer) || answer != all.size() || !read_all(fd_, all.data(), all.size())) {
      return fail(Code::remote_error, "test bootstrap: a rank has ended");
    }
    return {};
  }
  Result<std::vector<std::vector<std::byte>>> all_gather_parts(std::vector<std::byte>) override { return unsupported(); }
  ChildJob split(int, int, const AbortWord*, std::function<bool()>) override { return unsupported; }
  ChildJob shrink(std::span<const int>, const AbortWord*) override { return unsupported; }
  void set_deadline(std::optional<Deadline>) override {}
  std::string describe() const override { return "pipes of a test"; }
  void listen_posts(OnPost, OnGone) override {}
  Result<> post(int, std::span<const std::byte>) override { return unsupported(); }

 private:
  static Error unsupported() { return fail(Code::internal_error, "the test bootstrap only gathers equal parts"); }
  int rank_, size_, fd_;
};

// Collects a round from all ranks and gives it back; ends when all have gone. A rank that has gone fails the round for the
// others.
void run_hub(std::vector<UniqueFd> fds) {
  for (;;) {
    std::vector<std::byte> whole;
    std::vector<size_t> there;
    for (size_t rank = 0; rank < fds.size(); ++rank) {
      uint64_t part = 0;
      if (!read_all(fds[rank].get(), &part, sizeof part)) continue;
      const size_t at = whole.size();
      whole.resize(at + part);
      if (read_all(fds[rank].get(), whole.data() + at, part)) there.push_back(rank);
    }
    if (there.empty()) return;
    const uint64_t answer = there.size() == fds.size() ? whole.size() : 0;
    for (const size_t rank : there) {
      if (write_all(fds[rank].get(), &answer, sizeof answer) && answer != 0)
        write_all(fds[rank].get(), whole.data(), whole.size());
    }
  }
}

std::pair<UniqueFd, UniqueFd> make_pair() {
  int fds[2] = {-1, -1};
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

std::string read_line(int fd, int timeout_ms) {
  std::string line;
  const Deadline deadline = Deadline::in(timeout_ms / 1e3);
  for (;;) {
    pollfd one{fd, POLLIN, 0};
    const int n = poll(&one, 1, deadline.left_ms(timeout_ms));
    if (n < 0 && errno == EINTR) continue;
    char c = 0;
    if (n == 0) return "(nothing)";
    if (read(fd, &c, 1) != 1) return line.empty() ? "(ended)" : line;
    if (c == '\n') return line;
    line += c;
  }
}

}  // namespace

void Child::say(const std::string& line) const {
  const std::string text = line + "\n";
  write_all(control, text.data(), text.size());
}

std::string Child::hear() const {
  const std::string line = read_line(control, 3600 * 1000);
  return line == "(ended)" ? "" : line;
}

RegisterRole::RegisterRole(const char* name, Role role) { roles()[name] = role; }

Children::Children(const ChildrenRequest& request) : members_(static_cast<size_t>(request.ranks)) {
  std::vector<std::vector<UniqueFd>> ends(static_cast<size_t>(request.ranks));  // of each rank: one for each bootstrap
  for (int i = 0; i < request.bootstraps; ++i) {
    std::vector<UniqueFd> hub_ends;
    for (auto& of_rank : ends) {
      auto [mine, theirs] = make_pair();
      hub_ends.push_back(std::move(mine));
      of_rank.push_back(std::move(theirs));
    }
    hubs_.emplace_back([hub_ends = std::move(hub_ends)]() mutable { run_hub(std::move(hub_ends)); });
  }
  for (int rank = 0; rank < request.ranks; ++rank) {
    auto& of_rank = ends[static_cast<size_t>(rank)];
    if (rank == 0 && request.self) {
      for (UniqueFd& fd : of_rank) own_.push_back(std::make_unique<PipeBootstrap>(0, request.ranks, fd.get()));
      own_ends_ = std::move(of_rank);
    } else {
      start(rank, request, of_rank);
    }
  }
}

void Children::start(int rank, const ChildrenRequest& request, std::vector<UniqueFd>& ends) {
  auto [mine, theirs] = make_pair();
  const std::string value =
      fmt::format("{}={} {} {} {} {}", kVariable, request.role, rank, request.ranks, request.bootstraps, request.argument);
  std::vector<char*> environment;
  for (char** it = environ; *it != nullptr; ++it) environment.push_back(*it);
  environment.push_back(const_cast<char*>(value.c_str()));
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  // High numbers first: a target must not be one of the sources that are still to be copied.
  std::vector<UniqueFd> sources;
  sources.emplace_back(fcntl(theirs.get(), F_DUPFD_CLOEXEC, 500));
  for (UniqueFd& end : ends) sources.emplace_back(fcntl(end.get(), F_DUPFD_CLOEXEC, 500));
  for (size_t i = 0; i < sources.size(); ++i) {
    posix_spawn_file_actions_adddup2(&actions, sources[i].get(), kFirstFd + static_cast<int>(i));
  }
  char program[] = "/proc/self/exe", filter[] = "[.child]";
  char* arguments[] = {program, filter, nullptr};
  pid_t pid = 0;
  const int rc = posix_spawn(&pid, program, &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(rc == 0);
  members_[static_cast<size_t>(rank)] = Member{pid, std::move(mine)};
  ends.clear();
}

Children::~Children() {
  for (Member& member : members_) {
    if (member.pid > 0) kill(member.pid, SIGKILL);
  }
  for (Member& member : members_) {
    if (member.pid > 0) waitpid(member.pid, nullptr, 0);
  }
  own_ends_.clear();
  for (std::thread& hub : hubs_) hub.join();
}

void Children::say(int rank, const std::string& line) {
  const std::string text = line + "\n";
  write_all(members_[static_cast<size_t>(rank)].control.get(), text.data(), text.size());
}

std::string Children::hear(int rank) { return read_line(members_[static_cast<size_t>(rank)].control.get(), 60 * 1000); }

void Children::signal(int rank, int number) { kill(pid(rank), number); }

bool ends_within(pid_t pid, double seconds) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd waiting{process.get(), POLLIN, 0};
  return poll(&waiting, 1, static_cast<int>(seconds * 1000)) == 1;
}

std::string Children::wait(int rank) {
  Member& member = members_[static_cast<size_t>(rank)];
  int status = 0;
  if (!ends_within(member.pid, 60)) return "still running";
  waitpid(member.pid, &status, 0);
  member.pid = 0;
  return WIFEXITED(status) ? fmt::format("exited {}", WEXITSTATUS(status)) : fmt::format("signal {}", WTERMSIG(status));
}

// Not a test: what a child process runs.
TEST_CASE("child", "[.child]") {
  const char* value = getenv(kVariable);
  if (value == nullptr) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  char name[64] = "";
  int rank = 0, ranks = 0, bootstraps = 0, used = 0;
  if (sscanf(value, "%63s %d %d %d %n", name, &rank, &ranks, &bootstraps, &used) != 4 || roles().count(name) == 0) _exit(99);
  Child child{rank, ranks, value + used, {}, kFirstFd};
  std::vector<std::unique_ptr<PipeBootstrap>> owned;
  for (int i = 0; i < bootstraps; ++i) owned.push_back(std::make_unique<PipeBootstrap>(rank, ranks, kFirstFd + 1 + i));
  for (auto& bootstrap : owned) child.bootstraps.push_back(bootstrap.get());
  exit(roles().at(name)(child));  // as a program does: static objects are destroyed
}

}  // namespace ronde::test
