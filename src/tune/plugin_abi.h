// What the adapters of NCCL's tuner plugin interface have in common. Each version has a file of its own, which knows its
// structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/plugin.h"

namespace ronde {

/// NCCL's cost table: float[algorithm][protocol], microseconds; -1: not to be had. Its numbers are the interface's.
inline constexpr int kTunerAlgorithms = 7;
inline constexpr int kTunerProtocols = 3;
inline constexpr int kTunerSimple = 2;
inline constexpr float kTunerIgnore = -1.0f;
struct TunerTable {
  static constexpr int kSpare = 9;  ///< rows that a plugin of a later release may believe in
  float cost[kTunerAlgorithms + kSpare][kTunerProtocols];
};

/// A communicator, as plugins are told of it.
struct TunerComm {
  uint64_t id = 0;
  size_t ranks = 1;
  size_t nodes = 1;
  int least_ranks = 1;  ///< on any node
  int most_ranks = 1;
};

/// One plugin, seen through its version's structure; one communicator's. All codes are ncclResult_t.
class TunerAbi {
 public:
  virtual ~TunerAbi() = default;
  virtual const char* name() const = 0;
  /// Whether the structure has every function.
  virtual bool complete() const = 0;
  virtual int init(const TunerComm& comm, PluginLog log) = 0;
  /// `function`: NCCL's number; `bytes` of the largest buffer of a rank. Changes `table` and `channels`, which begins at 0.
  virtual int get(int function, size_t bytes, TunerTable* table, int* channels) = 0;
  /// Only after an init that succeeded.
  virtual int end() = 0;
};

/// `symbol` is the address of the exported structure, which outlives the adapter.
std::unique_ptr<TunerAbi> adapt_tuner_v3(const void* symbol);
std::unique_ptr<TunerAbi> adapt_tuner_v4(const void* symbol);
std::unique_ptr<TunerAbi> adapt_tuner_v5(const void* symbol);

}  // namespace ronde
