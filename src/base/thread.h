// Threads of our own, and what a process must know about itself.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/result.h"

namespace ronde {

/// Starts a thread named `name` (at most 15 characters) with every signal blocked, so that the program's handlers run on its own threads.
Result<std::thread> start_thread(const char* name, std::function<void()> body);

/// Threads that start_thread has started and that have not ended.
int own_threads();
/// Threads of the whole process (from /proc); 0 where that cannot be read.
int process_threads();

/// True in a process made by fork() after the library was first used: its threads and connections are the parent's.
bool forked();
/// Begins to watch for fork(); idempotent. Called when the first communicator is made.
void watch_forks();

/// True once the process destroys its static objects: from then on a thread of ours, which nobody stops, touches nothing.
bool process_exits();

/// The host's name, up to the first dot.
const std::string& host_name();

}  // namespace ronde
