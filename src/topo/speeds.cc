#include "topo/speeds.h"

#include <algorithm>

namespace ronde::topo {
namespace {

/// What one link carries, from this compute capability on: measured payload, a little under the raw rates of NVLink 1 to 5 (20,
/// 25, 25, 25 and 50 GB/s); GPUs of 8.6 to 8.9 have slower ones (14 GB/s raw).
struct NvlinkRow {
  int sm;
  int64_t rate;
};
constexpr NvlinkRow kNvlink[] = {{100, 40100}, {90, 20600}, {86, 12000}, {70, 20000}, {60, 18000}};

int64_t intel_socket(int model) {
  // Payload between two sockets by generation: QPI up to Broadwell, then UPI of Skylake to Ice Lake, Sapphire Rapids, Emerald
  // Rapids and later.
  if (model >= 0xcf) return 40000;
  if (model >= 0x8f) return 22000;
  return model >= 0x55 ? 10000 : 6000;
}

Rate numa_rate(const Numa& numa) {
  if (numa.arch == "ppc64") return {32000, Source::table};
  if (numa.arch == "arm64") return {6000, Source::table};
  if (numa.vendor == "AuthenticAMD") return {16000, Source::table};
  if (numa.vendor == "GenuineIntel" && numa.model >= 0) return {intel_socket(numa.model), Source::table};
  if (numa.vendor == "CentaurHauls" || numa.vendor == "  Shanghai  ") return {numa.model >= 0x5b ? 9000 : 6000, Source::table};
  return {6000, Source::assumed};
}

}  // namespace

int64_t pci_rate(int32_t speed, int32_t width) {
  // 8b/10b coding up to 5 GT/s, then 128b/130b or better; packet headers and flow control take the rest.
  const int64_t per_1000 = speed < 8000 ? 75000 : 93750;
  return std::max<int64_t>(1, int64_t{speed} * width * per_1000 / 1000000);
}

Rate nvlink_rate(int sm) {
  for (const NvlinkRow& row : kNvlink) {
    if (sm >= row.sm) return {row.rate, Source::table};
  }
  return {kNvlink[std::size(kNvlink) - 1].rate, Source::assumed};
}

Rate xgmi_rate(std::string_view gcn) {
  if (gcn.substr(0, 3) == "gfx") gcn.remove_prefix(3);
  if (gcn.substr(0, 2) == "94") return {48000, Source::table};
  if (gcn == "910" || gcn == "90a") return {36000, Source::table};
  if (gcn == "906" || gcn == "908") return {24000, Source::table};
  return {24000, Source::assumed};
}

Rate socket_rate(const Numa& a, const Numa& b) {
  const Rate one = numa_rate(a);
  const Rate other = numa_rate(b);
  return one.rate < other.rate || (one.rate == other.rate && one.source == Source::assumed) ? one : other;
}

Rate part_rate() { return {2618000, Source::table}; }

Rate memory_rate() { return {10000, Source::assumed}; }

}  // namespace ronde::topo
