// ronde-run: starts the processes of a job on this host, and ends them together.
#include <fcntl.h>
#include <fmt/core.h>
#include <getopt.h>
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
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kUsage = 2;
constexpr int kTimedOut = 124;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
constexpr int kMostRanks = 4096;

struct Options {
  int ranks = 0;
  bool prefix = true;
  double timeout = 0;  // seconds; 0: none
  double grace = 5;    // seconds between SIGTERM and SIGKILL
  char** command = nullptr;
};

constexpr const char* kHelp =
    "usage: ronde-run -n N [options] [--] COMMAND [ARGUMENT...]\n"
    "\n"
    "Starts N processes of COMMAND on this host. Each gets RANK (0 to N-1), WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,\n"
    "MASTER_ADDR and MASTER_PORT (a free port). When one fails, the others are ended and its exit status is ronde-run's\n"
    "(128 and the number for a signal).\n"
    "\n"
    "  -n N               number of processes\n"
    "      --no-prefix    do not put \"[rank] \" before each line of output\n"
    "      --timeout S    end the job after S seconds, with status 124\n"
    "      --grace S      seconds from SIGTERM to SIGKILL (5)\n"
    "  -h, --help         this text\n"
    "\n"
    "Standard output and error stay apart. Rank 0 reads ronde-run's standard input unless that is a terminal; the others\n"
    "have none. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on.\n";

void say(const std::string& text) { std::fputs(fmt::format("ronde-run: {}\n", text).c_str(), stderr); }

[[noreturn]] void usage_error(const std::string& text) {
  say(text + " (--help explains)");
  std::exit(kUsage);
}

double seconds_value(const char* name, const char* text) {
  double value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || !(value >= 0) || value > 1e9) {
    usage_error(fmt::format("{} wants seconds, not '{}'", name, text));
  }
  return value;
}

Options parse(int argc, char** argv) {
  enum : int { kNoPrefix = 256, kTimeout, kGrace };
  const option longs[] = {{"no-prefix", no_argument, nullptr, kNoPrefix},
                          {"timeout", required_argument, nullptr, kTimeout},
                          {"grace", required_argument, nullptr, kGrace},
                          {"help", no_argument, nullptr, 'h'},
                          {nullptr, 0, nullptr, 0}};
  Options options;
  opterr = 0;
  for (;;) {
    const int at = std::max(optind, 1);
    const int code = getopt_long(argc, argv, "+:n:h", longs, nullptr);  // +: the command's own options are not ours
    if (code == -1) break;
    const std::string given = argv[std::min(std::max(optind - 1, at), argc - 1)];
    switch (code) {
      case 'n': {
        const char* end = optarg + std::strlen(optarg);
        const auto [stop, error] = std::from_chars(optarg, end, options.ranks);
        if (error != std::errc{} || stop != end || options.ranks < 1 || options.ranks > kMostRanks) {
          usage_error(fmt::format("-n wants a number from 1 to {}, not '{}'", kMostRanks, optarg));
        }
        break;
      }
      case kNoPrefix:
        options.prefix = false;
        break;
      case kTimeout:
        options.timeout = seconds_value("--timeout", optarg);
        break;
      case kGrace:
        options.grace = seconds_value("--grace", optarg);
        break;
      case 'h':
        std::fputs(kHelp, stdout);
        std::exit(0);
      case ':':
        usage_error(fmt::format("option '{}' needs a value", given));
      default:
        usage_error(fmt::format("unknown option '{}'", given));
    }
  }
  if (options.ranks == 0) usage_error("how many processes? give -n N");
  if (optind >= argc) usage_error("no command");
  options.command = argv + optind;
  return options;
}

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

/// One stream of one process: takes bytes from a pipe, puts whole lines behind a prefix.
class Stream {
 public:
  Stream(int from, int to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {}

  int descriptor() const { return from_; }
  bool open() const { return from_ >= 0; }

  /// Passes on what is there, without waiting; false when the destination does not take it any more.
  bool pump() {
    std::array<char, 65536> bytes;
    while (open()) {
      const ssize_t got = read(from_, bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) return close_end();
      line_.append(bytes.data(), static_cast<size_t>(got));
      if (!pass_lines()) return false;
    }
    return true;
  }
  /// The last line may lack its end.
  bool close_end() {
    if (open()) close(from_);
    from_ = -1;
    if (line_.empty()) return true;
    line_ += '\n';
    return pass_lines();
  }

 private:
  bool pass_lines() {
    constexpr size_t kLongest = 1 << 20;  // a line without end goes out in pieces
    std::string out;
    size_t start = 0;
    for (size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n', start)) {
      out += prefix_;
      out.append(line_, start, end + 1 - start);
      start = end + 1;
    }
    line_.erase(0, start);
    if (line_.size() > kLongest) {
      out += prefix_ + std::exchange(line_, {}) + '\n';
    }
    return write_out(out);
  }
  bool write_out(const std::string& text) const {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t put = write(to_, text.data() + done, text.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == EAGAIN) {
        pollfd ready{to_, POLLOUT, 0};
        poll(&ready, 1, 1000);
        continue;
      }
      if (put < 0) return false;
      done += static_cast<size_t>(put);
    }
    return true;
  }

  int from_;
  int to_;
  std::string prefix_;
  std::string line_;
};

struct Process {
  pid_t pid = -1;  // -1: ended and reaped
  int rank = 0;
};

/// The job from start to end.
class Job {
 public:
  explicit Job(const Options& options) : options_(options) {}

  int run() {
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
    const std::string ranks = std::to_string(options_.ranks);
    const std::string own = std::to_string(rank);
    const std::string port = std::to_string(port_.port());
    const std::pair<const char*, const char*> variables[] = {{"RANK", own.c_str()},        {"WORLD_SIZE", ranks.c_str()},
                                                             {"LOCAL_RANK", own.c_str()},  {"LOCAL_WORLD_SIZE", ranks.c_str()},
                                                             {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port.c_str()}};
    for (const auto& [name, value] : variables) setenv(name, value, 1);
    setrlimit(RLIMIT_NOFILE, &outer_files_);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &outer_mask_, nullptr);
    execvp(options_.command[0], options_.command);
    const int error = errno;
    const ssize_t told = write(failed, &error, sizeof error);
    _exit(told == sizeof error ? kNotFound : kCannotRun);
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

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  return Job(options).run();
}
