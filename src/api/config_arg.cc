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
constexpr unsigned kEndOfVersions = NCCL_VERSION(3, 0, 0);  // another major version is another interface
constexpr size_t kGrowth = 256;  // bytes up to which a later release may plausibly have grown a structure
constexpr size_t kKnownConfigSize = 96;

/// A size that a structure has had, and the release that brought it.
struct Head {
  size_t size;
  unsigned since;
};
constexpr Head kConfigHeads[] = {{24, NCCL_VERSION(2, 14, 0)}, {40, NCCL_VERSION(2, 17, 0)}, {48, NCCL_VERSION(2, 18, 0)}, {72, NCCL_VERSION(2, 27, 0)},
                                 {80, NCCL_VERSION(2, 28, 0)}, {88, NCCL_VERSION(2, 29, 0)}, {kKnownConfigSize, NCCL_VERSION(2, 30, 0)}};
constexpr Head kSimInfoHeads[] = {{24, NCCL_VERSION(2, 22, 0)}};
constexpr unsigned kNewestRelease = NCCL_VERSION(2, 30, 0);  // known to us: a larger structure is of this one or a later one

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

bool later_size(size_t size, size_t newest) { return size > newest && size <= newest + kGrowth && size % alignof(size_t) == 0; }

std::string sizes_of(std::span<const Head> heads) {
  std::string text;
  for (const Head& head : heads) text += fmt::format("{}{}", text.empty() ? "" : ", ", head.size);
  return text;
}

/// What every structure with a size starts with: `heads` are the sizes it has had, by release.
Result<> check_head(const char* type, const char* initializer, std::span<const Head> heads, size_t size, unsigned magic, unsigned right_magic,
                    unsigned version) {
  if (magic != right_magic) {
    return fail(Code::invalid_argument, fmt::format("{}.magic is {:#x} where {:#x} belongs: start the structure from {}", type,
                                                    magic, right_magic, initializer));
  }
  const auto known = std::find_if(heads.begin(), heads.end(), [size](const Head& head) { return head.size == size; });
  const size_t newest = heads.back().size;
  if (known == heads.end() && !later_size(size, newest)) {
    return fail(Code::invalid_argument,
                fmt::format("{}.size is {}; releases have had {}, and a later one may have up to {} in multiples of {}: start the structure from {}", type,
                            size, sizes_of(heads), newest + kGrowth, alignof(size_t), initializer));
  }
  const unsigned since = known != heads.end() ? known->since : kNewestRelease;
  if (version < since || version >= kEndOfVersions) {
    return fail(Code::invalid_argument, fmt::format("{}.version is {}; with {} bytes the structure exists since {}, and versions end before {}: start it from {}",
                                                    type, version, size, since, kEndOfVersions, initializer));
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
  RONDE_TRY(check_head("ncclConfig_t", "NCCL_CONFIG_INITIALIZER", kConfigHeads, config->size, config->magic, kConfigMagic, config->version));
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
  child.gpu = parent.gpu;
  for (const IntField& field : kIntFields) keep(child.*field.option, parent.*field.option);
  for (const TextField& field : kTextFields) keep(child.*field.option, parent.*field.option);
  return child;
}

Result<> check_sim_info(const ncclSimInfo_t* info) {
  if (info == nullptr) return Done{};
  return check_head("ncclSimInfo_t", "NCCL_SIM_INFO_INITIALIZER", kSimInfoHeads, info->size, info->magic, kSimInfoMagic, info->version);
}

Result<> store_choice(const rondeChoice_t& choice, rondeChoice_t* out) {
  RONDE_TRY(require_pointer(out, "choice"));
  const size_t size = out->size;
  if (size != sizeof(rondeChoice_t) && !later_size(size, sizeof(rondeChoice_t))) {
    return fail(Code::invalid_argument,
                fmt::format("rondeChoice_t.size is {}; set it to sizeof(rondeChoice_t) before the call", size));
  }
  *out = choice;
  out->size = size;
  return Done{};
}

}  // namespace ronde
