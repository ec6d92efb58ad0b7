// NCCL_IB_HCA: which ports of which adapters are used.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ronde::net {

/// "mlx5_0:1,mlx5_1": names separated by commas, each with a port if one is meant; a leading ^ excludes them; then (or alone) =
/// means whole names, which otherwise are beginnings. What follows a second colon (rail and plane) is passed over.
class HcaFilter {
 public:
  explicit HcaFilter(std::string_view text);
  bool admits(std::string_view adapter, int port) const;
  /// The entries that are none: a port that is no number.
  const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  struct Entry {
    std::string name;
    int port = 0;  // 0: any
  };
  std::vector<Entry> entries_;
  std::vector<std::string> wrong_;
  bool exclude_ = false;
  bool exact_ = false;
};

}  // namespace ronde::net
