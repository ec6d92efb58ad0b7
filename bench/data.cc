#include "bench/data.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace ronde::bench {
namespace {

constexpr std::array<std::string_view, kReductions + 1> kOpNames = {"sum", "prod", "min", "max", "avg", "mulsum", "none"};

constexpr uint64_t mix(uint64_t x) {
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return x ^ (x >> 32);
}

/// Uniform in [0, n).
uint64_t below(uint64_t hash, uint64_t n) { return static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * n) >> 64); }

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

// Each recipe below has input(rank, index) and reduced(index), both giving the bits of an element.

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

/// Streams of all ranks, so that a fold over ranks does not work them out for each element.
std::vector<uint64_t> all_streams(const Spec& spec) {
  std::vector<uint64_t> streams;
  for (int r = 0; r < spec.nranks; ++r) streams.push_back(spec.stream(r));
  return streams;
}

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

template <class Bits>
void store(void* out, size_t i, Bits bits) {
  std::memcpy(static_cast<char*>(out) + i * sizeof bits, &bits, sizeof bits);
}

}  // namespace

struct Inputs::Recipe {
  virtual ~Recipe() = default;
  virtual void input(int rank, size_t first, size_t count, void* out) const = 0;
  virtual void reduced(size_t first, size_t count, void* out) const = 0;

  template <class R>
  struct Of;
  template <class T>
  static std::unique_ptr<Recipe> integer(const Spec& spec);
  template <class U>
  static std::unique_ptr<Recipe> floating(const Spec& spec);
  static std::unique_ptr<Recipe> make(const Spec& spec);
};

template <class R>
struct Inputs::Recipe::Of : Recipe {
  explicit Of(const Spec& spec) : recipe(spec) {}
  void input(int rank, size_t first, size_t count, void* out) const override {
    const auto of_rank = recipe.rank(rank);
    for (size_t i = 0; i < count; ++i) store(out, i, of_rank(first + i));
  }
  void reduced(size_t first, size_t count, void* out) const override {
    for (size_t i = 0; i < count; ++i) store(out, i, recipe.reduced(first + i));
  }
  R recipe;
};

template <class T>
std::unique_ptr<Inputs::Recipe> Inputs::Recipe::integer(const Spec& spec) {
  if (spec.op == Op::none) return std::make_unique<Of<AnyBits<std::make_unsigned_t<T>>>>(spec);
  if (spec.op == Op::avg) return std::make_unique<Of<IntegerAverage<T>>>(spec);
  return std::make_unique<Of<IntegerFold<T>>>(spec);
}

template <class U>
std::unique_ptr<Inputs::Recipe> Inputs::Recipe::floating(const Spec& spec) {
  switch (spec.op) {
    case Op::none:
      return std::make_unique<Of<AnyBits<U>>>(spec);
    case Op::sum:
    case Op::mulsum:
      return std::make_unique<Of<FloatSum<U>>>(spec);
    case Op::prod:
      return std::make_unique<Of<FloatProduct<U>>>(spec);
    case Op::min:
    case Op::max:
      return std::make_unique<Of<FloatExtreme<U>>>(spec);
    case Op::avg:
      return std::make_unique<Of<FloatAverage<U>>>(spec);
  }
  return nullptr;
}

std::unique_ptr<Inputs::Recipe> Inputs::Recipe::make(const Spec& spec) {
  switch (spec.type) {
    case ncclInt8:
      return integer<int8_t>(spec);
    case ncclUint8:
      return integer<uint8_t>(spec);
    case ncclInt32:
      return integer<int32_t>(spec);
    case ncclUint32:
      return integer<uint32_t>(spec);
    case ncclInt64:
      return integer<int64_t>(spec);
    case ncclUint64:
      return integer<uint64_t>(spec);
    default:
      break;
  }
  switch (type_size(spec.type)) {
    case 1:
      return floating<uint8_t>(spec);
    case 2:
      return floating<uint16_t>(spec);
    case 4:
      return floating<uint32_t>(spec);
    default:
      return floating<uint64_t>(spec);
  }
}

Inputs::Inputs(ncclDataType_t type, Op op, int nranks, uint64_t seed) : recipe_(Recipe::make({type, op, nranks, seed})) {}
Inputs::~Inputs() = default;
Inputs::Inputs(Inputs&&) noexcept = default;
Inputs& Inputs::operator=(Inputs&&) noexcept = default;
void Inputs::input(int rank, size_t first, size_t count, void* out) const { recipe_->input(rank, first, count, out); }
void Inputs::reduced(size_t first, size_t count, void* out) const { recipe_->reduced(first, count, out); }

std::string_view op_name(Op op) { return kOpNames[static_cast<size_t>(op)]; }

std::optional<Op> op_from_name(std::string_view name) {
  for (int i = 0; i < kReductions; ++i) {
    if (kOpNames[static_cast<size_t>(i)] == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace ronde::bench
