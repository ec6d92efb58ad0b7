#include "bench/data.h"

#include <array>
#include <cstring>
#include <type_traits>

#include "bench/recipe_float.h"
#include "bench/recipe_integer.h"

namespace ronde::bench {
namespace {

using namespace recipe;

constexpr std::array<std::string_view, kReductions + 1> kOpNames = {"sum", "prod", "min", "max", "avg", "mulsum", "none"};

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
