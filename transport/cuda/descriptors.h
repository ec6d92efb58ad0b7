// Descriptors that ranks in several processes of one host give each other once, while their communicator is made.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "base/abort.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "transport/process.h"

namespace ronde::gpu {

/// A peer in another process, by what it has told.
struct DescriptorPeer {
  int rank = 0;
  size_t gives = 0;  ///< so many descriptors
  Id name{};
  Id secret{};
};

class DescriptorTrade {
 public:
  /// Where peers can ask from now on. To be told to them before any runs the trade.
  static Result<DescriptorTrade> open();
  const Id& name() const { return name_; }
  const Id& secret() const { return secret_; }

  /// Gives each of `peers` copies of `mine` and takes theirs, by rank. All of them run it at the same time. An error names who has not come. The
  /// descriptors in `mine` stay the caller's.
  Result<std::map<int, std::vector<UniqueFd>>> run(int rank, std::span<const DescriptorPeer> peers, std::span<const int> mine, const Deadline& deadline,
                                                   const AbortWord* abort);

 private:
  UniqueFd listener_;
  Id name_{};
  Id secret_{};
};

}  // namespace ronde::gpu
