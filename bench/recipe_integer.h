// Inputs and results of data that is only moved, and of integers. A recipe has rank(r), which gives the bits of that rank's
// element at an index, and reduced(index).
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "bench/recipe.h"

namespace ronde::bench::recipe {

template <class U>
struct AnyBits {
  using Bits = U;
  explicit AnyBits(const Spec& spec) : spec(spec) {}
  struct Rank {
    uint64_t stream;
    Bits operator()(uint64_t index) const { return static_cast<Bits>(mix(stream + index)); }
  };
  Rank rank(int r) const { return {spec.stream(r)}; }
  Bits reduced(uint64_t) const { return 0; }
  Spec spec;
};

template <class T>
struct IntegerFold {
  using Bits = std::make_unsigned_t<T>;
  explicit IntegerFold(const Spec& spec) : op(spec.op), streams(all_streams(spec)) {}
  struct Rank {
    uint64_t stream;
    bool product;
    Bits operator()(uint64_t index) const {
      const auto bits = static_cast<Bits>(mix(stream + index));
      // Mostly odd factors: even ones would soon leave nothing but zeros to compare.
      return product && (bits == 0 || (bits & 0x70) != 0) ? static_cast<Bits>(bits | 1) : bits;
    }
  };
  Rank rank(int r) const { return {streams[static_cast<size_t>(r)], op == Op::prod}; }
  Bits reduced(uint64_t index) const {
    Bits acc = rank(0)(index);
    const int n = static_cast<int>(streams.size());
    for (int r = 1; r < n; ++r) acc = combine(acc, rank(r)(index), r);
    return acc;
  }
  Bits combine(Bits a, Bits b, int r) const {
    switch (op) {
      case Op::sum:
        return static_cast<Bits>(a + b);
      case Op::mulsum:
        return static_cast<Bits>(uint64_t{a} + uint64_t{b} * static_cast<uint64_t>(premul_scalar(r)));
      case Op::prod:
        return static_cast<Bits>(uint64_t{a} * uint64_t{b});
      case Op::min:
        return static_cast<T>(b) < static_cast<T>(a) ? b : a;
      default:
        return static_cast<T>(b) > static_cast<T>(a) ? b : a;
    }
  }
  Op op;
  std::vector<uint64_t> streams;
};

template <class T>
struct IntegerAverage {
  using Bits = std::make_unsigned_t<T>;
  explicit IntegerAverage(const Spec& spec)
      : share(spec, static_cast<uint64_t>(std::numeric_limits<T>::max())),
        streams(all_streams(spec)),
        levels(mix(spec.stream(-1))) {}
  struct Rank {
    const IntegerAverage* all;
    uint64_t number;
    uint64_t stream;
    /// All ranks have one sign at an index, and a common least magnitude: averages of signs at random would all be near zero.
    int64_t value(uint64_t index) const {
      const uint64_t common = mix(all->levels + index);
      const uint64_t bound = all->share.bound();
      const uint64_t level = within(common, bound);
      const uint64_t magnitude = level + within(mix(stream + index), bound - level);
      return static_cast<int64_t>(std::is_signed_v<T> && (common & 1) != 0 ? ~magnitude + 1 : magnitude);
    }
    static uint64_t within(uint64_t hash, uint64_t most) { return most == ~uint64_t{0} ? hash : below(hash, most + 1); }
    Bits operator()(uint64_t index) const { return all->share.holds(number, index) ? static_cast<Bits>(value(index)) : Bits{0}; }
  };
  Rank rank(int r) const { return {this, static_cast<uint64_t>(r), streams[static_cast<size_t>(r)]}; }
  Bits reduced(uint64_t index) const {
    uint64_t sum = 0;  // wraps only where the sum is negative, or above int64's range for uint64
    share.each_holder(index, [&](uint64_t r) { sum += static_cast<uint64_t>(Rank{this, r, streams[r]}.value(index)); });
    if constexpr (std::is_unsigned_v<T>) return static_cast<Bits>(sum / streams.size());
    return static_cast<Bits>(static_cast<int64_t>(sum) / static_cast<int64_t>(streams.size()));
  }
  Share share;
  std::vector<uint64_t> streams;
  uint64_t levels;
};

}  // namespace ronde::bench::recipe
