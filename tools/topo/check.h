// Whether the channels found for machines are sound, and how they compare.
#pragma once

#include <string>
#include <vector>

#include "tools/topo/channel_sets.h"
#include "tools/topo/reference.h"
#include "topo/source.h"

namespace ronde::topo::tool {

/// Channels of one shape over one machine, or two copies of it.
struct Checked {
  bool two = false;
  ChannelSet set;
  ReferenceFigures nccl;
  std::vector<std::string> faults;  ///< what makes channels none, links asked for more than they carry

  /// Less than NCCL has. (Each rate is a whole number of MB/s, rounded down.)
  bool below() const;
  /// The search took longer than NCCL's and than 10 ms. Depends on how busy the host is.
  bool slow() const;
};

/// What came of one file.
struct FileChecked {
  std::string name;
  Result<Reading> reading;
  std::vector<Checked> rows;
};

/// What came of all.
struct Tally {
  int machines = 0;
  int refused = 0;
  int wrong = 0;  ///< rows with faults or below NCCL
  int slow = 0;

  void count(const FileChecked& file);
};

/// Rings and trees over the machine, and where it has ports over two of them; `file` is its name in `reference`. None for less
/// than two devices.
std::vector<Checked> check_channels(const Machine& machine, const std::string& file,
                                    const std::vector<ReferenceGraph>& reference);

/// A line of the table, below head(); `name` gets `width` columns.
std::string head(size_t width);
std::string row(const std::string& name, size_t width, const Machine& machine, const Checked& checked);
/// The same for programs; docs/tools.md lists the names.
std::string to_json(const std::vector<FileChecked>& files, const Tally& tally);

}  // namespace ronde::topo::tool
