// From Works to one kernel.
#include <fmt/core.h>

#include <algorithm>
#include <map>

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
  call.factor_at = work.factor_at;
  call.coll_type_op = static_cast<uint32_t>(work.call.packed());
  call.root = work.call.root;
  call.channels = static_cast<uint32_t>(std::max<size_t>(1, work.parts.size()));
  call.divisor = static_cast<uint32_t>(work.scale.divisor);
  call.numbering = numbering_of(work);
  call.average = has_reduction(work.call.coll) && work.call.op == ReduceOp::avg ? 1 : 0;
  call.premultiplied = has_reduction(work.call.coll) && work.call.op == ReduceOp::premul_sum ? static_cast<uint8_t>(size_of(work.call.type)) : 0;
  return call;
}

/// A launch as it grows. Every Work is a call, every channel of it a part.
struct Draft {
  std::vector<Call> calls;
  std::vector<Part> parts;
  uint32_t parts_each = 1, most_operands = 0, most_lanes = 0, most_states = 1;
};

/// Parts of collectives: each has a block of its own, as long as all blocks can be resident at once; what is not resident may be waited for.
void deal_channels(std::span<const Item> items, uint32_t multiprocessors, Draft* draft) {
  for (size_t i = 0; i < items.size(); ++i) {
    for (uint32_t c = 0; c < draft->calls[i].channels; ++c) draft->parts.push_back({static_cast<uint16_t>(i), static_cast<uint16_t>(c)});
  }
  draft->parts_each = static_cast<uint32_t>((draft->parts.size() + multiprocessors - 1) / std::max(1u, multiprocessors));
  draft->most_lanes *= draft->parts_each;
  draft->most_states = draft->parts_each;
  while (draft->parts.size() % draft->parts_each != 0) draft->parts.push_back({kNoCall, 0});
}

/// Messages of a pair and direction are one lane, in the order of issue; lanes are dealt to a few blocks for each rank, the one with least to move next.
void deal_messages(std::span<const Item> items, Draft* draft) {
  constexpr uint32_t kBlocks = 32;
  constexpr uint64_t kEach = 1 << 16;  // what a message costs beside its bytes
  std::map<std::pair<const GpuRank*, uint64_t>, std::vector<uint16_t>> chains;  // by rank and Program, which is a pair's and a direction's
  std::map<const GpuRank*, std::vector<std::pair<uint64_t, std::vector<std::vector<uint16_t>>>>> blocks;
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<uint16_t>& chain = chains[{items[i].rank, draft->calls[i].programs}];
    draft->calls[i].follows = chain.empty() ? 0 : 1;
    chain.push_back(static_cast<uint16_t>(i));
    blocks[items[i].rank];
  }
  for (auto& [rank, dealt] : blocks) dealt.resize(std::max<size_t>(1, kBlocks / blocks.size()));
  for (auto& [name, chain] : chains) {
    auto& dealt = blocks[name.first];
    auto& least = *std::min_element(dealt.begin(), dealt.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const uint16_t call : chain) least.first += kEach + draft->calls[call].buffers.bytes;
    least.second.push_back(std::move(chain));
  }
  size_t most_parts = 0, most_lanes = 0;
  std::vector<std::vector<Part>> lists;
  for (const auto& [rank, dealt] : blocks) {
    for (const auto& [load, lanes] : dealt) {
      if (lanes.empty()) continue;
      std::vector<Part>& list = lists.emplace_back();
      for (const auto& lane : lanes) {
        for (const uint16_t call : lane) list.push_back({call, 0});
      }
      most_parts = std::max(most_parts, list.size());
      most_lanes = std::max(most_lanes, lanes.size());
    }
  }
  for (std::vector<Part>& list : lists) {
    list.resize(most_parts, Part{kNoCall, 0});
    draft->parts.insert(draft->parts.end(), list.begin(), list.end());
  }
  draft->parts_each = static_cast<uint32_t>(most_parts);
  draft->most_lanes = draft->most_states = static_cast<uint32_t>(most_lanes);
}

Result<Draft> draft_of(std::span<const Item> items) {
  Draft draft;
  for (const Item& item : items) {
    RONDE_TRY(const Uploaded* uploaded, item.rank->upload(*item.work));
    RONDE_TRY(draft.calls.emplace_back(), call_of(item, *uploaded));
    draft.most_operands = std::max(draft.most_operands, uploaded->most_operands);
    draft.most_lanes = std::max(draft.most_lanes, uploaded->most_lanes);
  }
  const device::Gpu& gpu = *items.front().rank->gpu();
  if (items.front().work->call.message()) {
    deal_messages(items, &draft);
  } else {
    deal_channels(items, static_cast<uint32_t>(gpu.multiprocessors()), &draft);
  }
  std::map<const GpuRank*, uint32_t> parts;
  for (size_t i = 0; i < items.size(); ++i) parts[items[i].rank] += draft.calls[i].follows != 0 ? 0 : draft.calls[i].channels;
  for (size_t i = 0; i < items.size(); ++i) draft.calls[i].parts_of_rank = parts[items[i].rank];
  if (items.size() >= kNoCall || shared_bytes(draft.most_lanes, draft.most_operands, draft.most_states) > kMostShared) {
    return fail(Code::invalid_usage, fmt::format("a group has {} calls on {}, too many for one kernel: use several groups", items.size(), gpu.name()));
  }
  return draft;
}

/// What does not fit into a kernel's parameters is put into memory of `rank`.
Result<> fill(const Draft& draft, GpuRank& rank, Launch* launch) {
  launch->parts_count = static_cast<uint32_t>(draft.parts.size());
  launch->parts_each = draft.parts_each;
  launch->most_operands = draft.most_operands;
  launch->most_lanes = draft.most_lanes;
  launch->most_states = draft.most_states;
  if (draft.calls.size() <= kMostCalls && draft.parts.size() <= kMostParts) {
    std::copy(draft.parts.begin(), draft.parts.end(), launch->parts);
    std::copy(draft.calls.begin(), draft.calls.end(), launch->calls);
    return {};
  }
  const auto calls = std::as_bytes(std::span(draft.calls));
  const auto parts = std::as_bytes(std::span(draft.parts));
  std::vector<std::byte> bytes(calls.begin(), calls.end());
  bytes.insert(bytes.end(), parts.begin(), parts.end());
  RONDE_TRY(launch->far_calls, rank.parameters(bytes.size()));
  launch->far_parts = launch->far_calls + calls.size();
  return rank.gpu()->copy_in(launch->far_calls, bytes);
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
  RONDE_TRY(const Draft draft, draft_of(items));
  RONDE_TRY(fill(draft, first, launch.get()));
  std::vector<GpuRank*> ranks;
  for (const Item& item : items) {
    if (std::find(ranks.begin(), ranks.end(), item.rank) == ranks.end()) ranks.push_back(item.rank);
  }
  const device::Current current(gpu);
  for (GpuRank* rank : ranks) RONDE_TRY(order_after(*rank, stream));
  const KernelName kernel = kernel_of(*items.front().work);
  const uint32_t blocks = launch->parts_count / launch->parts_each;
  void* parameters[] = {launch.get()};
  RONDE_TRY(device::check(
      gpu.driver().cuLaunchKernel(first.kernels().find(kernel), blocks, 1, 1, kThreads, 1, 1,
                                  shared_bytes(launch->most_lanes, launch->most_operands, launch->most_states), stream, parameters, nullptr),
      [&] { return fmt::format("launching {} with {} blocks on {}", kernel.name, blocks, gpu.name()); }));
  for (GpuRank* rank : ranks) {
    ++rank->launches;
    rank->last_stream = stream;
    RONDE_TRY(rank->last.record(stream));
  }
  return {};
}

}  // namespace ronde::gpu
