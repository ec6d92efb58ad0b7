// What the recipes of inputs have in common: hashes of (index, seed, rank), and shares of what a sum may reach.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench/data.h"

namespace ronde::bench::recipe {

inline constexpr uint64_t mix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return x ^ (x >> 32);
}

/// Uniform in [0, n).
inline uint64_t below(uint64_t hash, uint64_t n) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * n) >> 64);
}

struct Spec {
  ncclDataType_t type;
  Op op;
  int nranks;
  uint64_t seed;

  /// Start of the sequence of hashes that belongs to a rank; rank -1: to the index alone.
  uint64_t stream(int rank) const { return mix(mix(seed + 1) + static_cast<uint64_t>(rank + 1)); }
  int weight(int rank) const { return op == Op::mulsum ? premul_scalar(rank) : 1; }
};

/// Spreads `capacity` (the largest magnitude that a sum may reach) over the ranks: each holds integers in [-bound, bound], all
/// ranks where that leaves them at least 1, and otherwise `active` of them, consecutive from a place that depends on the index.
class Share {
 public:
  Share(const Spec& spec, uint64_t capacity)
      : nranks_(static_cast<uint64_t>(spec.nranks)), active_(nranks_), places_(spec.stream(-1)) {
    uint64_t total = 0;
    int heaviest = 1;
    for (int r = 0; r < spec.nranks; ++r) {
      total += static_cast<uint64_t>(spec.weight(r));
      heaviest = std::max(heaviest, spec.weight(r));
    }
    bound_ = capacity / total;
    if (bound_ > 0) return;
    bound_ = 1;
    active_ = std::min(nranks_, capacity / static_cast<uint64_t>(heaviest));
  }
  uint64_t bound() const { return bound_; }
  bool holds(uint64_t rank, uint64_t index) const {
    if (active_ == nranks_) return true;
    const uint64_t distance = rank + nranks_ - start(index);
    return (distance >= nranks_ ? distance - nranks_ : distance) < active_;
  }
  template <class Visit>
  void each_holder(uint64_t index, Visit visit) const {
    uint64_t rank = active_ == nranks_ ? 0 : start(index);
    for (uint64_t i = 0; i < active_; ++i) {
      visit(rank);
      if (++rank == nranks_) rank = 0;
    }
  }

 private:
  uint64_t start(uint64_t index) const { return below(mix(places_ + index), nranks_); }
  uint64_t nranks_;
  uint64_t active_;
  uint64_t bound_;
  uint64_t places_;
};

/// Streams of all ranks, so that a fold over ranks does not work them out for each element.
inline std::vector<uint64_t> all_streams(const Spec& spec) {
  std::vector<uint64_t> streams;
  for (int r = 0; r < spec.nranks; ++r) streams.push_back(spec.stream(r));
  return streams;
}

}  // namespace ronde::bench::recipe
