// Inputs and results of floats; see Inputs for what each holds, and recipe_integer.h for the form of a recipe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bench/element.h"
#include "bench/recipe.h"

namespace ronde::bench::recipe {

template <class U>
struct FloatSum {
  using Bits = U;
  static constexpr int kScales = 9;  // powers of two from 2^-4 to 2^4: in the range of every format
  explicit FloatSum(const Spec& spec)
      : spec(spec),
        format(format_of(spec.type)),
        share(spec, uint64_t{1} << format.precision()),
        streams(all_streams(spec)),
        scale_stream(mix(spec.stream(-1))) {
    if constexpr (sizeof(U) > 2) return;
    limit = int64_t{1} << format.precision();
    for (int s = 0; s < kScales; ++s) {
      for (int64_t v = -limit; v <= limit; ++v) table.push_back(static_cast<Bits>(encode(format, scaled(v, s))));
    }
  }
  struct Rank {
    const FloatSum* all;
    uint64_t number;
    uint64_t stream;
    int64_t value(uint64_t index) const {
      const uint64_t bound = all->share.bound();
      return static_cast<int64_t>(below(mix(stream + index), 2 * bound + 1)) - static_cast<int64_t>(bound);
    }
    Bits operator()(uint64_t index) const {
      return all->share.holds(number, index) ? all->bits(value(index), all->scale(index)) : Bits{0};
    }
  };
  Rank rank(int r) const { return {this, static_cast<uint64_t>(r), streams[static_cast<size_t>(r)]}; }
  Bits reduced(uint64_t index) const {
    int64_t sum = 0;
    share.each_holder(index, [&](uint64_t r) {
      sum += Rank{this, r, streams[r]}.value(index) * spec.weight(static_cast<int>(r));
    });
    return bits(sum, scale(index));
  }
  int scale(uint64_t index) const { return static_cast<int>(below(mix(scale_stream + index), kScales)); }
  static double scaled(int64_t value, int scale) {
    constexpr std::array<double, kScales> powers = {0.0625, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16};
    return static_cast<double>(value) * powers[static_cast<size_t>(scale)];
  }
  Bits bits(int64_t value, int scale) const {
    if constexpr (sizeof(U) == 8) return std::bit_cast<uint64_t>(scaled(value, scale));
    if constexpr (sizeof(U) == 4) return std::bit_cast<uint32_t>(static_cast<float>(scaled(value, scale)));
    return table[static_cast<size_t>(scale * (2 * limit + 1) + value + limit)];
  }
  Spec spec;
  Format format;
  Share share;
  std::vector<uint64_t> streams;
  uint64_t scale_stream;
  int64_t limit = 0;
  std::vector<Bits> table;
};

template <class U>
struct FloatProduct {
  using Bits = U;
  explicit FloatProduct(const Spec& spec)
      : format(format_of(spec.type)),
        share(spec, static_cast<uint64_t>(std::min(-format.min_exponent(), format.max_exponent()) - 1)),
        streams(all_streams(spec)),
        places(mix(spec.stream(-1))) {}
  struct Rank {
    const FloatProduct* all;
    uint64_t number;
    uint64_t stream;
    int64_t exponent(uint64_t hash) const {
      const uint64_t bound = all->share.bound();
      return static_cast<int64_t>(below(hash, 2 * bound + 1)) - static_cast<int64_t>(bound);
    }
    bool has_mantissa(uint64_t index) const { return below(mix(all->places + index), all->streams.size()) == number; }
    Bits operator()(uint64_t index) const {
      const uint64_t hash = mix(stream + index);
      return all->bits((hash & 1) != 0, all->share.holds(number, index) ? exponent(hash) : 0,
                       has_mantissa(index) ? mantissa(hash, all->format) : 0);
    }
  };
  Rank rank(int r) const { return {this, static_cast<uint64_t>(r), streams[static_cast<size_t>(r)]}; }
  Bits reduced(uint64_t index) const {
    bool negative = false;
    int64_t exponent = 0;
    uint64_t with = below(mix(places + index), streams.size());
    for (uint64_t stream : streams) negative ^= (mix(stream + index) & 1) != 0;
    share.each_holder(index, [&](uint64_t r) { exponent += Rank{this, r, streams[r]}.exponent(mix(streams[r] + index)); });
    return bits(negative, exponent, mantissa(mix(streams[with] + index), format));
  }
  static uint64_t mantissa(uint64_t hash, const Format& format) {
    return (hash >> 1) & ((uint64_t{1} << format.mantissa_bits) - 1);
  }
  Bits bits(bool negative, int64_t exponent, uint64_t mantissa) const {
    return static_cast<Bits>((negative ? format.sign_bit() : 0) |
                             (static_cast<uint64_t>(exponent + format.bias()) << format.mantissa_bits) | mantissa);
  }
  Format format;
  Share share;
  std::vector<uint64_t> streams;
  uint64_t places;
};

template <class U>
struct FloatExtreme {
  using Bits = U;
  explicit FloatExtreme(const Spec& spec)
      : format(format_of(spec.type)), turn(spec.op == Op::max ? 0 : 2 * format.sign_bit() - 1), streams(all_streams(spec)) {}
  struct Rank {
    uint64_t stream;
    Format format;
    Bits operator()(uint64_t index) const {
      const uint64_t mask = 2 * format.sign_bit() - 1;
      uint64_t bits = mix(stream + index) & mask;
      // NaN and infinity lose their exponent's last bit; a negative zero its sign, for its order with zero is nobody's promise.
      bits ^= uint64_t{!is_finite(format, bits)} << format.mantissa_bits;
      return static_cast<Bits>(bits * uint64_t{bits != format.sign_bit()});
    }
  };
  Rank rank(int r) const { return {streams[static_cast<size_t>(r)], format}; }
  Bits reduced(uint64_t index) const {
    uint64_t best = 0;
    for (uint64_t stream : streams) best = std::max(best, key(Rank{stream, format}(index)));
    const uint64_t ordered = best ^ turn;
    const uint64_t all = 2 * format.sign_bit() - 1;
    return static_cast<Bits>((ordered & format.sign_bit()) != 0 ? ordered ^ format.sign_bit() : ordered ^ all);
  }
  /// Orders bits as the numbers are ordered; the other way round for a minimum.
  uint64_t key(uint64_t bits) const {
    const uint64_t negative = -(bits >> (format.exponent_bits + format.mantissa_bits));  // all ones where it is
    return bits ^ (negative & (format.sign_bit() - 1)) ^ format.sign_bit() ^ turn;
  }
  Format format;
  uint64_t turn;
  std::vector<uint64_t> streams;
};

template <class U>
struct FloatAverage {
  using Bits = U;
  explicit FloatAverage(const Spec& spec)
      : format(format_of(spec.type)), nranks(static_cast<uint64_t>(spec.nranks)), places(spec.stream(-1)), picks(mix(places)) {
    constexpr size_t kWanted = 256;
    constexpr uint64_t kTries = 100000;
    for (uint64_t i = 0; inputs.size() < kWanted && i < kTries; ++i) consider(mix(mix(picks) + i) & (2 * format.sign_bit() - 1));
    if (inputs.empty()) {
      inputs.push_back(0);
      results.push_back(0);
    }
  }
  void consider(uint64_t bits) {
    if (!is_finite(format, bits)) return;
    const double value = decode(format, bits);
    const double least = std::ldexp(1.0, format.min_exponent());
    if (std::fabs(value) / static_cast<double>(nranks) < least || !std::isfinite(value)) return;
    const uint64_t exact = encode(format, value / static_cast<double>(nranks));
    const double reciprocal = 1.0 / static_cast<double>(nranks);
    bool agree = exact == encode(format, value * reciprocal);
    if (sizeof(U) < 8) {
      const auto narrow = static_cast<float>(value);
      const auto n = static_cast<float>(nranks);
      agree = exact == encode(format, double{narrow / n}) && exact == encode(format, double{narrow * (1.0F / n)});
    }
    if (!agree) return;
    inputs.push_back(static_cast<Bits>(bits));
    results.push_back(static_cast<Bits>(exact));
  }
  struct Rank {
    const FloatAverage* all;
    uint64_t number;
    Bits operator()(uint64_t index) const { return all->holder(index) == number ? all->inputs[all->pick(index)] : Bits{0}; }
  };
  Rank rank(int r) const { return {this, static_cast<uint64_t>(r)}; }
  Bits reduced(uint64_t index) const { return results[pick(index)]; }
  uint64_t holder(uint64_t index) const { return below(mix(places + index), nranks); }
  size_t pick(uint64_t index) const { return below(mix(picks + index), inputs.size()); }
  Format format;
  uint64_t nranks;
  uint64_t places;
  uint64_t picks;
  std::vector<Bits> inputs;
  std::vector<Bits> results;
};

}  // namespace ronde::bench::recipe
