#include "transport/verbs/line.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

namespace ronde::net {
namespace {

constexpr uint64_t kReceive = 1ull << 63;  // in the number of a work request
constexpr uint32_t kCountBits = 16;        // below: how many requests it ends
constexpr uint32_t kDepth = 256;
constexpr uint32_t kInline = 256;

}  // namespace

Result<std::unique_ptr<Line>> Line::make(const Port& port, const LineSettings& settings, uint32_t queues, Side side) {
  std::unique_ptr<Line> made(new Line(port, settings, side));
  RONDE_TRY(made->open(queues));
  return made;
}

Error Line::failed(int errno_value, const std::string& attempted) const {
  Error error = system_failure(
      errno_value, fmt::format("{} of {}", attempted, port_.device.name),
      errno_value == ENOMEM ? memlock_advice() : fmt::format("the port is {}", port_.adapter->port_text(port_.number)),
      Scope::connection);
  error.code = Code::system_error;
  return error;
}

Result<> Line::open(uint32_t queues) {
  const Verbs& verbs = port_.adapter->verbs();
  RONDE_TRY(block_, Mapping::anonymous(block_bytes(queues)));
  RONDE_TRY(block_registered_, port_.adapter->memory().of({block_.data(), block_bytes(queues)}));
  RONDE_TRY(find_partition());
  const ibv_device_attr& limits = port_.adapter->attributes();
  depth_ = std::min(queues > 16 ? kDepth / 2 : kDepth, static_cast<uint32_t>(limits.max_qp_wr));
  inline_bytes_ = settings_.send_inline ? kInline : 0;
  channel_ = verbs.create_comp_channel(port_.adapter->context());
  if (channel_ == nullptr) return failed(errno, "making a completion channel");
  const int flags = fcntl(channel_->fd, F_GETFL);
  if (flags < 0 || fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0) return failed(errno, "watching a completion channel");
  const auto entries = static_cast<int>(std::min(queues * (depth_ + kMaxMessages), static_cast<uint32_t>(limits.max_cqe)));
  completions_ = verbs.create_cq(port_.adapter->context(), entries, nullptr, channel_, 0);
  if (completions_ == nullptr) return failed(errno, fmt::format("making a completion queue of {} entries", entries));
  queues_.resize(queues);
  return make_queues();
}

Line::~Line() {
  const Verbs& verbs = port_.adapter->verbs();
  drop_queues();
  if (completions_ != nullptr) verbs.destroy_cq(completions_);
  if (channel_ != nullptr) verbs.destroy_comp_channel(channel_);
}

void Line::fail_queue(ibv_qp* pair) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  // Fails only where the adapter has: then nothing comes through it any more either.
  [[maybe_unused]] const int rc = port_.adapter->verbs().modify_qp(pair, &attributes, IBV_QP_STATE);
}

void Line::fail_queues() {
  for (const Queue& queue : queues_) {
    if (queue.pair != nullptr) fail_queue(queue.pair);
  }
}

void Line::drop_queues() {
  for (Queue& queue : queues_) {
    if (queue.pair != nullptr) port_.adapter->verbs().destroy_qp(queue.pair);
    queue = Queue{};
  }
  receiving_ = 0;
  polled_begin_ = polled_end_ = 0;
  if (completions_ == nullptr) return;
  while (ibv_poll_cq(completions_, static_cast<int>(polled_.size()), polled_.data()) > 0) {
  }
}

Result<> Line::make_queues() {
  drop_queues();
  for (uint32_t i = 0; i < queues_.size(); ++i) {
    RONDE_TRY(queues_[i].pair, make_queue(i));
    uint32_t random = 0;
    RONDE_TRY(fill_random(std::as_writable_bytes(std::span(&random, 1))));
    queues_[i].first_packet = random & 0xffffff;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = pkey_index_;
    attributes.port_num = static_cast<uint8_t>(port_.number);
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    const int rc = port_.adapter->verbs().modify_qp(queues_[i].pair, &attributes,
                                                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (rc != 0) return failed(rc, "preparing a queue pair");
  }
  return {};
}

Result<ibv_qp*> Line::make_queue(uint32_t index) {
  const bool sends = side_ == Side::sender || index == 0;
  const bool receives = side_ == Side::receiver || index == 0;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions_;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = sends ? depth_ : 1;
  wanted.cap.max_recv_wr = receives ? kMaxMessages : 1;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = sends ? inline_bytes_ : 0;
  ibv_qp* pair = port_.adapter->verbs().create_qp(port_.adapter->domain(), &wanted);
  if (pair == nullptr && inline_bytes_ > 0 && (errno == EINVAL || errno == ENOMEM)) {
    inline_bytes_ = 0;  // this adapter takes less
    return make_queue(index);
  }
  if (pair == nullptr) return failed(errno, fmt::format("making a queue pair (number {} of the connection)", index));
  return pair;
}

Result<> Line::receive(uint32_t queue) {
  ibv_recv_wr request{};
  request.wr_id = kReceive;
  ibv_recv_wr* bad = nullptr;
  if (const int rc = ibv_post_recv(queues_[queue].pair, &request, &bad)) return failed(rc, "posting a receive to a queue pair");
  ++receiving_;
  return {};
}

Result<> Line::write(uint32_t queue_index, const Write& write) {
  Queue& queue = queues_[queue_index];
  ibv_sge piece{};
  piece.addr = reinterpret_cast<uint64_t>(write.from);
  piece.length = static_cast<uint32_t>(write.bytes);
  piece.lkey = write.key;
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = write.bytes > 0 ? 1 : 0;
  request.wr.rdma.remote_addr = write.to;
  request.wr.rdma.rkey = write.to_key;
  request.opcode = IBV_WR_RDMA_WRITE;
  ++queue.sending;
  ++queue.untold;
  if (write.immediate.has_value()) {
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.imm_data = htonl(*write.immediate);
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr_id = write.id << kCountBits | queue.untold;
    queue.untold = 0;
  }
  if (write.bytes <= inline_bytes_) request.send_flags |= IBV_SEND_INLINE;
  ibv_send_wr* bad = nullptr;
  if (const int rc = ibv_post_send(queue.pair, &request, &bad)) return failed(rc, "posting a write to a queue pair");
  return {};
}

std::optional<Completion> Line::next() {
  while (true) {
    if (polled_begin_ == polled_end_) {
      polled_begin_ = 0;
      polled_end_ = std::max(ibv_poll_cq(completions_, static_cast<int>(polled_.size()), polled_.data()), 0);
      if (polled_end_ == 0) return std::nullopt;
    }
    const ibv_wc& wc = polled_[static_cast<size_t>(polled_begin_++)];
    const auto at =
        std::find_if(queues_.begin(), queues_.end(), [&](const Queue& queue) { return queue.pair->qp_num == wc.qp_num; });
    if (at == queues_.end()) continue;
    Completion completion;
    completion.queue = static_cast<uint32_t>(at - queues_.begin());
    completion.status = wc.status;
    completion.vendor = wc.vendor_err;
    completion.receive = (wc.wr_id & kReceive) != 0;
    if (completion.receive) {
      --receiving_;
      completion.bytes = wc.byte_len;
      if (wc.status == IBV_WC_SUCCESS) completion.immediate = ntohl(wc.imm_data);
    } else {
      at->sending -= std::min(at->sending, static_cast<uint32_t>(wc.wr_id & ((1u << kCountBits) - 1)));
      completion.id = wc.wr_id >> kCountBits;
    }
    return completion;
  }
}

Result<bool> Line::arm() {
  const Verbs& verbs = port_.adapter->verbs();
  ibv_cq* which = nullptr;
  void* context = nullptr;
  while (verbs.get_cq_event(channel_, &which, &context) == 0) {
    verbs.ack_cq_events(which, 1);
    armed_ = false;
  }
  if (!armed_) {
    if (const int rc = ibv_req_notify_cq(completions_, 0)) return failed(rc, "arming the completion queue");
    armed_ = true;
  }
  if (polled_begin_ != polled_end_) return false;
  polled_begin_ = 0;
  polled_end_ = std::max(ibv_poll_cq(completions_, static_cast<int>(polled_.size()), polled_.data()), 0);
  return polled_end_ == 0;
}

Result<> Line::use(std::span<std::byte> memory) {
  RONDE_TRY(std::shared_ptr<Registered> registered, port_.adapter->memory().of(memory));
  used_.push_back(std::move(registered));
  return {};
}

const Registered* Line::find(std::span<const std::byte> memory) const {
  for (const auto& one : used_) {
    if (one->covers(memory)) return one.get();
  }
  return nullptr;
}

Failure Line::failure(const Completion& completion, std::string attempted) const {
  Failure failure;
  failure.status = completion.status;
  failure.vendor = completion.vendor;
  failure.attempted = std::move(attempted);
  const Queue& queue = queues_[completion.queue];
  failure.here = fmt::format("{}, queue pair {}", here_, queue.pair == nullptr ? 0 : queue.pair->qp_num);
  failure.there = there_;
  if (completion.queue < peer_.queues.size())
    failure.there += fmt::format(", queue pair {}", peer_.queues[completion.queue].number);
  failure.port = port_.adapter->port_text(port_.number);
  return failure;
}

}  // namespace ronde::net
