// What moving and combining data takes, apart from the links that it crosses. One table, in costs.txt; a measured one of the same
// form may replace what it names. Integers, so that every rank computes the same.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace ronde {

enum class Protocol : uint8_t { simple, ll, ll128 };
inline constexpr int kProtocols = 3;
const char* to_string(Protocol protocol);

/// What lies between two ranks.
enum class HopKind : uint8_t {
  process,  ///< memory of one process
  shm,      ///< memory of one host, other processes
  nvlink,   ///< NVLink or xGMI alone
  pci,      ///< PCI, CPUs and their memory
  network,
};
inline constexpr int kHopKinds = 5;
const char* to_string(HopKind kind);

struct HopCost {
  int64_t latency = 0;        ///< ns from the writer's end of a slot to the reader's start with it, the data's own time aside
  int64_t slot = 0;           ///< ns for writing, and for reading, a slot
  int64_t efficiency = 1000;  ///< permille of the links' rate that is data
  bool operator==(const HopCost&) const = default;
};

/// A rate by the bytes that a rank touches before it touches the same ones again: caches make it no constant.
struct CurvePoint {
  int64_t bytes = 0;
  int64_t alone = 0;   ///< MB/s of one rank while the others are idle
  int64_t shared = 0;  ///< MB/s of each while all are at it
  bool operator==(const CurvePoint&) const = default;
};
struct Curve {
  std::vector<CurvePoint> points;  ///< by ascending bytes, at least one
  /// Between two points by the logarithm of the bytes; beyond the ends as at the ends. bytes of the answer are `bytes`.
  CurvePoint at(int64_t bytes) const;
  bool operator==(const Curve&) const = default;
};

/// What a CPU rank does with bytes.
enum class CpuWork : uint8_t {
  copy,  ///< within the rank
  pull,  ///< from a peer's memory into the rank's
  fold,  ///< combines a peer's data with the rank's own
  // The same with what two cores hand to each other, which costs more than memory that nobody else has in a cache:
  publish,  ///< copy to where a peer has read before
  take,     ///< pull of what the peer has just written
};
inline constexpr int kCpuWorks = 5;
const char* to_string(CpuWork work);

struct Costs {
  std::array<std::array<HopCost, kHopKinds>, kProtocols> hops{};
  int64_t gpu_launch = 0;                                ///< ns
  int64_t gpu_channel = 1;                               ///< MB/s that one channel of a GPU moves
  int64_t cpu_launch = 0;                                ///< ns of a call that needs no peer
  int64_t cpu_wake = 0;                                  ///< ns
  int64_t cpu_patience = 0;                              ///< ns that a thread looks before it sleeps
  int64_t cpu_switch = 0;                                ///< ns
  // A network whose data the cores move, between CPU ranks:
  int64_t cpu_net_latency = 0;                           ///< ns from the kernel of a slot's writer to its reader's, no core at work
  int64_t cpu_net_slot = 0;                              ///< ns of a core for sending, and for receiving, a slot without its data
  int64_t cpu_net_send = 1;                              ///< MB/s
  int64_t cpu_net_receive = 1;                           ///< MB/s
  std::array<std::array<Curve, 2>, kCpuWorks> curves{};  ///< for process and shm

  const HopCost& hop(Protocol protocol, HopKind kind) const {
    return hops[static_cast<size_t>(protocol)][static_cast<size_t>(kind)];
  }
  HopCost& hop(Protocol protocol, HopKind kind) { return hops[static_cast<size_t>(protocol)][static_cast<size_t>(kind)]; }
  /// `kind` is process or shm.
  const Curve& curve(CpuWork work, HopKind kind) const { return curves[static_cast<size_t>(work)][static_cast<size_t>(kind)]; }
  Curve& curve(CpuWork work, HopKind kind) { return curves[static_cast<size_t>(work)][static_cast<size_t>(kind)]; }
  bool operator==(const Costs&) const = default;
};

/// The library's own table.
const Costs& built_in_costs();

/// `base` with what `text` names replaced; a curve as a whole. `file` is its name for messages: errors are invalid_argument and
/// say file:line, the word found and what would do.
Result<Costs> parse_costs(std::string_view text, const std::string& file, const Costs& base = built_in_costs());
/// The same from a file.
Result<Costs> read_costs(const std::string& path, const Costs& base = built_in_costs());
/// The built-in table, and over it RONDE_TUNE_FILE where that is set. Errors (invalid_usage) name the variable, the file and the line.
Result<Costs> costs_of(const Config& config);

/// The whole table as parse_costs reads it, `source` behind each line; parse_costs(to_text(x)) == x.
std::string to_text(const Costs& costs, std::string_view source);

}  // namespace ronde
