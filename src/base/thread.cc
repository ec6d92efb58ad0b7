#include "base/thread.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <fmt/core.h>
#include <mutex>
#include <pthread.h>
#include <system_error>
#include <unistd.h>

namespace ronde {
namespace {

std::atomic<int> live_threads{0};
std::atomic<bool> is_forked{false};

}  // namespace

Result<std::thread> start_thread(const char* name, std::function<void()> body) {
  // A thread inherits the mask of the one that makes it: block before, restore after, and no signal can slip in between.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> result = fail(Code::internal_error, "thread not started");
  try {
    live_threads.fetch_add(1, std::memory_order_relaxed);  // a count for diagnosis; orders nothing
    std::thread thread([body = std::move(body)] {
      body();
      live_threads.fetch_sub(1, std::memory_order_relaxed);
    });
    pthread_setname_np(thread.native_handle(), std::string(name).substr(0, 15).c_str());
    result = std::move(thread);
  } catch (const std::system_error& error) {
    live_threads.fetch_sub(1, std::memory_order_relaxed);
    result = system_failure(error.code().value(), fmt::format("starting the thread \"{}\"", name),
                            "raise `ulimit -u` or the container's pids limit");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

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
