#include "comm/handles.h"

#include <fmt/core.h>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/thread.h"
#include "comm/communicator.h"

namespace ronde {
namespace {

// A handle is (generation << 24 | slot index) << 4 | tag: aligned like a pointer is, but the tag says whose it is.
constexpr uintptr_t kTag = 8;
constexpr int kSlotBits = 24;

struct Entry {
  uint64_t generation = 1;
  std::shared_ptr<Communicator> comm;
};

struct Table {
  std::shared_mutex mutex;
  std::vector<Entry> entries;
  std::vector<size_t> free;
};
Table& table() {
  static Table* one = new Table;  // calls may come while the process exits
  return *one;
}

uintptr_t encode(size_t index, uint64_t generation) { return (generation << kSlotBits | index) << 4 | kTag; }

/// The entry of a live handle; nullptr for any other. Under the table's mutex.
Entry* entry_of(Table& t, uintptr_t handle) {
  const size_t index = handle >> 4 & ((size_t{1} << kSlotBits) - 1);
  if ((handle & 15) != kTag || index >= t.entries.size()) return nullptr;
  Entry& entry = t.entries[index];
  return entry.comm != nullptr && encode(index, entry.generation) == handle ? &entry : nullptr;
}

Error unknown(uintptr_t handle) {
  if (handle == 0) return fail(Code::invalid_argument, "the communicator is NULL");
  return fail(Code::invalid_argument, fmt::format("{:#x} is no live communicator: it was destroyed or aborted, or never was one", handle));
}

Error in_child() {
  return fail(Code::invalid_usage, "this process was made by fork() after a communicator was created; communicators belong to the parent: create new ones after exec",
              Scope::process);
}

}  // namespace

uintptr_t add_handle(std::shared_ptr<Communicator> comm) {
  Table& t = table();
  const std::unique_lock lock(t.mutex);
  if (t.free.empty()) {
    t.free.push_back(t.entries.size());
    t.entries.emplace_back();
  }
  const size_t index = t.free.back();
  t.free.pop_back();
  t.entries[index].comm = std::move(comm);
  return encode(index, t.entries[index].generation);
}

Result<std::shared_ptr<Communicator>> find_handle(uintptr_t handle) {
  if (forked()) return in_child();
  Table& t = table();
  const std::shared_lock lock(t.mutex);
  const Entry* entry = entry_of(t, handle);
  if (entry == nullptr) return unknown(handle);
  return entry->comm;
}

Result<std::shared_ptr<Communicator>> take_handle(uintptr_t handle) {
  if (forked()) return in_child();
  Table& t = table();
  const std::unique_lock lock(t.mutex);
  Entry* entry = entry_of(t, handle);
  if (entry == nullptr) return unknown(handle);
  ++entry->generation;
  t.free.push_back(static_cast<size_t>(entry - t.entries.data()));
  return std::exchange(entry->comm, nullptr);
}

}  // namespace ronde
