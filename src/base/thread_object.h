// An object per thread that outlives the thread's other thread_local objects.
#pragma once

#include <memory>
#include <utility>

namespace ronde {

/// The calling thread's T; nullptr until keep(). A program may call the library from destructors that run after those of thread_local objects (static
/// objects, atexit): there the T is gone, a new one may be kept, and it is left to the end of the process.
template <class T>
class ThreadObject {
 public:
  static T* get() { return slot(); }
  static T* keep(std::unique_ptr<T> made) {
    struct Cleanup {
      ~Cleanup() { delete std::exchange(slot(), nullptr); }
    };
    thread_local Cleanup cleanup;
    return slot() = made.release();
  }
  /// Made when first asked for.
  static T& of_this_thread() {
    T* const there = get();
    return there != nullptr ? *there : *keep(std::make_unique<T>());
  }

 private:
  static T*& slot() {
    thread_local T* one = nullptr;  // no destructor: readable to the very end
    return one;
  }
};

}  // namespace ronde
