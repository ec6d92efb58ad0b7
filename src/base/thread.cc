#include "base/thread.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fmt/core.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <system_error>
#include <unistd.h>

namespace ronde {
namespace {

std::atomic<int> live_threads{0};
std::atomic<bool> is_forked{false};
std::atomic<bool> exiting{false};
struct ExitMark {
  ~ExitMark() { exiting.store(true, std::memory_order_seq_cst); }
};

// A thread inherits the mask of the one that makes it: block before, restore after, and no signal can slip in between.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<std::thread> start_thread(const char* name, std::function<void()> body) {
  static ExitMark mark;
  int trouble = ENOMEM;
  live_threads.fetch_add(1, std::memory_order_relaxed);  // a count for diagnosis; orders nothing
  try {
    const SignalsBlocked blocked;
    std::thread thread([body = std::move(body)] {
      body();
      live_threads.fetch_sub(1, std::memory_order_relaxed);
    });
    char short_name[16] = "";  // the most that the kernel takes
    memcpy(short_name, name, strnlen(name, sizeof short_name - 1));
    pthread_setname_np(thread.native_handle(), short_name);
    return thread;
  } catch (const std::system_error& error) {
    trouble = error.code().value();
  } catch (const std::bad_alloc&) {
  }
  live_threads.fetch_sub(1, std::memory_order_relaxed);
  return system_failure(trouble, fmt::format("starting the thread \"{}\"", name),
                        trouble == ENOMEM ? "free memory" : "raise `ulimit -u` or the container's pids limit");
}

bool process_exits() { return exiting.load(std::memory_order_seq_cst); }

int own_threads() { return live_threads.load(std::memory_order_relaxed); }

int process_threads() {
  int threads = 0;
  if (FILE* status = fopen("/proc/self/status", "re")) {
    char line[256];
    while (fgets(line, sizeof line, status) != nullptr && sscanf(line, "Threads: %d", &threads) != 1) continue;
    fclose(status);
  }
  return threads;
}

bool forked() { return is_forked.load(std::memory_order_relaxed); }  // set by the child's only thread, before anything else runs

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { is_forked.store(true, std::memory_order_relaxed); }); });
}

const std::string& host_name() {
  // Never destroyed: threads may log while the process exits.
  static const std::string& name = *new std::string([] {
    char buffer[256] = "";
    gethostname(buffer, sizeof buffer - 1);
    std::string full = buffer;
    return full.substr(0, full.find('.'));
  }());
  return name;
}

}  // namespace ronde
