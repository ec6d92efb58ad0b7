// The structures with a size that callers hand in: read whatever release they were compiled against.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "nccl.h"
#include "ronde.h"

namespace ronde {

/// What a caller set in an ncclConfig_t; nothing where it was left undefined. Ranges have been checked.
struct CommOptions {
  std::optional<int> blocking;
  std::optional<int> cga_cluster_size;
  std::optional<int> min_ctas;
  std::optional<int> max_ctas;
  std::optional<std::string> net_name;
  std::optional<int> split_share;
  std::optional<int> traffic_class;
  std::optional<std::string> comm_name;
  std::optional<int> collnet_enable;
  std::optional<int> cta_policy;  ///< NCCL_CTA_POLICY_ bits, never both
  std::optional<int> shrink_share;
  std::optional<int> nvls_ctas;
  std::optional<int> channels_per_net_peer;
  std::optional<int> nvlink_centric_sched;
  std::optional<int> graph_usage_mode;  // from here on: releases newer than our header
  std::optional<int> num_rma_ctx;
  std::optional<int> max_p2p_peers;
  std::optional<int> graph_stream_ordering;
};

/// Reads an ncclConfig_t of any release from 2.14 on, by its `size` and `version`; fields newer than those we know are not looked
/// at. nullptr is a config in which nothing is set (Split and Shrink then take the parent's). Copies strings. invalid_argument,
/// naming field, value and range: for another magic, a size or version that no header has had, a value out of range.
Result<CommOptions> parse_config(const ncclConfig_t* config);

/// The options of a child: what `own` does not set is the parent's.
CommOptions inherit(const CommOptions& parent, const CommOptions& own);

/// Checks size, magic and version of an ncclSimInfo_t. nullptr is fine.
Result<> check_sim_info(const ncclSimInfo_t* info);

/// Fills the caller's rondeChoice_t from `choice`, as far as the caller's size goes; its size field stays. invalid_argument for a
/// size that no header has had.
Result<> store_choice(const rondeChoice_t& choice, rondeChoice_t* out);

}  // namespace ronde
