#include "comm/gpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/log.h"
#include "comm/communicator.h"
#include "exec/cuda/flights.h"
#include "exec/watch.h"
#include "graph/load.h"
#include "graph/settings.h"
#include "topo/paths.h"

namespace ronde {
namespace {

constexpr size_t kHeap = size_t{256} << 20;      // of device memory for the queues that end at one rank
constexpr size_t kConnection = size_t{1} << 20;  // of it for one queue, unless RONDE_BUFFSIZE says otherwise
constexpr size_t kQueueRest = 8192;              // of it besides, at most, without what comes before each slot

gpu::SlabShape slab_shape(const Config& config, int ranks, int links) {
  gpu::SlabShape shape;
  shape.ranks = static_cast<uint32_t>(ranks);
  shape.links = static_cast<uint32_t>(links);
  shape.slots = static_cast<uint32_t>(config.integer(Setting::slots));
  // A queue of each link from each peer, with its head and a whole page more, has room in the heap.
  const size_t queues = std::max<size_t>(1, static_cast<size_t>(ranks - 1) * static_cast<size_t>(links));
  const size_t fair = kHeap / queues - std::min(kHeap / queues, kQueueRest + 64 * static_cast<size_t>(shape.slots));
  const size_t connection = config.is_set(Setting::buffsize) ? config.bytes(Setting::buffsize) : std::min(kConnection, fair);
  shape.slot_capacity = static_cast<uint32_t>(std::clamp<size_t>(connection / shape.slots / 64 * 64, 64, size_t{1} << 30));
  return shape;
}

/// By peer: why the settings forbid that its device memory is reached; "": they do not.
std::vector<std::string> forbidden_peers(const Config& config, const Layout& layout, int rank) {
  std::vector<std::string> reasons(layout.devices.size());
  const topo::Distance most = graph::limits_of(config).rules.p2p_level;
  if (config.flag(Setting::p2p_disable)) {
    std::fill(reasons.begin(), reasons.end(), config.source(Setting::p2p_disable) + "=1");
  } else if (config.is_set(Setting::p2p_level)) {
    const topo::Wiring wiring(layout.machine);
    const std::vector<topo::Path> paths = topo::paths_from(wiring, layout.devices[static_cast<size_t>(rank)]);
    for (size_t peer = 0; peer < reasons.size(); ++peer) {
      const topo::NodeId device = layout.devices[peer];
      const topo::Distance distance = paths[static_cast<size_t>(device)].distance;
      if (layout.machine.node(device).kind != topo::NodeKind::gpu || distance <= most) continue;
      reasons[peer] = fmt::format("they are {} apart, and {} is {}", to_string(distance), config.source(Setting::p2p_level), to_string(most));
    }
  }
  return reasons;
}

/// The calls that one launch takes, by the order in which launches follow each other.
struct Wave {
  std::vector<GpuCall> calls;
};

/// The k-th collectives of all ranks are a wave, for each GPU and kernel one launch; messages come last.
std::vector<Wave> waves_of(std::vector<GpuCall> calls) {
  constexpr size_t kMessages = SIZE_MAX;
  std::map<std::tuple<size_t, const device::Gpu*, std::string>, Wave> waves;
  std::map<const gpu::GpuRank*, size_t> collectives;
  for (GpuCall& call : calls) {
    const size_t turn = call.work->call.message() ? kMessages : collectives[call.rank]++;
    waves[{turn, call.rank->gpu().get(), gpu::kernel_of(*call.work).name}].calls.push_back(std::move(call));
  }
  std::vector<Wave> all;
  for (auto& [key, wave] : waves) all.push_back(std::move(wave));
  return all;
}

/// One kernel on the first call's stream, after what the other calls' streams hold, and before what comes after.
Result<> launch_wave(const Wave& wave) {
  std::vector<gpu::Item> items;
  std::vector<const GpuCall*> others;
  const GpuCall& first = wave.calls.front();
  for (const GpuCall& call : wave.calls) {
    items.push_back({call.work.get(), call.rank});
    if (call.stream != first.stream) others.push_back(&call);
  }
  const device::Driver& driver = first.rank->gpu()->driver();
  const auto joining = [&] { return fmt::format("joining streams on {}", first.rank->gpu()->name()); };
  {
    const device::Current current(*first.rank->gpu());
    for (const GpuCall* call : others) {
      RONDE_TRY(call->rank->before.record(call->stream));
      RONDE_TRY(device::check(driver.cuStreamWaitEvent(first.stream, call->rank->before.get(), 0), joining));
    }
  }
  RONDE_TRY(gpu::launch(items, first.stream));
  const device::Current current(*first.rank->gpu());
  for (const GpuCall* call : others) RONDE_TRY(device::check(driver.cuStreamWaitEvent(call->stream, first.rank->last.get(), 0), joining));
  return {};
}

void hand_over(Wave wave) {
  std::vector<std::unique_ptr<Work>> works;
  std::vector<gpu::GpuRank*> ranks;
  for (GpuCall& call : wave.calls) {
    works.push_back(std::move(call.work));
    ranks.push_back(call.rank);
  }
  gpu::take_off(std::move(works), std::move(ranks));
}

}  // namespace

Result<> check_stream(const gpu::GpuRank& rank, cu::CUstream stream) {
  const device::Gpu& gpu = *rank.gpu();
  const device::Current current(gpu);
  cu::CUstreamCaptureStatus status = cu::CU_STREAM_CAPTURE_STATUS_NONE;
  RONDE_TRY(device::check(gpu.driver().cuStreamIsCapturing(stream, &status), [&] { return fmt::format("asking for the state of the stream on {}", gpu.name()); }));
  if (status == cu::CU_STREAM_CAPTURE_STATUS_NONE) return {};
  return fail(Code::invalid_usage, "the stream is being captured into a CUDA graph, which this version of ronde does not support; call outside of the capture");
}

Result<> launch_on_gpus(std::vector<GpuCall> calls) {
  Result<> first;
  for (Wave& wave : waves_of(std::move(calls))) {
    const Result<> launched = launch_wave(wave);
    if (!launched.ok()) {
      // Its number is given away and its peers wait for it.
      for (const GpuCall& call : wave.calls) {
        ++call.rank->launches;  // a launch that will never be counted as ended
        call.work->seat->fail_all(Error{launched.error().code, Scope::communicator, launched.error().what, launched.error().where});
      }
      if (first.ok()) first = launched;
    }
    hand_over(std::move(wave));
  }
  return first;
}

/// What the channels carry past each GPU. Where GPUs could not be placed it is what the memory near them carries.
LinkRates Communicator::gpu_links() const {
  LinkRates links;
  links.inside = graph::total_rate(layout_->rings);
  links.kind = graph::over_near_links(layout_->machine, layout_->rings) ? HopKind::nvlink : HopKind::pci;
  links.channels = static_cast<int>(layout_->rings.size());
  return links;
}

Result<> Communicator::make_gpu_rank(std::shared_ptr<const device::Gpu> gpu) {
  if (layout_->nodes.several()) {
    return fail(Code::invalid_usage, fmt::format("the communicator's ranks are on {} hosts, and this version of ronde joins GPUs of one host only; RONDE_DEVICE=cpu works "
                                                 "between hosts", layout_->nodes.nodes), Scope::communicator);
  }
  gpu::SlabRequest request;
  request.bootstrap = bootstrap_.get();
  request.gpu = gpu;
  request.shape = slab_shape(*config_, ranks_, links_);
  request.heap = kHeap;
  request.forbidden = forbidden_peers(*config_, *layout_, rank_);
  if (config_->flag(Setting::shm_disable)) request.no_host = config_->source(Setting::shm_disable) + "=1";
  request.descriptors = config_->flag(Setting::cumem_enable);
  request.patience = config_->seconds(Setting::init_timeout);
  request.abort = &boot_abort_;
  RONDE_TRY(std::unique_ptr<gpu::Slab> slab, gpu::Slab::make(request));
  RONDE_TRY(gpu_rank_, gpu::GpuRank::make(std::move(slab)));
  seat_->leave_queues();
  return {};
}

/// Before the rank leaves: no kernel of it runs, and none of its peers reaches into its memory any more.
void Communicator::close_gpu_rank() {
  constexpr double kPatience = 10;
  const uint64_t start = now_ns();
  bool warned = false;
  const bool drained = !seat_->failed() && gpu_rank_->drain([&](int peer) -> std::optional<bool> {
    take_mail(*seat_);
    if (seat_->failed()) return false;
    const auto state = static_cast<RankState>(fabric().control(peer).state.load(std::memory_order_seq_cst));  // pairs with publish_state
    if (state == RankState::closed || state == RankState::finalized) return true;
    if (state != RankState::alive) return false;
    const double waited = static_cast<double>(now_ns() - start) * 1e-9;
    const SeatLimits& limits = seat_->limits();
    const bool over = limits.timeout > 0 && waited >= limits.timeout;
    if (over || (!warned && limits.warn_after > 0 && waited >= limits.warn_after)) {
      RONDE_WARN("rank {} has waited {:.1f} s to leave until {} takes what was sent to it{}; each rank has to call what its peers have called", rank_, waited,
                 fabric().peer_name(peer), over ? fmt::format("; the limit is RONDE_TIMEOUT={:g} s, and it leaves now", limits.timeout) : "");
      warned = true;
    }
    return over ? std::optional(false) : std::nullopt;
  });
  if (gpu::wait_landed(*gpu_rank_, kPatience) && drained && !seat_->failed()) return;
  // Kernels of peers may still be on their way out, and one of this rank may stand behind something else on its stream: the memory stays.
  static_cast<void>(gpu_rank_.release());
}

}  // namespace ronde
