#include "device/calls.h"

namespace ronde::test {

std::string CallCase::text() const {
  return std::string(name_of(coll)) + " of " + std::to_string(count) + " elements of type " + std::to_string(type) + ", op " + std::to_string(op) + ", root " +
         std::to_string(root) + (in_place ? ", in place" : "") + ", offset " + std::to_string(offset);
}

GpuCall::GpuCall(const CallCase& it, int rank, int ranks) : it_(it), rank_(rank), ranks_(ranks) {
  if (has_reduction(it.coll)) {
    reduction();
  } else {
    movement();
  }
}

void GpuCall::place(const std::vector<std::byte>& send, size_t recv_bytes, size_t own) {
  const size_t offset = it_.offset * type_size(it_.type);
  const bool sends = !send.empty(), receives = recv_bytes != 0;
  if (it_.in_place && sends && receives) {
    recv_buffer_ = std::make_unique<GpuBuffer>(std::max(send.size(), recv_bytes), offset);
    const bool recv_is_part = recv_bytes < send.size();
    send_ = recv_buffer_->at(recv_is_part ? 0 : own);
    recv_ = recv_buffer_->at(recv_is_part ? own : 0);
    recv_buffer_->set(send, recv_is_part ? 0 : own);
    result_at_ = recv_is_part ? own : 0;
    return;
  }
  if (sends) {
    send_buffer_ = std::make_unique<GpuBuffer>(send, offset);
    send_ = send_buffer_->at();
  }
  if (receives) {
    recv_buffer_ = std::make_unique<GpuBuffer>(recv_bytes, offset);
    recv_ = recv_buffer_->at();
  }
}

void GpuCall::reduction() {
  const auto n = static_cast<size_t>(ranks_), r = static_cast<size_t>(rank_);
  const bool scatters = it_.coll == Coll::reduce_scatter;
  const size_t own = scatters ? r * it_.count : 0;
  const std::vector<std::byte> send =
      make_data(it_.type, scatters ? it_.count * n : it_.count, [&](size_t i) { return exact_input(it_.type, it_.op, ranks_, rank_, i); });
  if (it_.coll != Coll::reduce || rank_ == it_.root) {
    want_ = make_data(it_.type, it_.count, [&](size_t i) { return exact_result(it_.type, it_.op, ranks_, own + i); });
  }
  place(send, want_.size(), own * type_size(it_.type));
}

void GpuCall::movement() {
  const size_t bytes = it_.count * type_size(it_.type);
  // Element i of what goes from one rank to another.
  const auto data = [&](int from, int to) { return make_data(it_.type, it_.count, [&](size_t i) { return (from * 3 + to + static_cast<int>(i)) % 5; }); };
  const auto append = [](std::vector<std::byte>& to, const std::vector<std::byte>& more) { to.insert(to.end(), more.begin(), more.end()); };
  const bool to_each = it_.coll == Coll::scatter || it_.coll == Coll::all_to_all;  // blocks differ by who gets them
  const bool rooted = has_root(it_.coll), root = rank_ == it_.root;
  std::vector<std::byte> send;
  for (int peer = 0; peer < ranks_; ++peer) {
    if (to_each && (!rooted || root)) append(send, data(rank_, peer));
    if (it_.coll == Coll::all_to_all) append(want_, data(peer, rank_));
    if (it_.coll == Coll::all_gather || (it_.coll == Coll::gather && root)) append(want_, data(peer, 0));
  }
  if (it_.coll == Coll::all_gather || it_.coll == Coll::gather || (it_.coll == Coll::broadcast && root)) send = data(rank_, 0);
  if (it_.coll == Coll::broadcast) want_ = data(it_.root, 0);
  if (it_.coll == Coll::scatter) want_ = data(it_.root, rank_);
  if (it_.coll == Coll::all_to_all) it_.in_place = false;
  place(send, want_.size(), it_.coll == Coll::broadcast ? 0 : static_cast<size_t>(rank_) * bytes);
}

ncclResult_t GpuCall::issue(ncclComm_t comm, cudaStream_t stream) const {
  const auto& [coll, type, op, count, root, in_place, offset] = it_;
  switch (coll) {
    case Coll::all_reduce: return ncclAllReduce(send_, recv_, count, type, op, comm, stream);
    case Coll::reduce: return ncclReduce(send_, recv_, count, type, op, root, comm, stream);
    case Coll::reduce_scatter: return ncclReduceScatter(send_, recv_, count, type, op, comm, stream);
    case Coll::broadcast: return ncclBroadcast(send_, recv_, count, type, root, comm, stream);
    case Coll::all_gather: return ncclAllGather(send_, recv_, count, type, comm, stream);
    case Coll::gather: return ncclGather(send_, recv_, count, type, root, comm, stream);
    case Coll::scatter: return ncclScatter(send_, recv_, count, type, root, comm, stream);
    case Coll::all_to_all: return ncclAlltoAll(send_, recv_, count, type, comm, stream);
    default: return ncclInvalidArgument;
  }
}

std::string GpuCall::check() const {
  for (const GpuBuffer* buffer : {send_buffer_.get(), recv_buffer_.get()}) {
    if (buffer != nullptr && !buffer->surroundings_untouched()) return it_.text() + ": it wrote outside of its buffers";
  }
  if (want_.empty()) return "";
  const std::vector<std::byte> all = recv_buffer_->get();
  const auto from = all.begin() + static_cast<ptrdiff_t>(result_at_);
  return compare(it_.text().c_str(), {from, from + static_cast<ptrdiff_t>(want_.size())}, want_, type_size(it_.type));
}

}  // namespace ronde::test
