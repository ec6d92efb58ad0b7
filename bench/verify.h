// Compares what a collective left in the receive buffers, bit for bit, with what it means.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "bench/collectives.h"
#include "bench/data.h"

namespace ronde::bench {

/// Bytes behind each receive buffer that nobody may write, and what they and the receive buffer hold before the call.
inline constexpr size_t kGuardBytes = 64;
inline constexpr unsigned char kJunk = 0xA5;

/// One local rank's buffers in one check.
struct Checked {
  int rank = 0;
  const void* send = nullptr;  ///< nullptr in place
  void* recv = nullptr;
  void* guard = nullptr;  ///< kGuardBytes
};

/// One check pass over the ranks of a process; its threads share the work. A first wrong element is kept for each rank.
class Verifier {
 public:
  Verifier(const Collective& collective, const Shape& shape, const Inputs& inputs, ncclDataType_t type, int nranks, int root,
           std::vector<Checked> local);

  /// The part of thread `thread` of `threads`, of which each holds equally many consecutive ranks. To be called by all of them
  /// after all calls are complete, and by none before.
  void run(int thread, int threads);

  /// After all parts have run: wrong elements of the local rank number `local`, and a line about the first of them.
  uint64_t wrong(size_t local) const { return tallies_[local].wrong; }
  std::string first_wrong(size_t local) const;

 private:
  struct Tally {
    std::mutex mutex;
    std::atomic<uint64_t> wrong = 0;
    size_t first = 0;
    std::string got;
    std::string expected;
    std::string elsewhere;  // a fault outside the receive buffer
  };
  void check_piece(const Piece& piece, size_t first_local, size_t end_local, size_t part, size_t parts);
  void compare(size_t local, size_t at, const std::byte* expected, size_t count);
  void check_rest(size_t local);

  const Collective& collective_;
  Shape shape_;
  const Inputs& inputs_;
  ncclDataType_t type_;
  int nranks_;
  int root_;
  std::vector<Checked> local_;
  std::vector<Tally> tallies_;
};

}  // namespace ronde::bench
