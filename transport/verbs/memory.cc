#include "transport/verbs/memory.h"

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>

#include "transport/verbs/words.h"

namespace ronde::net {

Registered::~Registered() { cache_->leave(region_); }

ibv_mr* MemoryCache::enter(std::span<std::byte> memory) {
  constexpr unsigned kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (relaxed_ != 0 && verbs_.reg_mr_iova2 != nullptr) {
    ibv_mr* const region = verbs_.reg_mr_iova2(domain_, memory.data(), memory.size(), reinterpret_cast<uint64_t>(memory.data()),
                                               kRights | IBV_ACCESS_RELAXED_ORDERING);
    if (region != nullptr || relaxed_ == 1) return region;
  }
  return verbs_.reg_mr(domain_, memory.data(), memory.size(), static_cast<int>(kRights));
}

void MemoryCache::leave(ibv_mr* region) {
  // Only fails for what is in use or unknown, and this is neither.
  [[maybe_unused]] const int rc = verbs_.dereg_mr(region);
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [](const auto& one) { return one.expired(); });
}

size_t MemoryCache::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(known_.begin(), known_.end(), [](const auto& one) { return !one.expired(); }));
}

Result<std::shared_ptr<Registered>> MemoryCache::of(std::span<std::byte> memory) {
  std::vector<std::shared_ptr<Registered>> looked_at;  // one may be the last holder by now: it is let go without the lock
  const std::lock_guard lock(mutex_);
  for (const auto& known : known_) {
    std::shared_ptr<Registered> one = known.lock();
    if (one != nullptr && one->covers(memory)) return one;
    looked_at.push_back(std::move(one));
  }
  ibv_mr* const region = enter(memory);
  if (region == nullptr) {
    const int why = errno;
    const bool memlock = why == ENOMEM || why == EAGAIN || why == EPERM;
    return system_failure(why, fmt::format("registering {} bytes of memory with the adapter {}", memory.size(), adapter_),
                          memlock ? memlock_advice() : "", Scope::communicator);
  }
  auto made = std::make_shared<Registered>(this, memory, region);
  known_.push_back(made);
  return made;
}

}  // namespace ronde::net
