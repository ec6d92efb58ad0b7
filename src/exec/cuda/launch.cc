// From Works to one kernel.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "exec/cuda/gpu_rank.h"

namespace ronde::gpu {
namespace {

Numbering numbering_of(const Work& work) {
  if (!work.call.message()) return Numbering::collective;
  return work.call.coll == Coll::send ? Numbering::send : Numbering::receive;
}

/// Bytes of scratch memory that the channel with the most needs.
size_t scratch_share(const Work& work) {
  size_t most = 0;
  for (const ronde::Part& part : work.parts) most = std::max(most, to_granule(part.bound->program->scratch_blocks * part.table.block));
  return most;
}

Result<Call> call_of(const Item& item, const Uploaded& uploaded) {
  const Work& work = *item.work;
  Call call{};
  call.scratch_share = scratch_share(work);
  RONDE_TRY(call.scratch, item.rank->scratch(call.scratch_share * work.parts.size()));
  call.rank = item.rank->address();
  call.programs = uploaded.programs;
  call.buffers = work.buffers;
  call.slicing = work.rule;
  call.fingerprint = work.fingerprint;
  call.count = work.call.count;
  call.factor = work.scale.factor;
  call.coll_type_op = static_cast<uint32_t>(work.call.packed());
  call.root = work.call.root;
  call.channels = static_cast<uint32_t>(std::max<size_t>(1, work.parts.size()));
  call.divisor = static_cast<uint32_t>(work.scale.divisor);
  call.numbering = numbering_of(work);
  call.average = has_reduction(work.call.coll) && work.call.op == ReduceOp::avg ? 1 : 0;
  call.premultiplied = has_reduction(work.call.coll) && work.call.op == ReduceOp::premul_sum ? 1 : 0;
  return call;
}

/// Fills the launch. Every Work is a call, every channel of it a part.
Result<> fill(std::span<const Item> items, Launch* launch) {
  for (const Item& item : items) {
    RONDE_TRY(const Uploaded* uploaded, item.rank->upload(*item.work));
    const size_t parts = std::max<size_t>(1, item.work->parts.size());
    if (launch->calls_count == kMostCalls || launch->parts_count + parts > kMostParts) {
      return fail(Code::invalid_usage, fmt::format("a group on {} has more than {} calls or {} channels in one launch; use several groups", item.rank->gpu()->name(),
                                                   kMostCalls, kMostParts));
    }
    for (size_t c = 0; c < parts; ++c) {
      launch->parts[launch->parts_count++] = {static_cast<uint16_t>(launch->calls_count), static_cast<uint16_t>(c)};
    }
    RONDE_TRY(launch->calls[launch->calls_count++], call_of(item, *uploaded));
    launch->most_operands = std::max(launch->most_operands, uploaded->most_operands);
    launch->most_lanes = std::max(launch->most_lanes, uploaded->most_lanes);
  }
  launch->parts_each = 1;
  for (uint32_t i = 0; i < launch->calls_count; ++i) {
    for (uint32_t k = 0; k < launch->calls_count; ++k) {
      if (launch->calls[k].rank == launch->calls[i].rank) launch->calls[i].parts_of_rank += launch->calls[k].channels;
    }
  }
  return {};
}

/// What runs on another stream of a rank comes first.
Result<> order_after(GpuRank& rank, cu::CUstream stream) {
  if (rank.launches == 0 || rank.last_stream == stream) return {};
  return device::check(rank.gpu()->driver().cuStreamWaitEvent(stream, rank.last.get(), 0), [&] { return fmt::format("ordering streams on {}", rank.gpu()->name()); });
}

}  // namespace

KernelName kernel_of(const Work& work) {
  return has_reduction(work.call.coll) ? reducing_kernel(work.call.type, work.call.op) : copying_kernel();
}

Result<> launch(std::span<const Item> items, cu::CUstream stream) {
  GpuRank& first = *items.front().rank;
  const device::Gpu& gpu = *first.gpu();
  const auto launch = std::make_unique<Launch>();
  RONDE_TRY(fill(items, launch.get()));
  std::vector<GpuRank*> ranks;
  for (const Item& item : items) {
    if (std::find(ranks.begin(), ranks.end(), item.rank) == ranks.end()) ranks.push_back(item.rank);
  }
  const device::Current current(gpu);
  for (GpuRank* rank : ranks) RONDE_TRY(order_after(*rank, stream));
  const KernelName kernel = kernel_of(*items.front().work);
  const uint32_t blocks = (launch->parts_count + launch->parts_each - 1) / launch->parts_each;
  void* parameters[] = {launch.get()};
  RONDE_TRY(device::check(
      gpu.driver().cuLaunchKernel(first.kernels().find(kernel), blocks, 1, 1, kThreads, 1, 1,
                                  shared_bytes(launch->most_lanes, launch->most_operands, launch->parts_each), stream, parameters, nullptr),
      [&] { return fmt::format("launching {} with {} blocks on {}", kernel.name, blocks, gpu.name()); }));
  for (GpuRank* rank : ranks) {
    ++rank->launches;
    rank->last_stream = stream;
    RONDE_TRY(rank->last.record(stream));
  }
  return {};
}

}  // namespace ronde::gpu
