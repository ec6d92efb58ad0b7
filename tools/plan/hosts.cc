#include "tools/plan/hosts.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/clock.h"
#include "base/config.h"
#include "base/hash.h"
#include "base/integers.h"
#include "nccl.h"
#include "ronde.h"
#include "plan/algorithm.h"
#include "topo/copies.h"
#include "topo/text.h"
#include "tune/choose.h"

namespace ronde::plan::tool {
namespace {

constexpr Coll kCalls[] = {Coll::all_reduce, Coll::all_gather, Coll::reduce_scatter, Coll::broadcast, Coll::reduce, Coll::all_to_all};
constexpr uint64_t kLong = 300'000'000;  // ns that one sample lasts: long beside what a limited link lets pass at once
constexpr int64_t kMostMbits = 400'000;

const char* variable(const char* name) {
  const char* const text = process_variable(name);
  return text == nullptr ? "" : text;
}

Error failed(const char* what) { return fail(Code::system_error, fmt::format("{}: {}", what, ncclGetLastError(nullptr))); }

/// A rank's communicator and buffers.
class Party {
 public:
  Party(int ranks, uint64_t most) : ranks_(ranks), send_(most / sizeof(float), 1), recv_(most / sizeof(float)) {}
  ~Party() {
    if (comm_ != nullptr) ncclCommDestroy(comm_);
  }
  Party(const Party&) = delete;

  Result<> join(int rank) {
    const std::string place = fmt::format("{}:{}", variable("MASTER_ADDR"), variable("MASTER_PORT"));
    if (*variable("NCCL_COMM_ID") == 0) setenv("NCCL_COMM_ID", place.c_str(), 1);
    ncclUniqueId id;
    if (ncclGetUniqueId(&id) != ncclSuccess) return failed("ncclGetUniqueId");
    if (ncclCommInitRank(&comm_, ranks_, id, rank) != ncclSuccess) return failed("ncclCommInitRank");
    return {};
  }

  Result<std::vector<uint64_t>> all(uint64_t mine) {
    std::vector<uint64_t> everybody(static_cast<size_t>(ranks_));
    if (ncclAllGather(&mine, everybody.data(), 1, ncclUint64, comm_, nullptr) != ncclSuccess) return failed("ncclAllGather");
    return everybody;
  }
  Result<uint64_t> longest(uint64_t mine) {
    uint64_t most = 0;
    if (ncclAllReduce(&mine, &most, 1, ncclUint64, ncclMax, comm_, nullptr) != ncclSuccess) return failed("ncclAllReduce");
    return most;
  }

  /// What the library's slots hold: as much as it puts into one where nothing is gained by less.
  Result<uint32_t> slot_capacity() {
    rondeChoice_t choice{};
    choice.size = sizeof choice;
    if (rondeExplain(comm_, rondeAllGather, size_t{1} << 28, ncclFloat, ncclSum, 0, &choice) != ncclSuccess) return failed("rondeExplain");
    return static_cast<uint32_t>(choice.sliceBytes);
  }

  /// ns of one call on the slowest rank, the mean of so many that they take a while.
  Result<double> sample(Coll coll, uint64_t bytes) {
    uint64_t calls = 2;
    for (;;) {
      RONDE_TRY(longest(0));
      const uint64_t start = now_ns();
      for (uint64_t i = 0; i < calls; ++i) {
        if (call(coll, bytes / sizeof(float)) != ncclSuccess) return failed(name_of(coll).data());
      }
      RONDE_TRY(const uint64_t nanos, longest(now_ns() - start));
      if (nanos >= kLong / 2) return static_cast<double>(nanos) / static_cast<double>(calls);
      calls = std::max(calls + 1, calls * kLong / std::max<uint64_t>(1, nanos));
    }
  }

 private:
  ncclResult_t call(Coll coll, size_t count) {
    const size_t part = count / static_cast<size_t>(ranks_);
    switch (coll) {
      case Coll::all_gather:
        return ncclAllGather(send_.data(), recv_.data(), part, ncclFloat, comm_, nullptr);
      case Coll::reduce_scatter:
        return ncclReduceScatter(send_.data(), recv_.data(), part, ncclFloat, ncclSum, comm_, nullptr);
      case Coll::all_to_all:
        return ncclAlltoAll(send_.data(), recv_.data(), part, ncclFloat, comm_, nullptr);
      case Coll::broadcast:
        return ncclBroadcast(send_.data(), recv_.data(), count, ncclFloat, 0, comm_, nullptr);
      case Coll::reduce:
        return ncclReduce(send_.data(), recv_.data(), count, ncclFloat, ncclSum, 0, comm_, nullptr);
      default:
        return ncclAllReduce(send_.data(), recv_.data(), count, ncclFloat, ncclSum, comm_, nullptr);
    }
  }

  int ranks_;
  std::vector<float> send_, recv_;
  ncclComm_t comm_ = nullptr;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace

bool in_hosts() { return *variable("RANK") != 0 && *variable("NCCL_HOSTID") != 0; }

Result<int> hosts_of(const std::vector<uint64_t>& host_of_rank) {
  int hosts = 1;
  for (size_t r = 1; r < host_of_rank.size(); ++r) hosts += host_of_rank[r] != host_of_rank[r - 1] ? 1 : 0;
  const size_t each = host_of_rank.size() / static_cast<size_t>(hosts);
  for (size_t r = 0; r < host_of_rank.size(); ++r) {
    const bool first = r % each == 0;
    if (each * static_cast<size_t>(hosts) == host_of_rank.size() && (r == 0 || first == (host_of_rank[r] != host_of_rank[r - 1]))) continue;
    return fail(Code::invalid_argument, "the ranks have to be in the order of their hosts, as many on each: ronde-run -n 4 --hosts 2");
  }
  return hosts;
}

Result<Row> predict_hosts(const Job& job, Coll coll, uint64_t bytes, int64_t mbits, const Costs& costs) {
  const int each = job.ranks / job.hosts;
  const std::string one = fmt::format("cpu {{\n  {} cpurank cores=1\n  nic gen5x16 {{\n    port mbits={}\n  }}\n}}\n", each,
                                      mbits > 0 ? mbits : kMostMbits);
  RONDE_TRY(const topo::Reading reading, topo::from_text(one, "a host of the job"));
  const topo::Machine machine = topo::copies(reading.machine, job.hosts);
  const std::vector<topo::NodeId> devices = machine.of_kind(topo::NodeKind::cpu_rank);
  RONDE_TRY(const TuneRules rules, TuneRules::parse(*current_config()));
  TuneInputs inputs;
  inputs.ranks = job.ranks;
  inputs.ranks_per_core = static_cast<int>(ceil_div(static_cast<uint64_t>(job.ranks), static_cast<uint64_t>(job.cores)));
  inputs.one_process = false;
  inputs.slot_capacity = job.slot_capacity;
  inputs.nodes = {job.hosts, each, each};
  inputs.costs = &costs;
  const SimCall call{{coll, job.ranks, 0}, counts_per_rank(coll) ? bytes / static_cast<uint64_t>(job.ranks) : bytes};
  RONDE_TRY(const Choice choice, choose({call.spec, call.bytes / sizeof(float), DataType::float32, ReduceOp::sum}, rules, inputs));
  Channel order;
  for (int rank = 0; rank < job.ranks; ++rank) {
    order.ring.push_back(rank);
    order.node_of.push_back(rank / each);
  }
  std::vector<Program> world;
  for (int rank = 0; rank < job.ranks; ++rank) {
    RONDE_TRY(Program program, choice.algorithm->build(call.spec, order, rank));
    world.push_back(std::move(program));
  }
  Conditions conditions;
  conditions.slots = inputs.slots;
  conditions.slice = choice.slice;
  conditions.merged = choice.merged;
  conditions.lend_threshold = inputs.lend_threshold;
  conditions.one_process = false;
  conditions.ranks_per_core = inputs.ranks_per_core;
  conditions.costs = &costs;
  const SimChannel channel{world};
  RONDE_TRY(const Simulation it, simulate(machine, devices, call, {&channel, 1}, conditions));
  return Row{HopKind::network, coll, bytes, std::string(choice.algorithm->name), 0, static_cast<double>(it.nanos)};
}

Result<std::vector<Row>> compare_hosts(const HostsOptions& options, const Costs& costs) {
  Job job{.rank = atoi(variable("RANK")), .ranks = atoi(variable("WORLD_SIZE")), .cores = usable_cores()};
  if (job.ranks < 2 || job.rank < 0 || job.rank >= job.ranks) return fail(Code::invalid_argument, "RANK and WORLD_SIZE name no job of two ranks or more");
  Party party(job.ranks, options.most);
  RONDE_TRY(party.join(job.rank));
  RONDE_TRY(const std::vector<uint64_t> hosts, party.all(fnv1a(std::string_view(variable("NCCL_HOSTID")))));
  RONDE_TRY(job.hosts, hosts_of(hosts));
  RONDE_TRY(job.slot_capacity, party.slot_capacity());
  std::vector<Row> rows;
  for (const Coll coll : kCalls) {
    for (uint64_t bytes = options.least; bytes <= options.most; bytes *= 4) {
      RONDE_TRY(Row row, predict_hosts(job, coll, bytes, options.mbits, costs));
      rows.push_back(std::move(row));
    }
  }
  std::vector<std::vector<double>> samples(rows.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t r = 0; r < rows.size(); ++r) {
      RONDE_TRY(const double nanos, party.sample(rows[r].coll, rows[r].bytes));
      samples[r].push_back(nanos);
    }
  }
  for (size_t r = 0; r < rows.size(); ++r) rows[r].measured = median(samples[r]);
  return job.rank == 0 ? rows : std::vector<Row>();
}

}  // namespace ronde::plan::tool
