// The options of a communicator, whatever release of the API they came from.
#pragma once

#include <optional>
#include <string>

namespace ronde {

/// What a caller set in an ncclConfig_t; nothing where it was left undefined. Ranges have been checked.
struct CommOptions {
  std::optional<int> gpu;  ///< the rank is on the GPU of this number; nothing: it is a CPU rank. Not of the ncclConfig_t: see api/device.h
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

}  // namespace ronde
