// Bringing a communicator up: join, agree, exchange inputs, map the peers.
#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <sched.h>
#include <set>

#include "base/hash.h"
#include "base/lists.h"
#include "base/log.h"
#include "base/thread.h"
#include "boot/unique_id.h"
#include "comm/communicator.h"
#include "comm/graph_files.h"
#include "comm/hosts.h"
#include "comm/local_ranks.h"
#include "comm/tuners.h"
#include "exec/watch.h"
#include "graph/load.h"

namespace ronde {
namespace {

/// Settings that change how data is cut or ordered: ranks that differ in one would wait for each other for ever.
constexpr Setting kAgreed[] = {Setting::algo,  Setting::proto, Setting::strict,   Setting::deterministic,
                               Setting::slots, Setting::slice, Setting::buffsize, Setting::lend_threshold,
                               Setting::rings, Setting::cross_nic, Setting::p2p_level, Setting::net_gdr_level,
                               Setting::pxn_disable, Setting::nvb_disable};

Result<std::string> agreed_text(const Config& config, const TuneRules& rules, const AlgoFile& file, const Costs& costs) {
  std::string text;
  RONDE_TRY(const std::string graphs, read_graph_file(config));
  text += fmt::format("RONDE_GRAPH_FILE (hash of its contents)={:016x}\n", graphs.empty() ? 0 : fnv1a(graphs));
  for (const Setting setting : kAgreed) {
    const Option& option = options()[static_cast<size_t>(setting)];
    text += fmt::format("RONDE_{}={}\n", option.name, config.text(setting));
  }
  text += fmt::format("RONDE_MIN_NCHANNELS (or RONDE_MIN_CTAS, or ncclConfig_t's minCTAs)={}\n", rules.min_channels());
  text += fmt::format("RONDE_MAX_NCHANNELS (or RONDE_MAX_CTAS, or ncclConfig_t's maxCTAs)={}\n", rules.max_channels());
  text += fmt::format("RONDE_ALGO_FILE (hash of its contents)={}\n", file.fingerprint());
  text += fmt::format("RONDE_TUNE_FILE (hash of its constants and the library's)={:016x}\n", fnv1a(to_text(costs, "")));
  return text;
}

/// The first line in which two texts differ, of each.
std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b) {
  while (true) {
    const std::string_view x = a.substr(0, a.find('\n'));
    const std::string_view y = b.substr(0, b.find('\n'));
    if (x != y || (x.empty() && y.empty())) return {std::string(x), std::string(y)};
    a.remove_prefix(std::min(x.size() + 1, a.size()));
    b.remove_prefix(std::min(y.size() + 1, b.size()));
  }
}

/// What a rank tells about itself once the fabric stands.
struct RankFacts {
  uint64_t machine = 0;  ///< see machine_identity
  uint64_t process = 0;
  uint32_t cores = 1;
  uint32_t lends = 0;
  uint64_t devices = 0;  ///< of the network; 0: none is needed
  uint64_t by_cpu = 0;   ///< 1: cores move what it carries
  uint64_t tuner = 0;  ///< see agree_on_tuner
  uint64_t layout = 0;  ///< hash of machine and channels
};

uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

/// Ranks that see the same machines compute the same channels, unless they run different builds of this library.
Result<> same_layout(const std::vector<RankFacts>& facts) {
  std::vector<int> others;
  for (size_t r = 1; r < facts.size(); ++r) {
    if (facts[r].layout != facts[0].layout) others.push_back(static_cast<int>(r));
  }
  if (others.empty()) return {};
  return fail(Code::invalid_usage, fmt::format("{} and rank 0 found different channels on the same machines; use one build of this library on all ranks",
                                               rank_list(others)), Scope::communicator);
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

/// What an ncclConfig_t says, where no setting does. A child's may differ from its parent's, whose Config it begins with.
std::shared_ptr<const Config> with_options(const std::shared_ptr<const Config>& config, const CommOptions& options) {
  const std::string from = "ncclConfig_t";
  const auto open = [&](Setting s) { return !config->is_set(s) || config->source(s).rfind(from, 0) == 0; };
  Config changed = *config;
  if (options.net_name && open(Setting::net)) changed = changed.with(Setting::net, *options.net_name, from + ".netName");
  if (options.traffic_class && open(Setting::traffic_class)) {
    changed = changed.with(Setting::traffic_class, *options.traffic_class, from + ".trafficClass");
  }
  return std::make_shared<const Config>(std::move(changed));
}

Result<std::string> address_of(const Result<std::shared_ptr<const device::Gpu>>& gpu) {
  if (!gpu.ok()) return gpu.error();
  return *gpu != nullptr ? (*gpu)->bus_id() : std::string();
}

}  // namespace

Result<> Communicator::init(const std::vector<UniqueId>& ids) {
  watch_forks();
  RONDE_TRY(config_, on_pretended_host(config_, rank_, ranks_));
  RONDE_TRY(bootstrap_, join(JoinRequest{rank_, ranks_, ids}, config_, &boot_abort_));
  return bring_up();
}

Result<> Communicator::init_over(std::unique_ptr<Bootstrap> bootstrap, const Communicator& parent) {
  config_ = parent.config_;
  bootstrap_ = std::move(bootstrap);
  rank_ = bootstrap_->rank();
  ranks_ = bootstrap_->size();
  return bring_up();
}

/// Everything after the ranks have found each other. The bootstrap's calls obey the same time limit.
Result<> Communicator::bring_up() {
  bootstrap_->set_deadline(Deadline::in(config_->seconds(Setting::init_timeout)));
  config_ = with_options(config_, options_);
  RONDE_TRY(table_, choose_reduce_table(config_->text(Setting::isa)));
  RONDE_TRY(rules_, TuneRules::parse(*config_, {options_.min_ctas.value_or(0), options_.max_ctas.value_or(0)}));
  RONDE_TRY(algo_file_, AlgoFile::read(*config_));
  RONDE_TRY(costs_, costs_of(*config_));
  RONDE_TRY(agree());
  Result<std::shared_ptr<const device::Gpu>> gpu = std::shared_ptr<const device::Gpu>();
  if (options_.gpu.has_value()) gpu = device::Gpu::open(*options_.gpu);
  RONDE_TRY(layout_, lay_out(*bootstrap_, *config_, address_of(gpu)));
  RONDE_TRY(make_fabric());
  if (*gpu != nullptr) RONDE_TRY(make_gpu_rank(std::move(gpu).value()));
  RONDE_TRY(gather_inputs());
  RONDE_TRY(algo_file_.prove(ranks_, inputs_.slots, rules_.max_channels()));
  plans_ = std::make_unique<Plans>(*seat_, *layout_, rules_, inputs_, algo_file_, tuner_.get());
  own_stream_ = blocking_ || gpu_rank_ != nullptr ? nullptr : std::make_shared<HostStream>();
  seat_->control().state.store(static_cast<uint32_t>(RankState::alive), std::memory_order_seq_cst);
  RONDE_TRY(bootstrap_->barrier());
  bootstrap_->set_deadline(std::nullopt);
  note_local_rank(bootstrap_->token(), *this);
  if (rank_ == 0) {
    RONDE_INFO(init, "communicator {:016x} of {} ranks is up ({}), {} reductions", bootstrap_->token()[0], ranks_, bootstrap_->describe(),
               table_->isa);
  }
  Life before = Life::initializing;
  if (!life_.compare_exchange_strong(before, Life::ready, std::memory_order_acq_rel)) {
    revoke("the communicator was revoked while it was being initialised");  // there may have been no Seat to tell
  }
  return {};
}

/// Compares the settings of all ranks: first a hash, and only where it differs the texts.
Result<> Communicator::agree() {
  RONDE_TRY(std::string mine, agreed_text(*config_, rules_, algo_file_, costs_));
  mine += fmt::format("RONDE_DEVICE (or rondeSetDevice)={}\n", options_.gpu.has_value() ? "cuda" : "cpu");
  std::vector<uint64_t> hashes(static_cast<size_t>(ranks_));
  hashes[rank_] = fnv1a(mine);
  RONDE_TRY(bootstrap_->all_gather(bytes_of(hashes)));
  const auto odd = std::find_if(hashes.begin(), hashes.end(), [&](uint64_t h) { return h != hashes[0]; });
  if (odd == hashes.end()) return {};
  const auto bytes = std::as_bytes(std::span(mine));
  RONDE_TRY(const std::vector<std::vector<std::byte>> texts, bootstrap_->all_gather_parts({bytes.begin(), bytes.end()}));
  const auto text_of = [&](size_t rank) { return std::string_view(reinterpret_cast<const char*>(texts[rank].data()), texts[rank].size()); };
  const auto [a, b] = first_difference(text_of(0), text_of(static_cast<size_t>(odd - hashes.begin())));
  std::vector<int> like;
  for (int r = 0; r < ranks_; ++r) {
    if (hashes[r] == *odd) like.push_back(r);
  }
  return fail(Code::invalid_usage, fmt::format("the ranks' settings differ: {} on rank 0 and {} on {}; set the same, under its RONDE_ or NCCL_ name, "
                                               "on all ranks", a, b, rank_list(like)), Scope::communicator);
}

Result<> Communicator::make_fabric() {
  links_ = rules_.max_channels() * kMaxLinks + 1;
  FabricRequest request;
  request.bootstrap = bootstrap_.get();
  request.config = config_;
  request.abort = &boot_abort_;
  request.links = links_;
  request.links_per_channel = kMaxLinks;
  request.on_death = [this](int rank, const std::string& how) { peer_died(rank, how); };
  request.on_error = [this](int rank, Error error) { peer_lost(rank, std::move(error)); };
  RONDE_TRY(std::unique_ptr<Fabric> fabric, Fabric::make(std::move(request)));
  seat_ = std::make_shared<Seat>(std::move(fabric), *table_, limits());
  seat_up_.store(true, std::memory_order_release);  // pairs with has_seat()
  const std::lock_guard lock(mutex_);
  if (fatal_.has_value()) return *fatal_;  // a peer died while its memory was being mapped
  return {};
}

SeatLimits Communicator::limits() const {
  SeatLimits limits;
  limits.timeout = config_->seconds(Setting::timeout);
  limits.warn_after = config_->seconds(Setting::warn_after);
  limits.lend_threshold = config_->bytes(Setting::lend_threshold);
  return limits;
}

Result<> Communicator::gather_inputs() {
  std::vector<RankFacts> facts(static_cast<size_t>(ranks_));
  static const int anchor = 0;  // its address is the same in all ranks of a process, and with the pid's hash names the process
  RankFacts& mine = facts[rank_];
  mine.machine = machine_identity();
  mine.process = fnv1a_u64(reinterpret_cast<uintptr_t>(&anchor), fnv1a_u64(static_cast<uint64_t>(getpid()), fnv1a(host_name())));
  mine.cores = usable_cores();
  mine.lends = gpu_rank_ == nullptr ? 1 : 0;
  mine.devices = static_cast<uint64_t>(fabric().network_devices());
  mine.by_cpu = fabric().network_by_cpu() ? 1 : 0;
  if (ranks_ > 1) tuner_ = Tuner::load(*config_);
  mine.tuner = tuner_word(tuner_.get(), *config_);
  mine.layout = layout_->hash;
  for (int peer = 0; peer < ranks_; ++peer) {
    Loan loan;
    if (peer != rank_ && !fabric().lend(peer, &facts, sizeof facts, &loan)) mine.lends = 0;
  }
  RONDE_TRY(bootstrap_->all_gather(bytes_of(facts)));
  RONDE_TRY(same_layout(facts));
  inputs_.ranks = ranks_;
  inputs_.nodes = layout_->nodes;
  inputs_.costs = &costs_;
  if (gpu_rank_ != nullptr) inputs_.links = gpu_links();
  if (layout_->nodes.several()) inputs_.links.network = graph::total_rate(layout_->rings);
  inputs_.slots = gpu_rank_ != nullptr ? gpu_rank_->slab().shape().slots : fabric().slots();
  inputs_.slot_capacity = gpu_rank_ != nullptr ? gpu_rank_->slab().shape().slot_capacity : fabric().slot_capacity();
  inputs_.lend_threshold = config_->bytes(Setting::lend_threshold);
  std::map<uint64_t, std::pair<uint32_t, uint32_t>> machines;  // ranks and cores
  std::set<uint64_t> processes;
  uint64_t devices = facts[0].devices;
  for (const RankFacts& f : facts) {
    inputs_.lends = inputs_.lends && f.lends != 0;
    devices = std::min(devices, f.devices);
    processes.insert(f.process);
    auto& [count, cores] = machines[f.machine];
    ++count;
    cores = std::max(cores, f.cores);
  }
  inputs_.links.devices = std::max(1, static_cast<int>(devices));
  inputs_.links.by_cpu = std::any_of(facts.begin(), facts.end(), [](const RankFacts& f) { return f.by_cpu != 0; });
  inputs_.one_process = processes.size() == 1;
  ranks_in_process_ = static_cast<int>(std::count_if(facts.begin(), facts.end(), [&](const RankFacts& f) { return f.process == mine.process; }));
  for (const auto& [machine, use] : machines) {
    inputs_.ranks_per_core = std::max(inputs_.ranks_per_core, static_cast<int>((use.first + use.second - 1) / use.second));
  }
  const int64_t spin = config_->integer(Setting::spin);
  seat_->set_patience(spin >= 0 ? static_cast<int>(spin) : inputs_.ranks_per_core > 1 ? 20 : 4000,
                      inputs_.ranks_per_core > 1 ? 8 : 20);
  const NodeShape& nodes = layout_->nodes;
  const TunerComm told{bootstrap_->token()[0], static_cast<size_t>(ranks_), static_cast<size_t>(nodes.nodes),
                       nodes.several() ? nodes.least : ranks_, nodes.several() ? nodes.most : ranks_};
  std::vector<uint64_t> loaded;
  for (const RankFacts& f : facts) loaded.push_back(f.tuner);
  return agree_on_tuner(told, loaded);
}

Result<> Communicator::run_init(std::function<Result<>()> job) {
  auto run = [this, job = std::move(job)]() -> Result<> {
    Result<> result = job();
    if (!result.ok()) {
      const std::lock_guard lock(mutex_);
      if (!fatal_.has_value()) fatal_ = result.error();
      life_.store(Life::failed_init, std::memory_order_release);
    }
    return result;
  };
  if (blocking_) return run();
  init_running_.store(true, std::memory_order_release);
  Result<std::thread> thread = start_thread("ronde-init", [this, run = std::move(run)] {
    const Result<> result = run();
    if (!result.ok()) log_error(result.error());
    init_running_.store(false, std::memory_order_release);  // pairs with the loads in usable() and async_code()
  });
  if (!thread.ok()) {
    init_running_.store(false, std::memory_order_release);
    return std::move(thread).error();
  }
  init_thread_ = std::move(thread).value();
  return fail(Code::in_progress, "");
}

void Communicator::join_init() {
  if (init_thread_.joinable()) init_thread_.join();
}

}  // namespace ronde
