// ronde-run: starts the processes of a job on this host, and ends them together.
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tools/ronde_run_hosts.h"
#include "tools/ronde_run_options.h"
#include "tools/ronde_run_stream.h"

namespace ronde::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTimedOut = 124;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

/// A port of the loopback address that nobody else is given while this holds it: bound, not listening, so that a process which
/// sets SO_REUSEADDR, as servers do, may still listen there.
class HeldPort {
 public:
  HeldPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (fd_ < 0 || bind(fd_, generic, length) != 0 || getsockname(fd_, generic, &length) != 0) {
      say(fmt::format("cannot find a free port for MASTER_PORT: {} (errno {})", std::strerror(errno), errno));
      std::exit(1);
    }
    port_ = ntohs(address.sin_port);
  }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

/// Where a rank runs.
struct Place {
  int host = -1;  // -1: no host of ours
  int local_rank = 0;
  int local_ranks = 1;
};

struct Process {
  pid_t pid = -1;  // -1: ended and reaped
  int rank = 0;
};

/// The job from start to end.
class Job {
 public:
  explicit Job(const Options& options) : options_(options), places_(static_cast<size_t>(options.ranks)) {
    if (options_.split.empty()) {
      for (int rank = 0; rank < options_.ranks; ++rank) places_[static_cast<size_t>(rank)] = {-1, rank, options_.ranks};
    }
    for (size_t host = 0; host < options_.split.size(); ++host) {
      const std::vector<int>& ranks = options_.split[host];
      for (size_t i = 0; i < ranks.size(); ++i) {
        places_[static_cast<size_t>(ranks[i])] = {static_cast<int>(host), static_cast<int>(i), static_cast<int>(ranks.size())};
      }
    }
  }

  int run() {
    if (!options_.split.empty()) {
      const std::string why = net_.make(static_cast<int>(options_.split.size()), options_.links);
      if (!why.empty()) {
        say("cannot make hosts: " + why);
        return 1;
      }
    }
    take_signals();
    raise_file_limit();
    // Whoever a process leaves behind becomes ours, and is ended with the job.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int rank = 0; rank < options_.ranks && !ending_; ++rank) start(rank);
    if (options_.timeout > 0) deadline_ = Clock::now() + seconds(options_.timeout);
    while (running() > 0) step();
    for (Stream& stream : streams_) stream.pump();
    for (Stream& stream : streams_) stream.close_end();
    end_orphans();
    return status_;
  }

 private:
  static Clock::duration seconds(double value) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
  }

  void take_signals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals_, signal);
    sigprocmask(SIG_BLOCK, &signals_, &outer_mask_);
    signal(SIGPIPE, SIG_IGN);
    signal_fd_ = signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd_ < 0) {
      say(fmt::format("signalfd: {} (errno {})", std::strerror(errno), errno));
      std::exit(1);
    }
  }

  void raise_file_limit() {
    getrlimit(RLIMIT_NOFILE, &outer_files_);
    rlimit most = outer_files_;
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_NOFILE, &most);
  }

  int running() const {
    return static_cast<int>(std::count_if(processes_.begin(), processes_.end(), [](const Process& p) { return p.pid > 0; }));
  }

  void start(int rank) {
    std::array<int, 2> out = {-1, -1};
    std::array<int, 2> err = {-1, -1};
    std::array<int, 2> failed = {-1, -1};
    const bool pipes = !options_.prefix || (pipe2(out.data(), O_CLOEXEC) == 0 && pipe2(err.data(), O_CLOEXEC) == 0);
    if (!pipes || pipe2(failed.data(), O_CLOEXEC) != 0) return cannot_start(rank, "pipe", errno);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return cannot_start(rank, "fork", errno);
    if (pid == 0) child(rank, parent, out[1], err[1], failed[1]);
    setpgid(pid, pid);  // here too: whichever of the two comes first
    processes_.push_back({pid, rank});
    close(failed[1]);
    if (options_.prefix) {
      close(out[1]);
      close(err[1]);
      for (const int fd : {out[0], err[0]}) fcntl(fd, F_SETFL, O_NONBLOCK);
      const std::string prefix = fmt::format("[{}] ", rank);
      streams_.emplace_back(out[0], STDOUT_FILENO, prefix);
      streams_.emplace_back(err[0], STDERR_FILENO, prefix);
    }
    int error = 0;
    if (read(failed[0], &error, sizeof error) == sizeof error) {
      say(fmt::format("cannot run '{}': {} (errno {})", options_.command[0], std::strerror(error), error));
      end(error == ENOENT ? kNotFound : kCannotRun);
    }
    close(failed[0]);
  }

  void cannot_start(int rank, const char* call, int error) {
    say(fmt::format("cannot start the process of rank {}: {}: {} (errno {}); fewer processes, or a higher limit (ulimit -n, -u)",
                    rank, call, std::strerror(error), error));
    end(1);
  }

  [[noreturn]] void child(int rank, pid_t parent, int out, int err, int failed) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // it died before the line above
    if (out >= 0) dup2(out, STDOUT_FILENO);
    if (err >= 0) dup2(err, STDERR_FILENO);
    if (rank > 0 || isatty(STDIN_FILENO) != 0) {
      const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      dup2(nothing, STDIN_FILENO);
    }
    set_variables(rank);
    const int host = places_[static_cast<size_t>(rank)].host;
    if (const std::string why = host < 0 ? "" : move_into(net_.host(host)); !why.empty()) {
      say(fmt::format("cannot move rank {} to host {}: {}", rank, host, why));
      _exit(kCannotRun);
    }
    setrlimit(RLIMIT_NOFILE, &outer_files_);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &outer_mask_, nullptr);
    execvp(options_.command[0], options_.command);
    const int error = errno;
    const ssize_t told = write(failed, &error, sizeof error);
    _exit(told == sizeof error ? kNotFound : kCannotRun);
  }

  void set_variables(int rank) {
    const Place& place = places_[static_cast<size_t>(rank)];
    const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 1); };
    set("RANK", std::to_string(rank));
    set("WORLD_SIZE", std::to_string(options_.ranks));
    set("LOCAL_RANK", std::to_string(place.local_rank));
    set("LOCAL_WORLD_SIZE", std::to_string(place.local_ranks));
    set("MASTER_ADDR", place.host < 0 ? "127.0.0.1" : HostNet::address(places_[0].host, 0));
    set("MASTER_PORT", std::to_string(port_.port()));
    if (place.host >= 0) set("NCCL_HOSTID", fmt::format("host{}", place.host));
  }

  /// Waits for whatever comes next, and deals with it.
  void step() {
    std::vector<pollfd> fds = {{signal_fd_, POLLIN, 0}};
    std::vector<Stream*> of;
    for (Stream& stream : streams_) {
      if (!stream.open()) continue;
      fds.push_back({stream.descriptor(), POLLIN, 0});
      of.push_back(&stream);
    }
    poll(fds.data(), fds.size(), milliseconds_left());
    for (size_t i = 0; i < of.size(); ++i) {
      if (fds[i + 1].revents != 0 && !of[i]->pump()) end(128 + SIGPIPE);
    }
    if ((fds[0].revents & POLLIN) != 0) read_signals();
    if (deadline_ && Clock::now() >= *deadline_) pass_deadline();
  }

  int milliseconds_left() const {
    if (!deadline_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, 1000 * 1000));
  }

  void pass_deadline() {
    if (ending_) {
      signal_all(SIGKILL);
      deadline_.reset();
      return;
    }
    say(fmt::format("the job has not ended within {:g} s; ending it", options_.timeout));
    end(kTimedOut);
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (read(signal_fd_, &info, sizeof info) == sizeof info) {
      const auto signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) end(128 + signal, signal);
    }
    reap();
  }

  void reap() {
    struct Ended {
      const Process* process;
      pid_t pid;
      int status;
    };
    std::vector<Ended> ended;
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      const auto found = std::find_if(processes_.begin(), processes_.end(), [pid](const Process& p) { return p.pid == pid; });
      if (found == processes_.end()) continue;  // left behind by one of ours
      found->pid = -1;
      // What else this process started ends with it.
      kill(-pid, SIGKILL);
      ended.push_back({&*found, pid, status});
    }
    // Of several that have ended, one that a signal ended is the cause, and the others followed.
    std::stable_partition(ended.begin(), ended.end(), [](const Ended& one) { return WIFSIGNALED(one.status); });
    for (const Ended& one : ended) judge(*one.process, one.pid, one.status);
  }

  void judge(const Process& process, pid_t pid, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    // Peers see that a process was killed, and may fail, before it can be reaped. Only SIGKILL is beyond doubt: others may be how it took SIGTERM.
    const bool cause = followed_ && !killed_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (ending_ && !cause) return;
    const std::string others = running() > 0 ? "; ending the others" : "";
    if (WIFSIGNALED(status)) {
      say(fmt::format("rank {} (pid {}) was ended by signal {} ({}){}", process.rank, pid, WTERMSIG(status),
                      strsignal(WTERMSIG(status)), others));
      end(128 + WTERMSIG(status));
    } else {
      say(fmt::format("rank {} (pid {}) ended with status {}{}", process.rank, pid, WEXITSTATUS(status), others));
      end(WEXITSTATUS(status));
      followed_ = true;
    }
    if (cause) {
      status_ = 128 + SIGKILL;
      followed_ = false;
    }
  }

  /// Begins the end of the job; the first reason gives the status.
  void end(int status, int signal = SIGTERM) {
    signal_all(signal);
    if (ending_) return;
    ending_ = true;
    status_ = status;
    deadline_ = Clock::now() + seconds(options_.grace);
  }

  void signal_all(int signal) {
    killed_ |= signal == SIGKILL;
    for (const Process& process : processes_) {
      if (process.pid <= 0) continue;
      kill(-process.pid, signal);
      if (signal != SIGKILL) kill(-process.pid, SIGCONT);  // one that is stopped would not hear it
    }
  }

  /// Ends what the processes have left behind in other process groups.
  static void end_orphans() {
    constexpr int kRounds = 100;  // each may uncover grandchildren
    for (int i = 0; i < kRounds; ++i) {
      std::ifstream children(fmt::format("/proc/self/task/{}/children", getpid()));
      bool any = false;
      for (pid_t pid = 0; children >> pid; any = true) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
      }
      if (!any) return;
    }
  }

  const Options& options_;
  std::vector<Place> places_;  // by rank
  HostNet net_;
  HeldPort port_;
  sigset_t signals_{};
  sigset_t outer_mask_{};
  rlimit outer_files_{};
  int signal_fd_ = -1;
  std::vector<Process> processes_;
  std::vector<Stream> streams_;
  bool ending_ = false;
  bool followed_ = false;  // it is ending because a process failed by itself, which may have followed another's death
  bool killed_ = false;    // SIGKILL has been sent to all
  int status_ = 0;
  std::optional<Clock::time_point> deadline_;  // of the job, and once it is ending, of the grace
};

}  // namespace
}  // namespace ronde::run

int main(int argc, char** argv) {
  const ronde::run::Options options = ronde::run::parse(argc, argv);
  return ronde::run::Job(options).run();
}
