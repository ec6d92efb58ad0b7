#include "tools/plan/measure.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>
#include <thread>

#include "base/clock.h"
#include "tools/plan/pair.h"

namespace ronde::plan::tool {
namespace {

constexpr uint64_t kLongest = 600 * kSecond;

/// Waits for the children, bounded; what is left is killed. True if all ended by themselves and well.
bool all_ended(const std::vector<pid_t>& children) {
  const uint64_t deadline = now_ns() + kLongest;
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0 && good && now_ns() < deadline) {
      const timespec pause{0, 10'000'000};
      nanosleep(&pause, nullptr);
    }
    if (ended == 0) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
    }
    good = good && ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

/// Memory that children share with this process.
class Shared {
 public:
  explicit Shared(size_t bytes)
      : bytes_(bytes), at_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~Shared() {
    if (at_ != MAP_FAILED) munmap(at_, bytes_);
  }
  Shared(const Shared&) = delete;
  void* at() const { return at_ == MAP_FAILED ? nullptr : at_; }

 private:
  size_t bytes_;
  void* at_;
};

/// In a child: one rank, or both as threads.
void child(Board& board, HopKind kind, int first, const std::vector<Task>& tasks, Samples samples) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (kind == HopKind::shm) {
    live(board, first, kind, tasks, samples);
  } else {
    std::thread other([&] { live(board, 1, kind, tasks, samples); });
    live(board, 0, kind, tasks, samples);
    other.join();
  }
  _exit(board.failed.load() == 0 ? 0 : 1);
}

}  // namespace

double Task::median() const {
  if (nanos.empty()) return 0;
  std::vector<double> sorted = nanos;
  std::sort(sorted.begin(), sorted.end());
  return sorted[sorted.size() / 2];
}

Result<double> measure(HopKind kind, int rounds, std::vector<Task>& tasks) {
  const Shared shared(sizeof(Board) + Samples::bytes(tasks.size(), rounds));
  if (shared.at() == nullptr)
    return fail(Code::system_error, fmt::format("mapping memory for measurements: {}", strerror(errno)));
  Board& board = *new (shared.at()) Board;
  const Samples samples(&board + 1, tasks.size(), rounds);
  fflush(stdout);
  std::vector<pid_t> children;
  for (int i = 0; i < (kind == HopKind::shm ? kRanks : 1); ++i) {
    const pid_t pid = fork();
    if (pid == 0) child(board, kind, i, tasks, samples);
    if (pid < 0) board.failed.store(1);
    if (pid > 0) children.push_back(pid);
  }
  const bool good = all_ended(children);
  if (!good || board.failed.load() != 0) {
    const std::string why = board.what[0] != 0 ? board.what : "a rank did not end, or died";
    return fail(Code::system_error, fmt::format("measuring with two ranks ({}): {}", to_string(kind), why));
  }
  std::vector<std::vector<double>> nanos = samples.chosen();
  for (size_t t = 0; t < tasks.size(); ++t) tasks[t].nanos = std::move(nanos[t]);
  return samples.place();
}

}  // namespace ronde::plan::tool
