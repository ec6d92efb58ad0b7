#include "transport/bells.h"

#include <bitset>
#include <mutex>
#include <utility>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/thread.h"
#include "transport/fabric.h"

namespace ronde {
namespace {

struct PageSet {
  std::mutex mutex;  // guards all of it
  UniqueFd fd;
  Mapping memory;
  int holds = 0;
  int leased = 0;
  std::bitset<kBells> in_use;
  uint32_t next = 0;  // where the search for a free one begins
};

PageSet& pages() {
  static PageSet* one = new PageSet;  // never destroyed: threads may ring while the process exits
  return *one;
}

Bell* bells_of(PageSet& set) { return reinterpret_cast<Bell*>(set.memory.data()); }

Result<> hold_locked(PageSet& set) {
  if (set.holds == 0) {
    RONDE_TRY(UniqueFd fd, make_memfd("ronde-bells", kBellBytes));
    RONDE_TRY(Mapping memory, Mapping::shared(fd.get(), kBellBytes));
    set.fd = std::move(fd);
    set.memory = std::move(memory);
  }
  ++set.holds;
  return {};
}

void drop_locked(PageSet& set) {
  if (--set.holds > 0) return;
  set.memory = Mapping();
  set.fd.reset();
}

// The child of a fork owns nothing here: its copy of the mutex may be locked for ever.
void give_back(uint32_t index) {
  if (forked()) return;
  PageSet& set = pages();
  const std::lock_guard lock(set.mutex);
  set.in_use.reset(index);
  --set.leased;
  drop_locked(set);
}

}  // namespace

Result<BellHold> BellHold::take() {
  PageSet& set = pages();
  const std::lock_guard lock(set.mutex);
  RONDE_TRY(hold_locked(set));
  BellHold hold;
  hold.held_ = true;
  return hold;
}

BellHold::BellHold(BellHold&& other) noexcept : held_(std::exchange(other.held_, false)) {}

BellHold& BellHold::operator=(BellHold&& other) noexcept {
  std::swap(held_, other.held_);
  return *this;
}

BellHold::~BellHold() {
  if (!held_ || forked()) return;
  PageSet& set = pages();
  const std::lock_guard lock(set.mutex);
  drop_locked(set);
}

// No lock: whoever asks holds the pages, so that they neither come nor go meanwhile.
Bell* own_bells() { return bells_of(pages()); }
int bells_descriptor() { return pages().fd.get(); }

void ring_leased_bells() {
  PageSet& set = pages();
  const std::lock_guard lock(set.mutex);
  int left = set.leased;
  for (uint32_t i = 0; i < kBells && left > 0; ++i) {
    if (!set.in_use.test(i)) continue;
    ring(bells_of(set)[i]);
    --left;
  }
}

Result<BellLease> lease_bell() {
  PageSet& set = pages();
  const std::lock_guard lock(set.mutex);
  if (set.leased == static_cast<int>(kBells)) {
    return fail(
        Code::system_error,
        fmt::format("taking a Bell for a thread: all {} of this process are in use; let fewer threads run calls at once", kBells),
        Scope::process);
  }
  RONDE_TRY(hold_locked(set));
  while (set.in_use.test(set.next)) set.next = (set.next + 1) % kBells;
  Bell* bell = bells_of(set) + set.next;
  if (auto done = commit_pages(reinterpret_cast<std::byte*>(bell), sizeof(Bell)); !done) {
    drop_locked(set);
    return std::move(done).error();
  }
  set.in_use.set(set.next);
  ++set.leased;
  return BellLease(bell, set.next);
}

BellLease::BellLease(BellLease&& other) noexcept : bell_(std::exchange(other.bell_, nullptr)), index_(other.index_) {}

BellLease& BellLease::operator=(BellLease&& other) noexcept {
  std::swap(bell_, other.bell_);
  std::swap(index_, other.index_);
  return *this;
}

BellLease::~BellLease() {
  if (bell_ != nullptr) give_back(index_);
}

}  // namespace ronde
