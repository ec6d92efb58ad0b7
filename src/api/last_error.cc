#include "api/last_error.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "base/log.h"

namespace ronde {
namespace {

struct Store {
  std::mutex mutex;
  char text[kLastErrorBytes] = "";
};

Store& store() {
  static Store* one = new Store;  // never destroyed: threads may fail while the process exits
  return *one;
}

/// Bounded: a child of fork() may find the mutex locked for ever by a thread that it does not have, and goes without the text
/// then. (Not a timed_mutex: ThreadSanitizer of gcc 12 does not see its lock.)
std::unique_lock<std::mutex> lock_for_a_while(std::mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (!lock.owns_lock() && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
    lock = std::unique_lock(mutex, std::try_to_lock);
  }
  return lock;
}

}  // namespace

void set_last_error(std::string_view text) noexcept {
  try {
    Store& s = store();
    const auto lock = lock_for_a_while(s.mutex);
    if (!lock.owns_lock()) return;
    const size_t length = std::min(text.size(), sizeof(s.text) - 1);
    std::memcpy(s.text, text.data(), length);
    s.text[length] = '\0';
  } catch (const std::exception&) {
    return;  // no memory even for the store: the code of the call is all there is
  }
}

const char* last_error() noexcept {
  thread_local char copy[kLastErrorBytes] = "";
  try {
    Store& s = store();
    const auto lock = lock_for_a_while(s.mutex);
    if (lock.owns_lock()) std::memcpy(copy, s.text, sizeof(copy));
  } catch (const std::exception&) {
    return copy;
  }
  return copy;
}

void report_error(std::string_view call, const Error& error) noexcept {
  try {
    const std::string_view what = error.what;
    const bool named = what.starts_with(call) && what.size() > call.size() && std::isalpha(static_cast<unsigned char>(what[call.size()])) == 0;
    std::string text(named ? "" : call);
    text.append(named ? "" : ": ").append(what);
    set_last_error(text);
    Error whole = error;
    whole.what = std::move(text);
    log_error(whole);
  } catch (const std::exception&) {
    set_last_error(error.what);  // no memory to join the two
  }
}

}  // namespace ronde
