#include "tools/plan/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/config.h"
#include "plan/algorithm.h"
#include "topo/text.h"
#include "tune/choose.h"

namespace ronde::plan::tool {
namespace {

constexpr const char* kPair = "cpu {\n  2 cpurank cores=1\n}\n";
constexpr uint64_t kSlot = 64;           // bytes, of the tasks that count slots
constexpr uint64_t kSlotBytes = 65536;   // of as many as are counted
constexpr double kNear = 25, kFar = 50;  // per cent

/// ns of the task, 0 where it has not been measured.
double nanos_of(const std::vector<Task>& tasks, Subject subject, Coll coll, uint64_t bytes) {
  for (const Task& task : tasks) {
    if (task.subject == subject && task.coll == coll && task.bytes == bytes) return task.median();
  }
  return 0;
}

/// MB/s without what is not the data's own time, ns: `once`, and `step` for each piece. At least half of the time is the data's.
int64_t rate_of(const Task& task, double step, double once = 0) {
  const double others = once + step * std::ceil(static_cast<double>(task.bytes) / kSlotBytes);
  const double nanos = std::max({1.0, task.median() / 2, task.median() - others});
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(task.bytes) * 1000 / nanos));
}

/// With both at it each copies and reads; alone one copies and the other reads.
bool hands(CpuWork work) { return work == CpuWork::publish || work == CpuWork::take; }

/// The bytes that a piece of work touches: what Curve means by them.
int64_t touched(const Task& task) { return static_cast<int64_t>(task.bytes) * (task.work == CpuWork::fold ? 3 : 2); }

/// `slot`: ns that an end spends on a slot.
Curve curve_of(const std::vector<Task>& tasks, CpuWork work, double slot) {
  Curve curve;
  const double wait = std::max(
      0.0, nanos_of(tasks, Subject::work, Coll::all_gather, kSlot) - nanos_of(tasks, Subject::work, Coll::all_reduce, kSlot));
  // A message has a call's beginning, and a slot for each piece, of which a rank alone only reads.
  const double once = work == CpuWork::pull ? nanos_of(tasks, Subject::slots, Coll::reduce_scatter, 2 * kSlot) : 0;
  const double step_alone = work == CpuWork::pull ? slot : 0;
  const double step_both = work == CpuWork::pull ? 2 * slot : work == CpuWork::fold ? wait : 0;
  for (const Task& alone : tasks) {
    if (alone.subject != Subject::work || alone.work != work || alone.both || alone.bytes <= kSlot) continue;
    for (const Task& both : tasks) {
      if (both.subject != Subject::work || both.work != work || !both.both || both.bytes != alone.bytes / (hands(work) ? 2 : 1))
        continue;
      curve.points.push_back({touched(alone), rate_of(alone, step_alone, once), rate_of(both, step_both, once)});
    }
  }
  return curve;
}

/// Programs of a call between two ranks that both send and receive.
std::vector<Program> messages() {
  std::vector<Program> world;
  for (int rank = 0; rank < 2; ++rank) {
    Program program;
    program.rank = rank;
    program.blocks = 1;
    program.peers = {{1 - rank, 0}};
    Move send, receive;
    send.src = Buf::input;
    send.out_count = 1;
    receive.dst = Buf::output;
    receive.in_count = 1;
    program.lanes = {{send}, {receive}};
    world.push_back(program);
  }
  return world;
}

}  // namespace

std::vector<Task> calibration_tasks(uint64_t most_bytes) {
  std::vector<Task> tasks;
  for (int w = 0; w < kCpuWorks; ++w) {
    const auto work = static_cast<CpuWork>(w);
    for (uint64_t bytes = 32768; bytes <= most_bytes; bytes *= bytes < (1u << 20) || bytes >= (32u << 20) ? 4 : 2) {
      for (const bool both : {false, true}) {
        Task task;
        task.subject = Subject::work;
        task.work = work;
        task.both = both;
        task.bytes = both && hands(work) ? bytes / 2 : bytes;
        tasks.push_back(task);
      }
    }
  }
  tasks.push_back({Subject::slots, CpuWork::copy, true, Coll::broadcast, kSlotBytes, {}});
  tasks.push_back({Subject::slots, CpuWork::copy, true, Coll::reduce_scatter, 2 * kSlotBytes, {}});
  tasks.push_back({Subject::slots, CpuWork::copy, true, Coll::reduce_scatter, 2 * kSlot, {}});
  tasks.push_back({Subject::work, CpuWork::pull, false, Coll::all_reduce, kSlot, {}});
  tasks.push_back({Subject::work, CpuWork::pull, true, Coll::all_gather, kSlot, {}});
  return tasks;
}

Costs calibrated(const Costs& base, HopKind kind, const std::vector<Task>& tasks) {
  Costs costs = base;
  constexpr double kSlots = kSlotBytes / kSlot;
  const double once = nanos_of(tasks, Subject::slots, Coll::reduce_scatter, 2 * kSlot);
  const double often = nanos_of(tasks, Subject::slots, Coll::reduce_scatter, 2 * kSlotBytes);
  const double one_way = nanos_of(tasks, Subject::slots, Coll::broadcast, kSlotBytes);
  const double fetch = nanos_of(tasks, Subject::work, Coll::all_reduce, kSlot);
  if (once <= 0 || often <= 0 || one_way <= 0) return costs;
  // Both ways, each rank writes a slot, waits for the other's and reads it, before it writes the next. One way, slots follow each
  // other as fast as an end can handle them. The data's own time, which is a system call between processes, is in the curves.
  const double turn = std::max(3.0, (often - once) / (kSlots - 1) - fetch);
  const double slot = std::clamp(one_way / kSlots - fetch, 1.0, turn / 3);
  const auto latency = static_cast<int64_t>(std::lround(turn - 2 * slot));
  costs.cpu_launch = std::max<int64_t>(1, std::lround(once - turn - fetch) - latency);  // the last loan comes back a hop later
  for (int p = 0; p < kProtocols; ++p) {
    costs.hop(static_cast<Protocol>(p), kind).slot = std::lround(slot);
    costs.hop(static_cast<Protocol>(p), kind).latency = latency;
  }
  for (int w = 0; w < kCpuWorks; ++w) {
    const auto work = static_cast<CpuWork>(w);
    Curve curve = curve_of(tasks, work, slot);
    if (!curve.points.empty()) costs.curve(work, kind) = std::move(curve);
  }
  return costs;
}

Result<Row> predict(HopKind kind, const Task& task, const Costs& costs) {
  RONDE_TRY(const topo::Reading reading, topo::from_text(kPair, "two CPU ranks"));
  const std::vector<topo::NodeId> devices = reading.machine.of_kind(topo::NodeKind::cpu_rank);
  RONDE_TRY(const TuneRules rules, TuneRules::parse(*current_config()));
  TuneInputs inputs;
  inputs.ranks = 2;
  inputs.one_process = kind == HopKind::process;
  SimCall call{{task.coll, 2, 0}, counts_per_rank(task.coll) ? task.bytes / 2 : task.bytes};
  Conditions conditions;
  conditions.slots = inputs.slots;
  conditions.slice = inputs.slot_capacity;
  conditions.lend_threshold = inputs.lend_threshold;
  conditions.one_process = inputs.one_process;
  conditions.costs = &costs;
  Row row{kind, task.coll, task.bytes, "message", task.median(), 0};
  std::vector<Program> world;
  if (task.coll == Coll::send) {
    world = messages();
  } else {
    RONDE_TRY(const Choice choice,
              choose({call.spec, call.bytes / sizeof(float), DataType::float32, ReduceOp::sum}, rules, inputs));
    row.algorithm = choice.algorithm->name;
    conditions.slice = choice.slice;
    conditions.merged = choice.merged;
    Channel order;
    order.ring = {0, 1};
    for (int rank = 0; rank < 2; ++rank) {
      RONDE_TRY(Program program, choice.algorithm->build(call.spec, order, rank));
      world.push_back(std::move(program));
    }
  }
  const SimChannel channel{world};
  RONDE_TRY(const Simulation it, simulate(reading.machine, devices, call, {&channel, 1}, conditions));
  row.predicted = static_cast<double>(it.nanos);
  return row;
}

Result<Comparison> compare(uint64_t least_bytes, uint64_t most_bytes, int rounds, const std::vector<HopKind>& kinds) {
  Comparison result;
  result.costs = built_in_costs();
  for (const HopKind kind : kinds) {
    std::vector<Task> tasks = calibration_tasks(most_bytes);
    const size_t first = tasks.size();
    for (const Coll coll : {Coll::all_reduce, Coll::all_gather, Coll::reduce_scatter, Coll::broadcast, Coll::reduce,
                            Coll::all_to_all, Coll::send}) {
      for (uint64_t bytes = least_bytes; bytes <= most_bytes; bytes *= 4) {
        Task task;
        task.subject = Subject::exchange;
        task.coll = coll;
        task.bytes = bytes;
        tasks.push_back(task);
      }
    }
    RONDE_TRY(const double latency, measure(kind, rounds, tasks));
    result.latency.emplace_back(kind, latency);
    result.costs =
        calibrated(result.costs, kind, std::vector<Task>(tasks.begin(), tasks.begin() + static_cast<ptrdiff_t>(first)));
    for (size_t t = first; t < tasks.size(); ++t) {
      RONDE_TRY(Row row, predict(kind, tasks[t], result.costs));
      result.rows.push_back(std::move(row));
    }
  }
  return result;
}

std::string to_text(const std::vector<Row>& rows, bool* good) {
  std::string text =
      "| transport | call | bytes | algorithm | measured us | predicted us | deviation % |\n|---|---|---|---|---|---|---|\n";
  size_t near = 0, far = 0;
  for (const Row& row : rows) {
    const std::string_view call = row.coll == Coll::send ? "Send and Recv" : name_of(row.coll);
    text += fmt::format("| {} | {} | {} | {} | {:.1f} | {:.1f} | {:+.0f} |\n", to_string(row.kind), call, row.bytes,
                        row.algorithm, row.measured / 1000, row.predicted / 1000, row.deviation());
    near += std::abs(row.deviation()) <= kNear ? 1 : 0;
    far += std::abs(row.deviation()) > kFar ? 1 : 0;
  }
  *good = !rows.empty() && far == 0 && near * 10 >= rows.size() * 9;
  text += fmt::format("\n{} of {} points within {:.0f} %, {} beyond {:.0f} %: {}\n", near, rows.size(), kNear, far, kFar,
                      *good ? "good" : "not good");
  return text;
}

std::string to_text(const Comparison& comparison, bool* good) {
  std::string text = to_text(comparison.rows, good);
  for (const auto& [kind, latency] : comparison.latency) {
    text += fmt::format("{}: {:.0f} ns for a word from one core to the other\n", to_string(kind), latency);
  }
  return text;
}

}  // namespace ronde::plan::tool
