#include "api/config_arg.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <cstring>
#include <span>

#include <fmt/core.h>

#include "api/border.h"
#include "base/log.h"

namespace ronde {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr unsigned kSimInfoMagic = 0x74685283;
constexpr unsigned kFirstConfigVersion = NCCL_VERSION(2, 14, 0);
constexpr unsigned kFirstSimInfoVersion = NCCL_VERSION(2, 22, 0);
constexpr size_t kFirstConfigSize = 24;  // 2.14
constexpr size_t kKnownConfigSize = 96;  // 2.30
// More than any header will ever have: such a size is memory that nobody initialised.
constexpr size_t kAbsurdSize = 4096;

struct IntField {
  const char* name;
  size_t offset;
  unsigned since;  // a caller compiled against an older release has padding or nothing there
  int low, high;
  std::optional<int> CommOptions::*option;
};

constexpr IntField kIntFields[] = {
    {"blocking", 16, NCCL_VERSION(2, 14, 0), 0, 1, &CommOptions::blocking},
    {"cgaClusterSize", 20, NCCL_VERSION(2, 17, 0), 0, INT_MAX, &CommOptions::cga_cluster_size},
    {"minCTAs", 24, NCCL_VERSION(2, 17, 0), 1, INT_MAX, &CommOptions::min_ctas},
    {"maxCTAs", 28, NCCL_VERSION(2, 17, 0), 1, INT_MAX, &CommOptions::max_ctas},
    {"splitShare", 40, NCCL_VERSION(2, 18, 0), 0, 1, &CommOptions::split_share},
    {"trafficClass", 44, NCCL_VERSION(2, 25, 0), INT_MIN, INT_MAX, &CommOptions::traffic_class},
    {"collnetEnable", 56, NCCL_VERSION(2, 27, 0), 0, 1, &CommOptions::collnet_enable},
    {"CTAPolicy", 60, NCCL_VERSION(2, 27, 0), 0, 3, &CommOptions::cta_policy},
    {"shrinkShare", 64, NCCL_VERSION(2, 27, 0), 0, 1, &CommOptions::shrink_share},
    {"nvlsCTAs", 68, NCCL_VERSION(2, 27, 0), 1, INT_MAX, &CommOptions::nvls_ctas},
    {"nChannelsPerNetPeer", 72, NCCL_VERSION(2, 28, 0), 1, 64, &CommOptions::channels_per_net_peer},
    {"nvlinkCentricSched", 76, NCCL_VERSION(2, 28, 0), 0, 1, &CommOptions::nvlink_centric_sched},
    {"graphUsageMode", 80, NCCL_VERSION(2, 29, 0), 0, 2, &CommOptions::graph_usage_mode},
    {"numRmaCtx", 84, NCCL_VERSION(2, 29, 0), 0, INT_MAX, &CommOptions::num_rma_ctx},
    {"maxP2pPeers", 88, NCCL_VERSION(2, 30, 0), 1, INT_MAX, &CommOptions::max_p2p_peers},
    {"graphStreamOrdering", 92, NCCL_VERSION(2, 30, 5), 0, 1, &CommOptions::graph_stream_ordering},
};

struct TextField {
  size_t offset;
  unsigned since;
  std::optional<std::string> CommOptions::*option;
};

constexpr TextField kTextFields[] = {
    {32, NCCL_VERSION(2, 17, 0), &CommOptions::net_name},
    {48, NCCL_VERSION(2, 27, 0), &CommOptions::comm_name},
};

/// A caller's structure, cut to what we know: fields beyond it read as undefined.
class Image {
 public:
  Image(const void* from, size_t size, unsigned version) : size_(std::min(size, kKnownConfigSize)), version_(version) {
    std::memcpy(bytes_.data(), from, size_);
  }

  template <class T>
  T read(size_t offset, unsigned since, T undefined) const {
    if (version_ < since || offset + sizeof(T) > size_) return undefined;
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

 private:
  std::array<std::byte, kKnownConfigSize> bytes_;
  size_t size_;
  unsigned version_;
};

/// What every structure with a size starts with. All of them hold pointers or size_t, hence the multiple of 8.
Result<> check_head(const char* type, const char* initializer, size_t size, size_t least, unsigned magic, unsigned right_magic,
                    unsigned version, unsigned first_version) {
  if (magic != right_magic) {
    return fail(Code::invalid_argument, fmt::format("{}.magic is {:#x} where {:#x} belongs: start the structure from {}", type,
                                                    magic, right_magic, initializer));
  }
  if (size < least || size > kAbsurdSize || size % alignof(size_t) != 0) {
    return fail(Code::invalid_argument,
                fmt::format("{}.size is {}; releases have had {} or more, in multiples of {}: start the structure from {}", type,
                            size, least, alignof(size_t), initializer));
  }
  if (version < first_version) {
    return fail(Code::invalid_argument, fmt::format("{}.version is {}; the structure exists since {}: start it from {}", type,
                                                    version, first_version, initializer));
  }
  return Done{};
}

std::string range_of(const IntField& field) {
  return field.high == INT_MAX ? fmt::format("{} or more", field.low) : fmt::format("{} to {}", field.low, field.high);
}

Result<> read_ints(const Image& image, CommOptions& options) {
  for (const IntField& field : kIntFields) {
    const int value = image.read(field.offset, field.since, NCCL_CONFIG_UNDEF_INT);
    if (value == NCCL_CONFIG_UNDEF_INT) continue;
    if (value < field.low || value > field.high) {
      return fail(Code::invalid_argument,
                  fmt::format("ncclConfig_t.{} is {}; allowed is {}, or NCCL_CONFIG_UNDEF_INT for the default", field.name, value,
                              range_of(field)));
    }
    options.*field.option = value;
  }
  return Done{};
}

/// The rules that join two fields.
Result<> check_pairs(CommOptions& options) {
  // NCCL compares the raw values, so a lower bound without an upper one is an error there too.
  if (options.min_ctas && *options.min_ctas > options.max_ctas.value_or(NCCL_CONFIG_UNDEF_INT)) {
    return fail(Code::invalid_argument,
                fmt::format("ncclConfig_t.minCTAs is {} and maxCTAs is {}; allowed is minCTAs up to maxCTAs: set both",
                            *options.min_ctas, options.max_ctas ? std::to_string(*options.max_ctas) : "not set"));
  }
  if (options.cta_policy == (NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO)) options.cta_policy = NCCL_CTA_POLICY_ZERO;
  if (options.graph_stream_ordering == 0 && options.graph_usage_mode.value_or(2) == 2) {
    log_once("ncclConfig_t.graphStreamOrdering 0 needs graphUsageMode 0 or 1; it is taken as 1");
    options.graph_stream_ordering = 1;
  }
  return Done{};
}

template <class T>
void keep(std::optional<T>& own, const std::optional<T>& parent) {
  if (!own) own = parent;
}

}  // namespace

Result<CommOptions> parse_config(const ncclConfig_t* config) {
  CommOptions options;
  if (config == nullptr) return options;
  RONDE_TRY(check_head("ncclConfig_t", "NCCL_CONFIG_INITIALIZER", config->size, kFirstConfigSize, config->magic, kConfigMagic,
                       config->version, kFirstConfigVersion));
  const Image image(config, config->size, config->version);
  RONDE_TRY(read_ints(image, options));
  for (const TextField& field : kTextFields) {
    const char* text = image.read<const char*>(field.offset, field.since, NCCL_CONFIG_UNDEF_PTR);
    if (text != nullptr) options.*field.option = text;
  }
  RONDE_TRY(check_pairs(options));
  return options;
}

CommOptions inherit(const CommOptions& parent, const CommOptions& own) {
  CommOptions child = own;
  for (const IntField& field : kIntFields) keep(child.*field.option, parent.*field.option);
  for (const TextField& field : kTextFields) keep(child.*field.option, parent.*field.option);
  return child;
}

Result<> check_sim_info(const ncclSimInfo_t* info) {
  if (info == nullptr) return Done{};
  return check_head("ncclSimInfo_t", "NCCL_SIM_INFO_INITIALIZER", info->size, sizeof(ncclSimInfo_t), info->magic, kSimInfoMagic,
                    info->version, kFirstSimInfoVersion);
}

Result<> store_choice(const rondeChoice_t& choice, rondeChoice_t* out) {
  RONDE_TRY(require_pointer(out, "choice"));
  const size_t size = out->size;
  if (size < sizeof(rondeChoice_t) || size > kAbsurdSize) {
    return fail(Code::invalid_argument,
                fmt::format("rondeChoice_t.size is {}; set it to sizeof(rondeChoice_t) before the call", size));
  }
  *out = choice;
  out->size = size;
  return Done{};
}

}  // namespace ronde
