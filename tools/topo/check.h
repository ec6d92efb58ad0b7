// Whether the channels found for machines are sound, and how they compare.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/channel_sets.h"
#include "tools/topo/reference.h"

namespace ronde::topo::tool {

/// Channels of one shape over one machine, or two copies of it.
struct Checked {
  bool two = false;
  ChannelSet set;
  ReferenceFigures nccl;
  std::vector<std::string> faults;  ///< what makes channels none, links asked for more than they carry

  /// Less than NCCL has. (Each rate is a whole number of MB/s, rounded down.)
  bool below() const;
};

/// Rings and trees over the machine, and where it has ports over two of them; `file` is its name in `reference`. None for less
/// than two devices.
std::vector<Checked> check_channels(const Machine& machine, const std::string& file,
                                    const std::vector<ReferenceGraph>& reference);

/// A line of the table, below head(); `name` gets `width` columns.
std::string head(size_t width);
std::string row(const std::string& name, size_t width, const Machine& machine, const Checked& checked);

}  // namespace ronde::topo::tool
