// How a Line's queue pairs are connected: settings, GIDs, the ways between ports.
#include <algorithm>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/core.h>

#include "base/log.h"
#include "transport/verbs/line.h"

namespace ronde::net {
namespace {

constexpr uint32_t kSoftware = 0xffffff;  // vendor of rxe
constexpr uint8_t kRnrTimer = 12;         // 0.64 ms; a receive is always posted, so this is never waited for
constexpr uint8_t kRnrRetries = 7;        // for ever

int bytes_of(ibv_mtu mtu) { return 128 << mtu; }

}  // namespace

Result<LineSettings> line_settings(const Config& config) {
  LineSettings all;
  all.queues = static_cast<uint32_t>(config.integer(Setting::ib_qps_per_connection));
  all.split = config.flag(Setting::ib_split_data_on_qps);
  all.send_inline = config.flag(Setting::ib_use_inline);
  all.adaptive = config.integer(Setting::ib_adaptive_routing);
  all.apart = config.bytes(Setting::ib_ar_threshold);
  all.timeout = static_cast<uint8_t>(config.integer(Setting::ib_timeout));
  all.retries = static_cast<uint8_t>(config.integer(Setting::ib_retry_cnt));
  all.service_level = static_cast<uint8_t>(std::max<int64_t>(config.integer(Setting::ib_sl), 0));
  const int64_t asked = config.integer(Setting::traffic_class), control = config.integer(Setting::ib_fifo_tc);
  all.data_class =
      static_cast<uint8_t>(std::clamp<int64_t>(asked >= 0 ? asked : config.integer(Setting::ib_tc), 0, UINT8_MAX));
  all.control_class = control >= 0 ? static_cast<uint8_t>(control) : all.data_class;
  all.pkey_index = config.integer(Setting::ib_pkey);
  all.partition = config.integer(Setting::ib_partition);
  all.mtu = config.integer(Setting::ib_mtu);
  all.rebuild_window = config.seconds(Setting::ib_rebuild_window);
  RONDE_TRY(all.gids, gid_wishes(config));
  return all;
}

Result<> Line::find_partition() {
  pkey_index_ = static_cast<uint16_t>(settings_.pkey_index);
  if (settings_.partition < 0) return {};
  constexpr int kMember = 0x8000;  // the bit of full members is no part of the key
  const auto own = port_.adapter->port(port_.number);
  std::string there;
  for (int i = 0; own.has_value() && i < own->pkey_tbl_len; ++i) {
    __be16 key = 0;
    if (port_.adapter->verbs().query_pkey(port_.adapter->context(), static_cast<uint8_t>(port_.number), i, &key) != 0) continue;
    if ((ntohs(key) & ~kMember) == (settings_.partition & ~kMember)) {
      pkey_index_ = static_cast<uint16_t>(i);
      return {};
    }
    if ((ntohs(key) & ~kMember) != 0) there += fmt::format("{}{:#x}", there.empty() ? "" : ", ", ntohs(key));
  }
  return fail(Code::system_error,
              fmt::format("{} is not in partition {:#x} (RONDE_IB_PARTITION), but in {}; see the subnet manager's partitions",
                          port_.device.name, settings_.partition, there.empty() ? "none" : there),
              Scope::connection);
}

Result<std::vector<Gid>> offered_by(const Port& port, const GidWishes& wishes) {
  const auto own = port.adapter->port(port.number);
  GidWishes wanted = wishes;
  if (own.has_value() && own->link_layer != IBV_LINK_LAYER_ETHERNET) {
    wanted.range.reset();  // of internet addresses
    wanted.index = std::max<int64_t>(wanted.index, 0);
  }
  Result<std::vector<Gid>> offered = offered_gids(port.adapter->gids(port.number), wanted);
  if (offered.ok()) return offered;
  return fail(offered.code(), fmt::format("{}: {}", port.device.name, offered.error().what), Scope::connection);
}

Result<Card> Line::card(uint32_t generation) {
  const auto own = port_.adapter->port(port_.number);
  if (!own.has_value()) return failed(EIO, "asking for the state");
  RONDE_TRY(offered_, offered_by(port_, settings_.gids));
  Card card;
  card.generation = generation;
  card.device = port_.device.name;
  card.ethernet = own->link_layer == IBV_LINK_LAYER_ETHERNET;
  card.mtu = static_cast<uint8_t>(own->active_mtu);
  card.lid = own->lid;
  card.gids = offered_;
  for (const Queue& queue : queues_) card.queues.push_back({queue.pair->qp_num, queue.first_packet});
  card.block = reinterpret_cast<uint64_t>(block_.data());
  card.block_key = block_registered_->rkey();
  return card;
}

ibv_mtu Line::mtu_for(const Card& peer, const ibv_port_attr& own) const {
  int mtu = std::min<int>(own.active_mtu, peer.mtu);
  while (settings_.mtu > 0 && mtu > IBV_MTU_256 && bytes_of(static_cast<ibv_mtu>(mtu)) > settings_.mtu) --mtu;
  return static_cast<ibv_mtu>(std::clamp<int>(mtu, IBV_MTU_256, IBV_MTU_4096));
}

Result<ibv_ah_attr> Line::way_to(const Card& peer, const ibv_port_attr& own, std::string* reason) {
  const bool ethernet = own.link_layer == IBV_LINK_LAYER_ETHERNET;
  const bool sends = side_ == Side::sender;
  const auto pair = sends ? choose_gids(offered_, peer.gids) : choose_gids(peer.gids, offered_);
  if (!pair.has_value() || ethernet != peer.ethernet) {
    std::string text;
    for (const Gid& gid : peer.gids) text += (text.empty() ? "" : ", ") + to_string(gid);
    return fail(Code::system_error,
                fmt::format("no GID of {} goes with one of {} ({}{}); both need addresses of one kind (NCCL_IB_GID_INDEX, "
                            "NCCL_IB_ADDR_FAMILY, NCCL_IB_ROCE_VERSION_NUM)",
                            port_.device.name, peer.device, peer.ethernet ? "Ethernet: " : "InfiniBand: ", text),
                Scope::connection);
  }
  const Gid& mine = offered_[sends ? pair->sender : pair->receiver];
  const Gid& theirs = peer.gids[sends ? pair->receiver : pair->sender];
  ibv_ah_attr way{};
  way.port_num = static_cast<uint8_t>(port_.number);
  way.sl = settings_.service_level;
  way.dlid = peer.lid;
  way.is_global = ethernet || std::memcmp(mine.bytes.data(), theirs.bytes.data(), 8) != 0 || settings_.gids.index >= 0;
  std::memcpy(&way.grh.dgid, theirs.bytes.data(), sizeof way.grh.dgid);
  way.grh.sgid_index = static_cast<uint8_t>(mine.index);
  way.grh.hop_limit = 255;
  way.grh.traffic_class = sends ? settings_.data_class : settings_.control_class;
  here_ = fmt::format("{} (GID {}, {})", port_.device.name, mine.index, to_string(mine));
  there_ = fmt::format("{} (GID {}, {})", peer.device, theirs.index, to_string(theirs));
  *reason = pair->reason;
  if (settings_.gids.index >= 0) *reason += fmt::format(", as {} says", settings_.gids.index_source);
  return way;
}

Result<> Line::reach(Queue& queue, const Card::Queue& peer, const ibv_ah_attr& way, ibv_mtu mtu) {
  const Verbs& verbs = port_.adapter->verbs();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu;
  attributes.dest_qp_num = peer.number;
  attributes.rq_psn = peer.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kRnrTimer;
  attributes.ah_attr = way;
  int rc = verbs.modify_qp(queue.pair, &attributes,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (rc != 0) return failed(rc, fmt::format("connecting a queue pair to {}, from {}", there_, here_));
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = settings_.timeout;
  // rxe takes 7 for "for ever", and would never find out that the peer has gone.
  attributes.retry_cnt =
      port_.adapter->attributes().vendor_id == kSoftware ? std::min<uint8_t>(settings_.retries, 6) : settings_.retries;
  attributes.rnr_retry = kRnrRetries;
  attributes.sq_psn = queue.first_packet;
  attributes.max_rd_atomic = 1;
  rc = verbs.modify_qp(
      queue.pair, &attributes,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (rc != 0) return failed(rc, fmt::format("letting a queue pair send to {}, from {}", there_, here_));
  return {};
}

Result<> Line::connect(const Card& peer, const Ends& ends) {
  if (peer.queues.size() != queues_.size())
    return foreign_stream(ends, fmt::format("a card of {} queue pairs came for {}", peer.queues.size(), queues_.size()));
  const auto own = port_.adapter->port(port_.number);
  if (!own.has_value()) return failed(EIO, "asking for the state");
  std::string reason;
  RONDE_TRY(const ibv_ah_attr way, way_to(peer, *own, &reason));
  const ibv_mtu mtu = mtu_for(peer, *own);
  longest_ = std::clamp<uint64_t>(own->max_msg_sz, 1 << 20, 1u << 30);
  adaptive_ = settings_.adaptive == 1 || (settings_.adaptive < 0 && !peer.ethernet);
  peer_ = peer;
  there_ += fmt::format(" of {}", to_string(ends.there));
  for (uint32_t i = 0; i < queues(); ++i) {
    if (side_ == Side::receiver || i == 0) {
      for (uint32_t n = 0; n < kMaxMessages; ++n) RONDE_TRY(receive(i));
    }
    RONDE_TRY(reach(queues_[i], peer.queues[i], way, mtu));
  }
  RONDE_INFO(net, "NET/IB {} {} {}: {}; MTU {}, {} queue pair{}{}", here_, side_ == Side::sender ? "to" : "from", there_, reason,
             bytes_of(mtu), queues(), queues() == 1 ? "" : "s",
             peer.generation == 0 ? "" : fmt::format(", made anew ({})", peer.generation));
  return {};
}

}  // namespace ronde::net
