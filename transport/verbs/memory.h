// Memory that an adapter may reach.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/verbs/verbs.h"

namespace ronde::net {

class MemoryCache;

/// A registered range; unregistered when the last holder lets go.
class Registered {
 public:
  Registered(MemoryCache* cache, std::span<std::byte> memory, ibv_mr* region) : cache_(cache), memory_(memory), region_(region) {}
  ~Registered();
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  bool covers(std::span<const std::byte> part) const {
    return part.data() >= memory_.data() && part.data() + part.size() <= memory_.data() + memory_.size();
  }
  uint32_t lkey() const { return region_->lkey; }
  uint32_t rkey() const { return region_->rkey; }

 private:
  MemoryCache* cache_;
  std::span<std::byte> memory_;
  ibv_mr* region_;
};

/// What is registered in one protection domain: whoever asks for a range inside of what somebody holds shares it. Nothing is kept
/// that nobody holds, so no range is found again after its memory has gone. Thread-safe; outlives what it gave.
class MemoryCache {
 public:
  /// `relaxed`: 0 never, 1 always, 2 where the adapter can: writes may pass each other on the PCI bus.
  MemoryCache(const Verbs& verbs, ibv_pd* domain, std::string adapter, int64_t relaxed)
      : verbs_(verbs), domain_(domain), adapter_(std::move(adapter)), relaxed_(relaxed) {}

  /// Registers for local use and remote writes.
  Result<std::shared_ptr<Registered>> of(std::span<std::byte> memory);
  /// Ranges that are registered now.
  size_t size() const;

 private:
  friend class Registered;
  ibv_mr* enter(std::span<std::byte> memory);
  void leave(ibv_mr* region);

  const Verbs& verbs_;
  ibv_pd* const domain_;
  const std::string adapter_;
  const int64_t relaxed_;
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Registered>> known_;
};

}  // namespace ronde::net
