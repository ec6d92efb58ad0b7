// The slots of a Fabric between two ranks: what executors see of the transport that the library chooses.
#include <sched.h>
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/abort.h"
#include "base/config.h"
#include "boot/bootstrap.h"
#include "tools/fifo/line.h"
#include "transport/fabric.h"

namespace ronde::fifo_tool {
namespace {

/// A message goes through as many slots as it needs, each filled by a copy and emptied by one.
class FabricLine final : public Line {
 public:
  FabricLine(std::unique_ptr<AbortWord> abort, std::unique_ptr<Bootstrap> bootstrap, std::unique_ptr<Fabric> fabric,
             BellLease bell, int peer)
      : abort_(std::move(abort)),
        bootstrap_(std::move(bootstrap)),
        bell_(std::move(bell)),
        fabric_(std::move(fabric)),
        peer_(peer) {}
  ~FabricLine() override { fabric_->close(); }

  Result<> prepare(size_t bytes) override {
    data_.assign(bytes, std::byte{1});
    room_.resize(bytes);
    RONDE_TRY(out_, fabric_->writer(peer_, 0));
    return {};
  }
  Result<bool> send() override {
    if (to_send_ == 0) to_send_ = data_.size();
    FifoHeader& header = *out_.header;
    while (to_send_ > 0) {
      const uint64_t tail = header.tail.load(std::memory_order_relaxed);  // this party's own
      if (tail - header.head.load(std::memory_order_seq_cst) == out_.slots) return false;
      Slot& slot = out_.slot_of(tail);
      slot.kind = SlotKind::bytes;
      slot.bytes = std::min<size_t>(to_send_, out_.slot_capacity);
      std::memcpy(out_.data_of(tail), data_.data() + (data_.size() - to_send_), slot.bytes);
      to_send_ -= slot.bytes;
      header.tail.store(tail + 1, std::memory_order_seq_cst);  // publishes the slot
      fabric_->ring(peer_);
    }
    return true;
  }
  Result<bool> receive() override {
    if (!in_) in_ = fabric_->reader(peer_, 0);
    if (!in_) return false;
    FifoHeader& header = *in_.header;
    while (received_ < room_.size()) {
      const uint64_t head = header.head.load(std::memory_order_relaxed);  // this party's own
      if (head == header.tail.load(std::memory_order_seq_cst)) return false;
      const size_t bytes = in_.slot_of(head).bytes;
      std::memcpy(room_.data() + received_, in_.data_of(head), bytes);
      received_ += bytes;
      header.head.store(head + 1, std::memory_order_seq_cst);  // gives the slot back
      fabric_->ring(peer_);
    }
    received_ = 0;
    return true;
  }
  Result<bool> flushed() override {
    if (to_send_ == 0) fabric_->rest(false);  // what a proxy still has to do, it does now
    return to_send_ == 0;
  }
  Result<> idle() override {
    if (!fabric_->help()) sched_yield();
    return {};
  }

 private:
  const std::unique_ptr<AbortWord> abort_;
  const std::unique_ptr<Bootstrap> bootstrap_;
  const BellLease bell_;
  const std::unique_ptr<Fabric> fabric_;
  const int peer_;
  FifoView out_;
  FifoView in_;
  std::vector<std::byte> data_;
  std::vector<std::byte> room_;
  size_t to_send_ = 0;
  size_t received_ = 0;
};

Result<UniqueId> common_id(int party, const Config& config, Board& board) {
  if (party == 0) {
    RONDE_TRY(board.id, make_unique_id(config));
    board.with_id.store(1);
  }
  RONDE_TRY(board.wait(board.with_id));
  return board.id;
}

}  // namespace

Result<std::unique_ptr<Line>> make_fabric_line(int party, bool apart, Board& board) {
  std::shared_ptr<const Config> config = current_config();
  if (apart) {
    const Config on_own_host = config->with(Setting::hostid, "party " + std::to_string(party), "ronde-fifo");
    config = std::make_shared<const Config>(on_own_host);
  }
  RONDE_TRY(const UniqueId id, common_id(party, *config, board));
  auto abort = std::make_unique<AbortWord>();
  RONDE_TRY(std::unique_ptr<Bootstrap> bootstrap, join(JoinRequest{party, 2, {id}}, config, abort.get()));
  FabricRequest request;
  request.bootstrap = bootstrap.get();
  request.config = config;
  request.abort = abort.get();
  request.on_death = [&board](int, const std::string& how) { board.fail_with(fail(Code::remote_error, how)); };
  request.on_error = [&board](int, const Error& error) { board.fail_with(error); };
  RONDE_TRY(std::unique_ptr<Fabric> fabric, Fabric::make(std::move(request)));
  RONDE_TRY(BellLease bell, lease_bell());
  fabric->control(party).bell.store(bell.index());
  return std::unique_ptr<Line>(
      std::make_unique<FabricLine>(std::move(abort), std::move(bootstrap), std::move(fabric), std::move(bell), 1 - party));
}

}  // namespace ronde::fifo_tool
