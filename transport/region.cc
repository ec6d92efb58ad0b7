#include "transport/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include <fmt/core.h>

#include "base/thread.h"
#include "transport/fabric.h"

namespace ronde {
namespace {

struct Entry {
  std::byte* data;
  size_t bytes;  // rounded up to pages
  std::shared_ptr<Region> region;
};

struct Regions {
  std::shared_mutex mutex;  // guards by_address and next
  std::vector<Entry> by_address;
  uint32_t next = 1;             // 0 says "an address" in a loan
  std::atomic<size_t> count{0};  // spares programs without regions the lock
};

Regions& regions() {
  static Regions* one = new Regions;  // never destroyed: threads may look while the process exits
  return *one;
}

std::vector<Entry>::iterator first_after(Regions& all, const void* data) {
  return std::upper_bound(all.by_address.begin(), all.by_address.end(), static_cast<const std::byte*>(data),
                          [](const std::byte* at, const Entry& entry) { return at < entry.data; });
}

}  // namespace

std::shared_ptr<Region> find_region(const void* data, size_t bytes, uint64_t* offset) {
  Regions& all = regions();
  if (all.count.load(std::memory_order_relaxed) == 0 || forked())
    return nullptr;  // a region's user has it from alloc_shareable: ordered by that
  const std::shared_lock lock(all.mutex);
  auto it = first_after(all, data);
  if (it == all.by_address.begin()) return nullptr;
  --it;
  const auto at = static_cast<size_t>(static_cast<const std::byte*>(data) - it->data);
  if (at > it->bytes || bytes > it->bytes - at) return nullptr;
  *offset = at;
  return it->region;
}

Result<void*> alloc_shareable(size_t bytes) {
  watch_forks();
  const size_t size = std::max<size_t>(1, (bytes + page_size() - 1) / page_size()) * page_size();
  if (size < bytes) return fail(Code::invalid_argument, fmt::format("allocating {} bytes: more than there can be", bytes));
  auto region = std::make_shared<Region>();
  RONDE_TRY(region->fd, make_memfd("ronde-region", size));
  RONDE_TRY(region->memory, Mapping::shared(region->fd.get(), size));
  region->bytes = size;
  madvise(region->memory.data(), size, MADV_HUGEPAGE);  // advice: without it the pages are small
  std::byte* data = region->memory.data();
  Regions& all = regions();
  const std::unique_lock lock(all.mutex);
  region->id = all.next++;
  all.by_address.insert(first_after(all, data), Entry{data, size, region});
  all.count.fetch_add(1, std::memory_order_relaxed);
  return static_cast<void*>(data);
}

Result<> free_shareable(void* data) {
  if (data == nullptr) return {};
  Regions& all = regions();
  std::shared_ptr<Region> region;
  if (!forked()) {
    const std::unique_lock lock(all.mutex);
    auto it = first_after(all, data);
    if (it != all.by_address.begin() && (--it)->data == data) {
      region = std::move(it->region);
      all.by_address.erase(it);
      all.count.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  if (region == nullptr) {
    return fail(
        Code::invalid_argument,
        fmt::format("freeing memory at {}: it is no address that MemAlloc has returned in this process, or it was freed before",
                    data));
  }
  // Peers may have it mapped for as long as they like: its pages go now, for all.
  fallocate(region->fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(region->bytes));
  region->memory = Mapping();
  return {};
}

}  // namespace ronde
