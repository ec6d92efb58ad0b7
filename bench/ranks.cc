#include "bench/ranks.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <sstream>

#include "bench/failure.h"
#include "bench/gpu.h"
#include "bench/machine.h"
#include "ronde.h"

namespace ronde::bench {
namespace {

std::string variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

/// Decimal, 0x hexadecimal or 0b binary.
unsigned split_number(const std::string& text, const char* name) {
  int base = 10;
  size_t skip = 0;
  if (text.starts_with("0x") || text.starts_with("0X")) base = 16, skip = 2;
  if (text.starts_with("0b") || text.starts_with("0B")) base = 2, skip = 2;
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(text.data() + skip, text.data() + text.size(), value, base);
  if (error != std::errc{} || stop != text.data() + text.size()) {
    throw TestFailure(Exit::invalid_usage, fmt::format("{}: '{}' is no number", name, text));
  }
  return value;
}

/// What the processes tell each other.
struct Card {
  std::string host_identity;
  int colour;
  std::string id;  // NCCL_UNIQUE_ID_BYTES bytes, of the first process of each colour
};

std::string packed(const Card& card) { return fmt::format("{}\n{}\n", card.colour, card.host_identity) + card.id; }

Card unpacked(const std::string& text) {
  const size_t first = text.find('\n');
  const size_t second = text.find('\n', first + 1);
  return {text.substr(first + 1, second - first - 1), std::stoi(text.substr(0, first)), text.substr(second + 1)};
}

std::string packed(const DeviceLine& d) {
  return fmt::format("{} {} {} {} {} {}\t{}\n", d.rank, d.group, d.pid, d.device, d.gpu ? 1 : 0, d.host, d.name);
}

std::vector<DeviceLine> unpacked_devices(const std::string& text) {
  std::vector<DeviceLine> devices;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    DeviceLine d;
    std::istringstream fields(line);
    fields >> d.rank >> d.group >> d.pid >> d.device >> d.gpu >> d.host;
    d.name = line.substr(line.find('\t') + 1);
    devices.push_back(d);
  }
  return devices;
}

/// One element of `type` with the value of a pre-multiplied sum's scalar.
uint64_t scalar_bits(ncclDataType_t type, int rank) {
  const int value = premul_scalar(rank);
  return is_float(type) ? encode(format_of(type), value) : static_cast<uint64_t>(value);
}

}  // namespace

std::byte* LocalRank::seen(const void* data) const {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(data));
  if (device < 0) return at;
  const std::byte* const in_send = static_cast<const std::byte*>(send);
  const bool sent = at >= in_send && at < in_send + kept_send.size();
  const std::byte* const from = sent ? in_send : static_cast<const std::byte*>(recv);
  return const_cast<std::byte*>((sent ? kept_send : kept_recv).data()) + (at - from);
}

void LocalRank::take(void* data, size_t bytes) const {
  if (device < 0) return;
  gpu::use(device);
  gpu::upload(data, seen(data), bytes);
}

void LocalRank::bring(const void* data, size_t bytes) const {
  if (device < 0) return;
  gpu::use(device);
  gpu::download(seen(data), data, bytes);
}

int split_colour(const Environment& environment, int process) {
  const auto number = static_cast<unsigned>(process);
  if (const std::string mask = variable(environment, "NCCL_TESTS_SPLIT_MASK"); !mask.empty()) {
    const bool prefixed = mask.starts_with("0x") || mask.starts_with("0X");
    return static_cast<int>(number & split_number(prefixed ? mask : "0x" + mask, "NCCL_TESTS_SPLIT_MASK"));
  }
  const std::string rule = variable(environment, "NCCL_TESTS_SPLIT");
  if (rule.empty()) return 0;
  const size_t digits = rule.find_first_of("0123456789");
  std::string word = rule.substr(0, digits);
  while (!word.empty() && word.back() == ' ') word.pop_back();
  if (digits != std::string::npos) {
    const unsigned value = split_number(rule.substr(digits), "NCCL_TESTS_SPLIT");
    if (word == "AND" || word == "&") return static_cast<int>(number & value);
    if (word == "OR" || word == "|") return static_cast<int>(number | value);
    if ((word == "MOD" || word == "%") && value > 0) return static_cast<int>(number % value);
    if ((word == "DIV" || word == "/") && value > 0) return static_cast<int>(number / value);
  }
  throw TestFailure(Exit::invalid_usage,
                    fmt::format("NCCL_TESTS_SPLIT='{}' is none of AND, OR, MOD, DIV with a number above 0, for example 'MOD 2'", rule));
}

Placement place_ranks(Job& job, const Options& options, const Environment& environment) {
  const int own_ranks = options.threads * options.ranks_per_thread;
  Placement placement;
  placement.colour = split_colour(environment, job.rank());
  placement.nranks = 0;
  placement.processes_here = 0;
  std::map<int, std::string> ids;
  // Every process makes an id where it might be the first of its colour, which it does not know yet; only the first one's is
  // used.
  const bool may_be_first = job.rank() == 0 || placement.colour != 0;
  ncclUniqueId own_id{};
  if (may_be_first) check(ncclGetUniqueId(&own_id), "ncclGetUniqueId");
  const auto texts =
      job.all_gather(packed(Card{host_identity(), placement.colour, std::string(own_id.internal, sizeof own_id.internal)}));
  int local = 0;
  for (int p = 0; p < job.size(); ++p) {
    const Card card = unpacked(texts[static_cast<size_t>(p)]);
    const bool same_host = card.host_identity == host_identity();
    if (p == job.rank()) placement.first_rank = placement.nranks;
    if (card.colour == placement.colour) placement.nranks += own_ranks;
    if (same_host && p < job.rank()) ++local;
    placement.processes_here += same_host ? 1 : 0;
    ids.emplace(card.colour, card.id);
  }
  std::memcpy(placement.id.internal, ids.at(placement.colour).data(), sizeof placement.id.internal);
  const std::string shift = variable(environment, "NCCL_TESTS_DEVICE");
  placement.first_device = local * own_ranks + (shift.empty() ? 0 : static_cast<int>(split_number(shift, "NCCL_TESTS_DEVICE")));
  rondeDevice_t kind = rondeDeviceCpu;
  check(rondeGetDevice(&kind), "rondeGetDevice");
  placement.on_gpus = kind == rondeDeviceCuda;
  std::string lines;
  for (int i = 0; i < own_ranks; ++i) {
    const int device = placement.first_device + i;
    if (placement.on_gpus) gpu::use(device);  // an error where there are too few
    lines += packed(DeviceLine{placement.first_rank + i, placement.colour, getpid(), device, host_name(),
                               placement.on_gpus ? gpu::name(device) : cpu_name(), placement.on_gpus});
  }
  for (const std::string& text : job.all_gather(lines)) {
    for (const DeviceLine& device : unpacked_devices(text)) placement.devices.push_back(device);
  }
  return placement;
}

void check(ncclResult_t result, const char* attempted, ncclComm_t comm, const char* file, int line) {
  if (result == ncclSuccess) return;
  throw TestFailure(Exit::library, fmt::format("{}: {} / {}", attempted, ncclGetErrorString(result), ncclGetLastError(comm)),
                    file, line);
}

Ranks::Ranks(const Options& options, const Placement& placement)
    : options_(options), placement_(placement), ranks_(static_cast<size_t>(options.threads * options.ranks_per_thread)) {
  for (size_t i = 0; i < ranks_.size(); ++i) ranks_[i].rank = placement.first_rank + static_cast<int>(i);
  handles_.resize(ranks_.size());
  windows_.resize(ranks_.size());
}

Ranks::~Ranks() { abort_all(); }

void Ranks::init(int first, int count) {
  check(rondeSetDevice(placement_.on_gpus ? rondeDeviceCuda : rondeDeviceCpu), "rondeSetDevice");
  std::vector<ncclComm_t> comms(static_cast<size_t>(count));
  check(ncclGroupStart(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < count && result == ncclSuccess; ++i) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.nvlinkCentricSched = 1;
    if (placement_.on_gpus) gpu::use(placement_.first_device + first + i);
    if (options_.cta_policy >= 0) config.CTAPolicy = options_.cta_policy;
    result = ncclCommInitRankConfig(&comms[static_cast<size_t>(i)], placement_.nranks, placement_.id,
                                    ranks_[static_cast<size_t>(first + i)].rank, &config);
  }
  const ncclResult_t ended = ncclGroupEnd();
  check(result, "ncclCommInitRankConfig");
  check(ended, "ncclCommInitRankConfig (ncclGroupEnd)");
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < count; ++i) ranks_[static_cast<size_t>(first + i)].comm = comms[static_cast<size_t>(i)];
}

void Ranks::allocate(size_t send_bytes, size_t recv_bytes) {
  send_bytes_ = send_bytes;
  recv_bytes_ = recv_bytes;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    LocalRank& rank = ranks_[i];
    if (placement_.on_gpus) {
      rank.device = placement_.first_device + static_cast<int>(i);
      gpu::use(rank.device);
      rank.send = gpu::allocate(send_bytes);
      rank.recv = gpu::allocate(recv_bytes);
      rank.kept_send.resize(send_bytes);
      rank.kept_recv.resize(recv_bytes);
      rank.stream = gpu::make_stream();
      continue;
    }
    check(ncclMemAlloc(&rank.send, send_bytes), "ncclMemAlloc");
    check(ncclMemAlloc(&rank.recv, recv_bytes), "ncclMemAlloc");
    if (options_.streams) check(rondeStreamCreate(&rank.stream), "rondeStreamCreate");
  }
  if (options_.registration > 0) register_buffers();
}

void Ranks::register_buffers() {
  // Windows are registered by all ranks together.
  check(ncclGroupStart(), "ncclGroupStart");
  for (size_t i = 0; i < ranks_.size(); ++i) {
    LocalRank& rank = ranks_[i];
    handles_[i].resize(2);
    windows_[i].resize(2);
    if (options_.registration == 1) {
      check(ncclCommRegister(rank.comm, rank.send, send_bytes_, &handles_[i][0]), "ncclCommRegister", rank.comm);
      check(ncclCommRegister(rank.comm, rank.recv, recv_bytes_, &handles_[i][1]), "ncclCommRegister", rank.comm);
    } else {
      const int flags = NCCL_WIN_COLL_SYMMETRIC;
      check(ncclCommWindowRegister(rank.comm, rank.send, send_bytes_, &windows_[i][0], flags), "ncclCommWindowRegister",
            rank.comm);
      check(ncclCommWindowRegister(rank.comm, rank.recv, recv_bytes_, &windows_[i][1], flags), "ncclCommWindowRegister",
            rank.comm);
    }
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

void Ranks::create_mulsum(ncclDataType_t type) {
  for (LocalRank& rank : ranks_) {
    uint64_t scalar = scalar_bits(type, rank.rank);
    check(ncclRedOpCreatePreMulSum(&rank.mulsum, &scalar, type, ncclScalarHostImmediate, rank.comm), "ncclRedOpCreatePreMulSum",
          rank.comm);
  }
}

void Ranks::destroy_mulsum() {
  for (LocalRank& rank : ranks_) check(ncclRedOpDestroy(rank.mulsum, rank.comm), "ncclRedOpDestroy", rank.comm);
}

void Ranks::finish() {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    for (void* handle : handles_[i]) check(ncclCommDeregister(ranks_[i].comm, handle), "ncclCommDeregister", ranks_[i].comm);
    for (ncclWindow_t window : windows_[i])
      check(ncclCommWindowDeregister(ranks_[i].comm, window), "ncclCommWindowDeregister", ranks_[i].comm);
  }
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
  }
  for (LocalRank& rank : ranks_) {
    check(ncclCommDestroy(rank.comm), "ncclCommDestroy");
    if (rank.device >= 0) {
      gpu::use(rank.device);
      gpu::destroy_stream(rank.stream);
      gpu::release(rank.send);
      gpu::release(rank.recv);
      continue;
    }
    if (rank.stream != nullptr) check(rondeStreamDestroy(rank.stream), "rondeStreamDestroy");
    check(ncclMemFree(rank.send), "ncclMemFree");
    check(ncclMemFree(rank.recv), "ncclMemFree");
  }
}

void Ranks::abort_all() {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  ended_ = true;
  for (LocalRank& rank : ranks_) {
    if (rank.comm != nullptr) ncclCommAbort(rank.comm);
  }
}

}  // namespace ronde::bench
