// CPU and GPU ranks give the same bits for the same Programs, whatever the values: NaN, infinities, subnormals, -0. NaN counts as equal to NaN.
#include <cmath>
#include <random>

#include "device/gpus.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

struct Format {
  int exponent_bits, mantissa_bits;  ///< 0: an integer
  bool infinite;                     ///< the highest exponent is for infinity and NaN
};
Format format_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat16: return {5, 10, true};
    case ncclFloat32: return {8, 23, true};
    case ncclFloat64: return {11, 52, true};
    case ncclBfloat16: return {8, 7, true};
    case ncclFloat8e4m3: return {4, 3, false};
    case ncclFloat8e5m2: return {5, 2, true};
    default: return {0, 0, false};
  }
}

bool is_nan(ncclDataType_t type, uint64_t bits) {
  const Format f = format_of(type);
  if (f.exponent_bits == 0) return false;
  const uint64_t magnitude = bits & ((uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1);
  const uint64_t highest = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  return f.infinite ? magnitude > highest : magnitude == highest + (uint64_t{1} << f.mantissa_bits) - 1;
}

/// A third any bits at all, a third numbers near each other, a third what is special.
uint64_t value(ncclDataType_t type, std::mt19937_64& random) {
  const Format f = format_of(type);
  const uint64_t bits = random();
  const uint64_t kind = random() % 3;
  if (kind == 0 || f.exponent_bits == 0) return kind == 2 ? bits % 3 - 1 : bits;
  const int width = f.exponent_bits + f.mantissa_bits;
  const uint64_t sign = (bits >> 60 & 1) << width, fraction = bits & ((uint64_t{1} << f.mantissa_bits) - 1);
  const uint64_t bias = (uint64_t{1} << (f.exponent_bits - 1)) - 1, highest = (uint64_t{1} << f.exponent_bits) - 1;
  if (kind == 1) return sign | (bias - 1 + (bits >> 50 & 3)) << f.mantissa_bits | fraction;
  switch (random() % 6) {
    case 0: return sign;                                      // zero
    case 1: return sign | fraction;                           // a subnormal number
    case 2: return sign | highest << f.mantissa_bits;         // infinity
    case 3: return sign | highest << f.mantissa_bits | fraction;
    case 4: return sign | (highest - 1) << f.mantissa_bits | fraction;  // sums overflow
    default: return sign | uint64_t{1} << f.mantissa_bits;    // the smallest normal number
  }
}

std::vector<std::byte> values(ncclDataType_t type, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(count * type_size(type));
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = value(type, random);
    memcpy(data.data() + i * type_size(type), &bits, type_size(type));
  }
  return data;
}

std::string same_bits(ncclDataType_t type, const std::vector<std::byte>& gpu, const std::vector<std::byte>& cpu) {
  const size_t size = type_size(type);
  for (size_t i = 0; i < cpu.size() / size; ++i) {
    uint64_t a = 0, b = 0;
    memcpy(&a, gpu.data() + i * size, size);
    memcpy(&b, cpu.data() + i * size, size);
    if (a == b || (is_nan(type, a) && is_nan(type, b))) continue;
    char text[128];
    snprintf(text, sizeof text, "element %zu: %#llx on the GPU and %#llx on the CPU", i, static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
    return text;
  }
  return "";
}

/// An AllReduce on CPU and on GPU ranks; `op` may be a pre-multiplied sum, of either communicator.
struct Twins {
  ncclComm_t cpu = nullptr, gpu = nullptr;
  cudaStream_t stream = nullptr;
  int rank = 0;

  std::string reduce(ncclDataType_t type, ncclRedOp_t on_cpu, ncclRedOp_t on_gpu, size_t count, size_t offset) const {
    const std::vector<std::byte> send = values(type, count, static_cast<uint64_t>(type) * 100 + static_cast<uint64_t>(rank));
    std::vector<std::byte> recv(send.size());
    RONDE_RANK_OK(ncclAllReduce(send.data(), recv.data(), count, type, on_cpu, cpu, nullptr));
    const GpuBuffer there(send, offset * type_size(type)), back(send.size(), offset * type_size(type));
    RONDE_RANK_OK(ncclAllReduce(there.at(), back.at(), count, type, on_gpu, gpu, stream));
    RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream));
    return same_bits(type, back.get(), recv);
  }
};

std::string compare_all(const Twins& twins) {
  for (int t = 0; t < ncclNumTypes; ++t) {
    const auto type = static_cast<ncclDataType_t>(t);
    for (int op = 0; op < ncclNumOps; ++op) {
      for (const size_t offset : {size_t{0}, size_t{1}}) {
        const auto operation = static_cast<ncclRedOp_t>(op);
        const std::string complaint = twins.reduce(type, operation, operation, offset == 0 ? 3001 : 501, offset);
        if (!complaint.empty()) return "type " + std::to_string(t) + ", op " + std::to_string(op) + ": " + complaint;
      }
    }
    std::vector<std::byte> factor = make_data(type, 1, [&](size_t) { return 3 + twins.rank; });
    ncclRedOp_t on_cpu, on_gpu;
    RONDE_RANK_OK(ncclRedOpCreatePreMulSum(&on_cpu, factor.data(), type, ncclScalarHostImmediate, twins.cpu));
    RONDE_RANK_OK(ncclRedOpCreatePreMulSum(&on_gpu, factor.data(), type, ncclScalarHostImmediate, twins.gpu));
    const std::string complaint = twins.reduce(type, on_cpu, on_gpu, 1000, 0);
    if (!complaint.empty()) return "type " + std::to_string(t) + ", multiplied before: " + complaint;
  }
  return "";
}

}  // namespace

TEST_CASE("the same Programs give the same bits on CPU and GPU ranks", "[device][bits]") {
  RONDE_NEED_GPUS();
  const auto [algorithm, ranks] = GENERATE(std::pair("ring", 3), std::pair("oneshot", 4), std::pair("direct", 4), std::pair("tree", 4));
  const ScopedEnv env({{"NCCL_ALGO", algorithm}, {"RONDE_MIN_NCHANNELS", "1"}, {"RONDE_MAX_NCHANNELS", "1"}});
  INFO(algorithm << ", " << ranks << " ranks");
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  REQUIRE(run_gpus(ranks, [&, ranks = ranks](ncclComm_t gpu, int rank, cudaStream_t stream) -> std::string {
            Twins twins{nullptr, gpu, stream, rank};
            RONDE_RANK_OK(rondeSetDevice(rondeDeviceCpu));
            RONDE_RANK_OK(ncclCommInitRank(&twins.cpu, ranks, id, rank));
            const std::string complaint = compare_all(twins);
            if (!complaint.empty()) {
              ncclCommAbort(twins.cpu);
              return complaint;
            }
            return check_code("ncclCommDestroy", ncclCommDestroy(twins.cpu));
          }) == "");
}
