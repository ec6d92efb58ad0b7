// How the ranks of a communicator come to reach each other's slabs: by device memory where that works, which is tried, by host memory elsewhere.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "base/log.h"
#include "boot/wire.h"
#include "transport/cuda/descriptors.h"
#include "transport/cuda/slab.h"

namespace ronde::gpu {
namespace {

constexpr size_t kProbe = 4096;  // bytes of a pattern
constexpr size_t kPage = 4096;

enum class Sharing : uint32_t { inside, handle, descriptor };

/// What a rank tells the others of its slab.
struct Told {
  Id process{};
  int32_t code = 0;     ///< of what failed; 0: nothing
  int32_t ordinal = 0;  ///< of the GPU, in the process
  uint64_t base = 0;    ///< in the process
  uint64_t bytes = 0;
  uint64_t host = 0;  ///< its host memory, in the process
  Sharing sharing = Sharing::inside;
  uint32_t reserved = 0;
  cu::CUipcMemHandle handle{};
  Id name{};  ///< of its DescriptorTrade
  Id secret{};
  char bus_id[32] = "";
  char problem[256] = "";
};

constexpr const char* kNoAccess = "the driver allows no peer access between the two GPUs";
constexpr const char* kCorrupt = "what passes between the two GPUs is corrupted";

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// What `writer` writes for `reader`; its own rank twice: what it shows to all.
std::vector<uint64_t> pattern(int writer, int reader) {
  std::vector<uint64_t> words(kProbe / sizeof(uint64_t));
  uint64_t state = (static_cast<uint64_t>(writer) << 32 | static_cast<uint32_t>(reader)) + 1;
  for (uint64_t& word : words) word = state = state * 6364136223846793005u + 1442695040888963407u;
  return words;
}

}  // namespace

class Connecting {
 public:
  explicit Connecting(const SlabRequest& request)
      : request_(request), bootstrap_(*request.bootstrap), gpu_(request.gpu), rank_(bootstrap_.rank()), ranks_(bootstrap_.size()),
        slab_(new Slab(request.gpu, request.shape, rank_)), all_(static_cast<size_t>(ranks_)), reasons_(static_cast<size_t>(ranks_)) {}

  Result<std::unique_ptr<Slab>> run() {
    RONDE_TRY(gather(introduce()));
    RONDE_TRY(gather(allocate()));
    RONDE_TRY(gather(trade()));
    RONDE_TRY(gather(reach_all()));
    RONDE_TRY(gather(check_all()));
    RONDE_TRY(decide());
    RONDE_TRY(gather(take_host_memory()));
    RONDE_TRY(gather(map_host_memory()));
    for (int peer = 0; peer < ranks_; ++peer) RONDE_INFO(init, "rank {} on {} to rank {}: {}", rank_, gpu_->name(), peer, slab_->describe(peer));
    return std::move(slab_);
  }

 private:
  Told& told(int rank) { return all_[static_cast<size_t>(rank)]; }
  Told& mine() { return told(rank_); }
  Slab::Peer& peer(int rank) { return slab_->peers_[static_cast<size_t>(rank)]; }
  bool inside(int rank) { return told(rank).process == mine().process; }
  /// Reasons against device memory between two ranks, as one of them has found: reasons_[a][b].
  std::string& reason(int peer) { return reasons_[static_cast<size_t>(rank_)][static_cast<size_t>(peer)]; }
  bool by_host(int a, int b) const {
    return !reasons_[static_cast<size_t>(a)][static_cast<size_t>(b)].empty() || !reasons_[static_cast<size_t>(b)][static_cast<size_t>(a)].empty();
  }

  /// Gathers what all ranks tell. Where one has failed it is an error on all.
  Result<> gather(const Result<>& own) {
    if (!own.ok()) {
      mine().code = static_cast<int32_t>(own.code());
      strncpy(mine().problem, own.error().what.c_str(), sizeof mine().problem - 1);
    }
    RONDE_TRY(bootstrap_.all_gather(std::as_writable_bytes(std::span(all_))));
    if (!own.ok()) return own.error();
    for (int rank = 0; rank < ranks_; ++rank) {
      told(rank).problem[sizeof told(rank).problem - 1] = '\0';
      if (told(rank).code != 0) return fail(Code::remote_error, fmt::format("rank {} failed: {}", rank, told(rank).problem), Scope::communicator);
    }
    return {};
  }

  Result<> introduce() {
    for (auto& row : reasons_) row.resize(static_cast<size_t>(ranks_));
    for (int peer = 0; peer < static_cast<int>(request_.forbidden.size()); ++peer) reason(peer) = request_.forbidden[static_cast<size_t>(peer)];
    RONDE_TRY(const std::shared_ptr<Process> process, Process::current());
    mine().process = process->id();
    mine().ordinal = gpu_->ordinal();
    strncpy(mine().bus_id, gpu_->bus_id().c_str(), sizeof mine().bus_id - 1);
    return {};
  }

  Result<> allocate() {
    several_ = std::any_of(all_.begin(), all_.end(), [&](const Told& other) { return other.process != mine().process; });
    const size_t bytes = slab_->heap_at() + std::max(request_.heap, 2 * kProbe * static_cast<size_t>(ranks_));
    if (several_ && request_.descriptors && device::ShareableMemory::possible(*gpu_)) {
      RONDE_TRY(slab_->shareable_, device::ShareableMemory::make(gpu_, bytes));
      RONDE_TRY(memory_descriptor_, slab_->shareable_.descriptor());
      slab_->area_ = {slab_->shareable_.address(), slab_->shareable_.bytes(), 0};
      mine().sharing = Sharing::descriptor;
    } else {
      RONDE_TRY(slab_->memory_, gpu_->allocate(bytes));
      slab_->area_ = {slab_->memory_.address(), bytes, 0};
      if (several_) RONDE_TRY(make_handle());
    }
    RONDE_TRY(gpu_->clear(slab_->area_.base, slab_->heap_at()));
    mine().base = slab_->area_.base;
    mine().bytes = slab_->area_.bytes;
    host_bytes_ = whole_pages(slab_->heap_at() + request_.heap);
    if (!several_) {
      RONDE_TRY(slab_->host_, Mapping::anonymous(host_bytes_));
    } else {
      RONDE_TRY(host_descriptor_, make_memfd("ronde-gpu", host_bytes_));
      RONDE_TRY(slab_->host_, Mapping::shared(host_descriptor_.get(), host_bytes_));
      RONDE_TRY(trade_, DescriptorTrade::open());
      mine().name = trade_.name();
      mine().secret = trade_.secret();
    }
    mine().host = reinterpret_cast<uint64_t>(slab_->host_.data());
    return {};
  }

  /// Without a handle, peers in other processes use host memory.
  Result<> make_handle() {
    const device::Current current(*gpu_);
    const auto made = device::check(gpu_->driver().cuIpcGetMemHandle(&mine().handle, slab_->area_.base), [&] { return fmt::format("sharing memory of {}", gpu_->name()); });
    if (made.ok()) {
      mine().sharing = Sharing::handle;
      return {};
    }
    for (int peer = 0; peer < ranks_; ++peer) {
      if (!inside(peer)) reason(peer) = made.error().what;
    }
    return {};
  }

  Result<> trade() {
    if (!several_) return {};
    std::vector<DescriptorPeer> peers;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!inside(rank)) peers.push_back({rank, told(rank).sharing == Sharing::descriptor ? size_t{2} : size_t{1}, told(rank).name, told(rank).secret});
    }
    std::vector<int> given{host_descriptor_.get()};
    if (memory_descriptor_) given.push_back(memory_descriptor_.get());
    RONDE_TRY(descriptors_, trade_.run(rank_, peers, given, Deadline::in(request_.patience), request_.abort));
    return {};
  }

  /// Opens the slabs that may be reached, and writes into each a pattern for its owner.
  Result<> reach_all() {
    const std::vector<uint64_t> shown = pattern(rank_, rank_);
    RONDE_TRY(gpu_->copy_in(probe_of(slab_->area_.base, rank_), std::as_bytes(std::span(shown))));
    for (int number = 0; number < ranks_; ++number) {
      Slab::Peer& it = peer(number);
      if (inside(number)) {
        RONDE_TRY(it.gpu, device::Gpu::open(told(number).ordinal));
      }
      if (it.gpu == gpu_) reason(number).clear();  // memory of one process on one GPU
      if (!reason(number).empty()) continue;
      const Result<> opened = open(number);
      if (!opened.ok()) {
        reason(number) = opened.error().what;
      } else if (number != rank_) {
        const Result<> written = write_pattern(number);
        if (!written.ok()) reason(number) = written.error().what;
      }
    }
    return {};
  }

  Result<> open(int number) {
    const Told& theirs = told(number);
    Slab::Peer& it = peer(number);
    const device::Current current(*gpu_);
    if (inside(number)) {
      it.transport = "P2P/CUDA";
      it.base = theirs.base;
      RONDE_TRY(const bool reached, gpu_->reach(*it.gpu));
      if (!reached) return fail(Code::invalid_usage, kNoAccess);
      // Who owns memory with addresses of its own must let others in; that is a peer's right too, in the same process.
      if (it.gpu != gpu_ && theirs.sharing == Sharing::descriptor) return grant(theirs);
      return {};
    }
    if (!may_reach(theirs.bus_id)) return fail(Code::invalid_usage, kNoAccess);
    if (theirs.sharing == Sharing::descriptor) {
      it.transport = "P2P/CUMEM";
      RONDE_TRY(it.memory, device::ShareableMemory::open(gpu_, descriptors_[number].back().get(), theirs.bytes));
      it.base = it.memory.address();
      return {};
    }
    if (theirs.sharing == Sharing::inside) return fail(Code::invalid_usage, fmt::format("rank {} cannot share memory of its GPU", number));
    it.transport = "P2P/IPC";
    cu::CUdeviceptr address = 0;
    RONDE_TRY(device::check(gpu_->driver().cuIpcOpenMemHandle_v2(&address, theirs.handle, cu::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                            [&] { return fmt::format("opening memory of GPU {} on {}", theirs.bus_id, gpu_->name()); }));
    it.base = it.handle = address;
    return {};
  }

  /// False where the driver knows that it cannot be. A GPU that this process may not see has to be tried.
  bool may_reach(const char* bus_id) {
    cu::CUdevice device = 0;
    int can = 1;
    if (gpu_->driver().cuDeviceGetByPCIBusId(&device, bus_id) != cu::CUDA_SUCCESS || device == gpu_->device()) return true;
    return gpu_->driver().cuDeviceCanAccessPeer(&can, gpu_->device(), device) != cu::CUDA_SUCCESS || can != 0;
  }

  Result<> grant(const Told& theirs) {
    const cu::CUmemAccessDesc access{{cu::CU_MEM_LOCATION_TYPE_DEVICE, gpu_->device()}, cu::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return device::check(gpu_->driver().cuMemSetAccess(theirs.base, theirs.bytes, &access, 1),
                         [&] { return fmt::format("giving {} access to memory of GPU {}", gpu_->name(), theirs.bus_id); });
  }

  // The patterns lie where queues will lie: of each writer one in its reader's heap, the reader's own among them, and behind those of what was read.
  uint64_t probe_of(uint64_t base, int writer) const { return base + slab_->heap_at() + kProbe * static_cast<uint64_t>(writer); }

  Result<> write_pattern(int number) {
    const std::vector<uint64_t> words = pattern(rank_, number);
    const uint64_t staged = probe_of(slab_->area_.base, ranks_ + number);
    RONDE_TRY(gpu_->copy_in(staged, std::as_bytes(std::span(words))));
    return gpu_->copy(probe_of(peer(number).base, rank_), staged, kProbe);
  }

  /// Whether both directions brought what was written: what peers have written here, and what they show.
  Result<> check_all() {
    for (int number = 0; number < ranks_; ++number) {
      if (number == rank_ || !reason(number).empty()) continue;
      const uint64_t staged = probe_of(slab_->area_.base, ranks_ + number);
      const Result<> copied = gpu_->copy(staged, probe_of(peer(number).base, number), kProbe);
      RONDE_TRY(const bool read, copied.ok() ? holds(staged, pattern(number, number)) : Result<bool>(true));
      if (!copied.ok()) {
        reason(number) = copied.error().what;
      } else if (!read) {
        reason(number) = kCorrupt;
      }
    }
    return {};
  }

  Result<bool> holds(uint64_t at, const std::vector<uint64_t>& words) {
    std::vector<uint64_t> there(words.size());
    RONDE_TRY(gpu_->copy_out(std::as_writable_bytes(std::span(there)), at));
    return there == words;
  }

  /// Tells what stands against device memory, and hears it; checks what those have written who could.
  Result<> decide() {
    RONDE_TRY(exchange_reasons());
    Result<> checked;
    for (int number = 0; number < ranks_ && checked.ok(); ++number) {
      if (number == rank_ || by_host(rank_, number)) continue;
      const Result<bool> held = holds(probe_of(slab_->area_.base, number), pattern(number, rank_));
      if (!held.ok()) checked = held.error();
      if (held.ok() && !*held) reason(number) = kCorrupt;
    }
    RONDE_TRY(gather(checked));
    return exchange_reasons();
  }

  Result<> exchange_reasons() {
    Writer out;
    for (const std::string& one : reasons_[static_cast<size_t>(rank_)]) out.text(one);
    RONDE_TRY(const std::vector<Bytes> parts, bootstrap_.all_gather_parts(out.take()));
    for (size_t from = 0; from < parts.size(); ++from) {
      Reader in(parts[from]);
      for (std::string& one : reasons_[from]) one = in.text();
      if (!in.ok()) return fail(Code::internal_error, fmt::format("what rank {} tells of its GPU's peers cannot be read", from), Scope::communicator);
    }
    return {};
  }

  /// So much of a rank's host memory is used: what all queues of the peers that write into it take, at most the heap.
  size_t host_bytes(int rank) const {
    size_t peers = 0;
    for (int other = 0; other < ranks_; ++other) peers += by_host(rank, other) ? 1 : 0;
    return peers == 0 ? 0 : whole_pages(slab_->heap_at() + std::min(request_.heap, peers * request_.shape.links * slab_->queue_bytes()));
  }

  Result<> take_host_memory() {
    const size_t own = host_bytes(rank_);
    if (own == 0) {
      slab_->host_ = Mapping();
      return {};
    }
    for (int number = 0; number < ranks_; ++number) {
      if (!by_host(rank_, number)) continue;
      Slab::Peer& it = peer(number);
      it.by_host = true;
      it.transport = "SHM/CUDA";
      const std::string& theirs = reasons_[static_cast<size_t>(number)][static_cast<size_t>(rank_)];
      it.reason = !reason(number).empty() ? reason(number) : theirs;
      if (rank_ < number && it.reason == kCorrupt) {
        RONDE_WARN("rank {} on {} and rank {} on GPU {}: {}, so host memory is used; the IOMMU or PCI's access control (ACS) may be in its way", rank_, gpu_->name(), number,
                   told(number).bus_id, kCorrupt);
      }
      if (request_.no_host.empty()) continue;
      return fail(Code::invalid_usage, fmt::format("rank {} on {} and rank {} on GPU {} have no way to each other: not by device memory ({}), and not by host memory ({})",
                                                   rank_, gpu_->name(), number, told(number).bus_id, it.reason, request_.no_host), Scope::communicator);
    }
    RONDE_TRY(commit_pages(slab_->host_.data(), own));
    RONDE_TRY(slab_->registered_, device::RegisteredMemory::make(gpu_, slab_->host_.data(), own));
    RONDE_TRY(slab_->host_area_.base, device::address_of_registered(*gpu_, slab_->host_.data()));
    slab_->host_area_.bytes = own;
    return {};
  }

  /// After all have registered theirs.
  Result<> map_host_memory() {
    for (int number = 0; number < ranks_; ++number) {
      Slab::Peer& it = peer(number);
      if (!it.by_host) continue;
      std::byte* at = reinterpret_cast<std::byte*>(told(number).host);
      if (!inside(number)) {
        const size_t bytes = host_bytes(number);
        RONDE_TRY(it.host, Mapping::shared(descriptors_[number].front().get(), bytes));
        RONDE_TRY(it.registered, device::RegisteredMemory::make(gpu_, it.host.data(), bytes));
        at = it.host.data();
      }
      RONDE_TRY(it.base, device::address_of_registered(*gpu_, at));
    }
    return {};
  }

 private:
  const SlabRequest& request_;
  Bootstrap& bootstrap_;
  std::shared_ptr<const device::Gpu> gpu_;
  const int rank_, ranks_;
  std::unique_ptr<Slab> slab_;
  std::vector<Told> all_;
  std::vector<std::vector<std::string>> reasons_;
  bool several_ = false;
  size_t host_bytes_ = 0;
  UniqueFd memory_descriptor_, host_descriptor_;
  DescriptorTrade trade_;
  std::map<int, std::vector<UniqueFd>> descriptors_;
};

Result<std::unique_ptr<Slab>> Slab::make(const SlabRequest& request) { return Connecting(request).run(); }

}  // namespace ronde::gpu
