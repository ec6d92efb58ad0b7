// Structures that callers hand in: every older size is read, garbage is an error that says what is wrong.
#include "api/config_arg.h"

#include <climits>
#include <cstddef>
#include <cstring>
#include <vector>

#include "support/catch.h"

using namespace ronde;
using ronde::test::contains;

namespace {

/// An ncclConfig_t of any release: bytes, as a caller compiled against that header has them.
class Caller {
 public:
  Caller(size_t size, unsigned version) : bytes_(size, std::byte{0xa5}) {
    put<size_t>(0, size);
    put<unsigned>(8, 0xcafebeef);
    put<unsigned>(12, version);
    for (size_t offset = 16; offset + 4 <= size; offset += 4) put<int>(offset, INT_MIN);
    if (size >= 40) put<const char*>(32, nullptr);
    if (size >= 72) put<const char*>(48, nullptr);
  }
  template <class T>
  Caller& put(size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof(T));
    return *this;
  }
  Result<CommOptions> parse() const { return parse_config(reinterpret_cast<const ncclConfig_t*>(bytes_.data())); }

 private:
  std::vector<std::byte> bytes_;
};

Caller today() { return Caller(sizeof(ncclConfig_t), NCCL_VERSION_CODE); }

struct Release {
  size_t size;
  unsigned version;
};
constexpr Release kReleases[] = {{24, 21400}, {40, 21700}, {48, 21800}, {48, 22600}, {72, 22700},
                                 {80, 22803}, {80, 22809}, {88, 22900}, {88, 22907}, {96, 23003},
                                 {96, 23007}, {96, 23401}, {104, 23100}, {352, 29999}};

std::string text_of(const Result<CommOptions>& result) {
  REQUIRE(result.code() == Code::invalid_argument);
  return result.error().what;
}

bool nothing_set(const CommOptions& o) {
  return !o.blocking && !o.cga_cluster_size && !o.min_ctas && !o.max_ctas && !o.net_name && !o.split_share && !o.traffic_class &&
         !o.comm_name && !o.collnet_enable && !o.cta_policy && !o.shrink_share && !o.nvls_ctas && !o.channels_per_net_peer &&
         !o.nvlink_centric_sched && !o.graph_usage_mode && !o.num_rma_ctx && !o.max_p2p_peers && !o.graph_stream_ordering;
}

}  // namespace

TEST_CASE("no config, or one in which nothing is set, sets nothing") {
  REQUIRE(parse_config(nullptr).ok());
  CHECK(nothing_set(*parse_config(nullptr)));
  const ncclConfig_t initialised = NCCL_CONFIG_INITIALIZER;
  REQUIRE(parse_config(&initialised).ok());
  CHECK(nothing_set(*parse_config(&initialised)));
  for (const Release& release : kReleases) {
    CAPTURE(release.size, release.version);
    const auto options = Caller(release.size, release.version).parse();
    REQUIRE(options.ok());
    CHECK(nothing_set(*options));
  }
}

TEST_CASE("a config of every release is read as far as it goes") {
  for (const Release& release : kReleases) {
    CAPTURE(release.size, release.version);
    Caller caller(release.size, release.version);
    caller.put<int>(16, 0);
    if (release.size >= 40) caller.put<int>(20, 2).put<int>(24, 3).put<int>(28, 5).put<const char*>(32, "Socket");
    if (release.size >= 48) caller.put<int>(40, 1);
    const auto options = caller.parse();
    REQUIRE(options.ok());
    CHECK(options->blocking == 0);
    CHECK(options->cga_cluster_size == (release.size >= 40 ? std::optional(2) : std::nullopt));
    CHECK(options->min_ctas == (release.size >= 40 ? std::optional(3) : std::nullopt));
    CHECK(options->max_ctas == (release.size >= 40 ? std::optional(5) : std::nullopt));
    CHECK(options->net_name == (release.size >= 40 ? std::optional<std::string>("Socket") : std::nullopt));
    CHECK(options->split_share == (release.size >= 48 ? std::optional(1) : std::nullopt));
  }
}

TEST_CASE("every field of our own header arrives") {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.trafficClass = -7;
  config.commName = "tensor";
  config.collnetEnable = 1;
  config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  config.shrinkShare = 1;
  config.nvlsCTAs = 16;
  config.nChannelsPerNetPeer = 64;
  config.nvlinkCentricSched = 1;
  const auto options = parse_config(&config);
  REQUIRE(options.ok());
  CHECK(options->blocking == 1);
  CHECK(options->traffic_class == -7);
  CHECK(options->comm_name == "tensor");
  CHECK(options->collnet_enable == 1);
  CHECK(options->cta_policy == NCCL_CTA_POLICY_EFFICIENCY);
  CHECK(options->shrink_share == 1);
  CHECK(options->nvls_ctas == 16);
  CHECK(options->channels_per_net_peer == 64);
  CHECK(options->nvlink_centric_sched == 1);
}

TEST_CASE("what is newer than the caller's version is padding, not a value") {
  CHECK(Caller(48, 21800).put<int>(44, 12345).parse()->traffic_class == std::nullopt);  // 2.18 to 2.24 have padding there
  CHECK(Caller(48, 22500).put<int>(44, 12345).parse()->traffic_class == 12345);
  CHECK(Caller(96, 23003).put<int>(92, 99).parse()->graph_stream_ordering == std::nullopt);
  CHECK(Caller(96, 23005).put<int>(92, 99).parse().code() == Code::invalid_argument);
  CHECK(Caller(96, 23000).put<int>(92, 99).parse()->graph_stream_ordering == std::nullopt);
}

TEST_CASE("a value out of its range is named with the range") {
  struct Row {
    const char* field;
    size_t offset;
    int low, high;
  };
  constexpr Row rows[] = {
      {"blocking", 16, 0, 1},           {"cgaClusterSize", 20, 0, INT_MAX}, {"maxCTAs", 28, 1, INT_MAX},
      {"splitShare", 40, 0, 1},         {"collnetEnable", 56, 0, 1},        {"CTAPolicy", 60, 0, 3},
      {"shrinkShare", 64, 0, 1},        {"nvlsCTAs", 68, 1, INT_MAX},       {"nChannelsPerNetPeer", 72, 1, 64},
      {"nvlinkCentricSched", 76, 0, 1}, {"graphUsageMode", 80, 0, 2},       {"numRmaCtx", 84, 0, INT_MAX},
      {"maxP2pPeers", 88, 1, INT_MAX},  {"graphStreamOrdering", 92, 0, 1}};
  for (const Row& row : rows) {
    CAPTURE(row.field);
    const auto with = [&](int value) { return Caller(96, 23005).put<int>(row.offset, value).parse(); };
    CHECK(with(row.low).ok());
    CHECK(with(row.high).ok());
    const std::string below = text_of(with(row.low - 1));
    CHECK(contains(below, std::string("ncclConfig_t.") + row.field + " is " + std::to_string(row.low - 1)));
    CHECK(contains(below, std::to_string(row.low) + (row.high == INT_MAX ? " or more" : " to " + std::to_string(row.high))));
    if (row.high != INT_MAX) CHECK(contains(text_of(with(row.high + 1)), row.field));
  }
  CHECK(contains(text_of(today().put<int>(24, 0).put<int>(28, 4).parse()), "ncclConfig_t.minCTAs is 0"));
}

TEST_CASE("minCTAs and maxCTAs are compared as they stand, set or not") {
  CHECK(today().put<int>(24, 4).put<int>(28, 4).parse().ok());
  CHECK(today().put<int>(28, 4).parse().ok());
  CHECK(contains(text_of(today().put<int>(24, 5).put<int>(28, 4).parse()), "minCTAs is 5 and maxCTAs is 4"));
  CHECK(contains(text_of(today().put<int>(24, 4).parse()), "maxCTAs is not set"));
}

TEST_CASE("rules that join two fields") {
  CHECK(today().put<int>(60, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO).parse()->cta_policy == NCCL_CTA_POLICY_ZERO);
  CHECK(Caller(96, 23005).put<int>(92, 0).parse()->graph_stream_ordering == 1);
  CHECK(Caller(96, 23005).put<int>(80, 1).put<int>(92, 0).parse()->graph_stream_ordering == 0);
}

TEST_CASE("a config that no header made is refused") {
  const auto broken = [](auto change) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    change(config);
    return text_of(parse_config(&config));
  };
  CHECK(contains(broken([](ncclConfig_t& c) { c.magic = 0; }), "NCCL_CONFIG_INITIALIZER"));
  CHECK(contains(broken([](ncclConfig_t& c) { c.magic = 0x74685283; }), "ncclConfig_t.magic is 0x74685283"));
  CHECK(contains(broken([](ncclConfig_t& c) { c.version = 0; }), "ncclConfig_t.version is 0"));
  CHECK(contains(broken([](ncclConfig_t& c) { c.version = 22799; }), "22800"));
  for (const unsigned version : {1u, 30000u, 99999u, 0xcafebeefu, 0xffffffffu}) {
    CAPTURE(version);
    CHECK(contains(broken([&](ncclConfig_t& c) { c.version = version; }), "ncclConfig_t.version is " + std::to_string(version)));
  }
  for (const size_t size : {size_t{0}, size_t{8}, size_t{16}, size_t{32}, size_t{56}, size_t{64}, size_t{79}, size_t{100}, size_t{360}, size_t{4096},
                            size_t{1} << 20, SIZE_MAX, SIZE_MAX - 7}) {
    CAPTURE(size);
    CHECK(contains(broken([&](ncclConfig_t& c) { c.size = size; }), "ncclConfig_t.size is " + std::to_string(size)));
  }
  const ncclConfig_t zeros = {};
  CHECK(contains(text_of(parse_config(&zeros)), "magic"));
}

TEST_CASE("a version older than the size is garbage, a newer one is a caller that left fields out") {
  for (const Release& release : {Release{24, 21399}, {40, 21699}, {48, 21799}, {72, 22699}, {80, 22799}, {88, 22899}, {96, 22999}, {104, 22999}}) {
    CAPTURE(release.size, release.version);
    CHECK(contains(text_of(Caller(release.size, release.version).parse()), "exists since"));
  }
  CHECK(Caller(48, 22809).put<int>(16, 0).parse()->blocking == 0);
}

TEST_CASE("a child takes from its parent what it does not set") {
  CommOptions parent, own;
  parent.blocking = 0;
  parent.comm_name = "parent";
  parent.max_ctas = 8;
  own.max_ctas = 2;
  const CommOptions child = inherit(parent, own);
  CHECK(child.blocking == 0);
  CHECK(child.comm_name == "parent");
  CHECK(child.max_ctas == 2);
  CHECK_FALSE(child.min_ctas.has_value());
}

TEST_CASE("ncclSimInfo_t is checked like a config") {
  CHECK(check_sim_info(nullptr).ok());
  const ncclSimInfo_t good = NCCL_SIM_INFO_INITIALIZER;
  CHECK(check_sim_info(&good).ok());
  const auto broken = [&](auto change) {
    ncclSimInfo_t info = good;
    change(info);
    return check_sim_info(&info).code();
  };
  const auto later = [](size_t size, unsigned version) {
    return [=](ncclSimInfo_t& i) {
      i.size = size;
      i.version = version;
    };
  };
  CHECK(broken(later(24, 22200)) == Code::success);
  CHECK(broken(later(32, 23100)) == Code::success);
  CHECK(broken(later(32, 22809)) == Code::invalid_argument);
  CHECK(broken(later(24, 22199)) == Code::invalid_argument);
  CHECK(broken(later(24, 99999)) == Code::invalid_argument);
  CHECK(broken(later(24, 0x74685283)) == Code::invalid_argument);
  CHECK(broken(later(28, 23100)) == Code::invalid_argument);
  CHECK(broken(later(4096, 23100)) == Code::invalid_argument);
  CHECK(broken([](ncclSimInfo_t& i) { i.magic = 0xcafebeef; }) == Code::invalid_argument);
  CHECK(broken([](ncclSimInfo_t& i) { i.size = 0; }) == Code::invalid_argument);
  CHECK(broken([](ncclSimInfo_t& i) { i.size = SIZE_MAX; }) == Code::invalid_argument);
  CHECK(broken([](ncclSimInfo_t& i) { i.version = 0; }) == Code::invalid_argument);
}

TEST_CASE("rondeChoice_t is filled as far as the caller knows it") {
  rondeChoice_t ours = {};
  ours.channels = 3;
  rondeChoice_t theirs = {};
  CHECK(store_choice(ours, nullptr).code() == Code::invalid_argument);
  CHECK(store_choice(ours, &theirs).code() == Code::invalid_argument);
  CHECK(theirs.channels == 0);
  theirs.size = sizeof(rondeChoice_t);
  REQUIRE(store_choice(ours, &theirs).ok());
  CHECK(theirs.channels == 3);
  CHECK(theirs.size == sizeof(rondeChoice_t));
  theirs.size = 4096;
  CHECK(store_choice(ours, &theirs).code() == Code::invalid_argument);
  theirs.size = sizeof(rondeChoice_t) + 4;
  CHECK(store_choice(ours, &theirs).code() == Code::invalid_argument);
}
