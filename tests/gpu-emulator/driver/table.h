// Handles that a program holds: numbers that are never given out again, so that the use of a dead one is always found.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace emu::driver {

/// The next handle of the process, of any kind: not an address of anything, and not a small number.
inline uint64_t next_handle() {
  static std::atomic<uint64_t> next{0x5eed00000000};
  return next.fetch_add(64, std::memory_order_relaxed);
}

/// Objects by handle. Thread safe.
template <class Handle, class T>
class Table {
 public:
  Handle put(std::shared_ptr<T> object) {
    const uint64_t number = next_handle();
    std::lock_guard lock(mutex_);
    all_[number] = std::move(object);
    return to_handle(number);
  }
  /// nullptr where the handle is none, or no longer.
  std::shared_ptr<T> get(Handle handle) const {
    std::lock_guard lock(mutex_);
    const auto it = all_.find(to_number(handle));
    return it == all_.end() ? nullptr : it->second;
  }
  /// Ends the handle; gives what it stood for.
  std::shared_ptr<T> drop(Handle handle) {
    std::lock_guard lock(mutex_);
    const auto it = all_.find(to_number(handle));
    if (it == all_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(it->second);
    all_.erase(it);
    return object;
  }
  /// Ends all handles of objects for which `which` is true.
  template <class Which>
  std::vector<std::shared_ptr<T>> drop_if(Which which) {
    std::vector<std::shared_ptr<T>> dropped;
    std::lock_guard lock(mutex_);
    for (auto it = all_.begin(); it != all_.end();) {
      if (which(*it->second)) {
        dropped.push_back(std::move(it->second));
        it = all_.erase(it);
      } else {
        ++it;
      }
    }
    return dropped;
  }

 private:
  static uint64_t to_number(Handle handle) {
    if constexpr (std::is_pointer_v<Handle>) {
      return reinterpret_cast<uint64_t>(handle);
    } else {
      return handle;
    }
  }
  static Handle to_handle(uint64_t number) {
    if constexpr (std::is_pointer_v<Handle>) {
      return reinterpret_cast<Handle>(number);
    } else {
      return number;
    }
  }

  mutable std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<T>> all_;
};

}  // namespace emu::driver
