#include "tools/plan/explain.h"

#include <sched.h>

#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "base/lists.h"
#include "base/words.h"
#include "tools/plan/machine.h"
#include "tools/topo/input.h"
#include "tune/choose.h"
#include "tune/explain.h"
#include "tune/plugin.h"
#include "tools/plan/names.h"

namespace ronde::plan::tool {
namespace {

constexpr int kMostRanks = 1 << 20;

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

Result<CallShape> shape_of(const ExplainOptions& options) {
  CallShape shape;
  RONDE_TRY(shape.spec.coll, collective_named(options.call));
  RONDE_TRY(shape.type, named<DataType>("data type", options.type, kDataTypes));
  RONDE_TRY(shape.op, named<ReduceOp>("operation", options.op, static_cast<int>(ReduceOp::avg) + 1));
  if (options.ranks < 1 || options.ranks > kMostRanks) {
    return fail(Code::invalid_argument, fmt::format("{} ranks: their number is 1 to {}", options.ranks, kMostRanks));
  }
  if (options.least == 0 && options.most > 0) {
    return fail(Code::invalid_argument, "sizes from 0 bytes cannot be multiplied; begin with 1");
  }
  if (options.root < 0 || options.root >= options.ranks) {
    return fail(Code::invalid_argument, fmt::format("root {} is outside 0 to {}", options.root, options.ranks - 1));
  }
  if (options.nodes < 1 || options.nodes > options.ranks) {
    return fail(Code::invalid_argument,
                fmt::format("{} nodes: their number is 1 to that of ranks, {}", options.nodes, options.ranks));
  }
  if (options.cores < 0) return fail(Code::invalid_argument, fmt::format("{} cores: their number is 1 or more", options.cores));
  if (options.least > options.most) {
    return fail(Code::invalid_argument,
                fmt::format("sizes begin at {} bytes and end before, at {}", options.least, options.most));
  }
  if (options.factor < 2)
    return fail(Code::invalid_argument, fmt::format("the factor between sizes is {}; it is 2 or more", options.factor));
  shape.spec.ranks = options.ranks;
  shape.spec.root = has_root(shape.spec.coll) ? options.root : 0;
  return shape;
}

/// A GPU's slots where the settings name none.
constexpr uint32_t kGpuSlots = 8;
constexpr uint32_t kGpuSlotBytes = 512 << 10;

TuneInputs inputs_of(const ExplainOptions& options, const MachineRanks& there, const Costs& costs, const Config& config) {
  TuneInputs inputs;
  const int cores = options.cores > 0 ? options.cores : usable_cores();
  const int most = (options.ranks + options.nodes - 1) / options.nodes;
  inputs.ranks = options.ranks;
  inputs.nodes = there.nodes;
  inputs.links = there.links;
  inputs.costs = &costs;
  inputs.ranks_per_core = (most + cores - 1) / cores;
  inputs.one_process = !options.processes;
  inputs.lends = !config.flag(Setting::p2p_disable);
  inputs.slots = static_cast<uint32_t>(config.integer(Setting::slots));
  inputs.slot_capacity = static_cast<uint32_t>(config.bytes(Setting::buffsize) / inputs.slots / 64 * 64);
  inputs.lend_threshold = config.bytes(Setting::lend_threshold);
  if (inputs.links.inside > 0 && !config.is_set(Setting::buffsize) && !config.is_set(Setting::slots)) {
    inputs.slots = kGpuSlots;
    inputs.slot_capacity = kGpuSlotBytes;
  }
  return inputs;
}

/// Elements of a call whose larger buffer has `bytes`, as its count argument has them.
size_t count_of(const CallShape& shape, uint64_t bytes) {
  return bytes / size_of(shape.type) / (counts_per_rank(shape.spec.coll) ? static_cast<uint64_t>(shape.spec.ranks) : 1);
}

struct Sized {
  CallShape call;
  uint64_t bytes;
  Evaluation made;
};

bool may_be_chosen(const Alternative& one) { return one.outcome == Outcome::chosen || one.outcome == Outcome::slower; }

/// What stands at the end of a table: why an algorithm is not to be chosen from, by the first size where it is not.
std::string footnotes(const std::vector<Sized>& rows, const TuneRules& rules) {
  std::string text;
  for (size_t i = 0; i < rows.front().made.alternatives.size(); ++i) {
    const auto row =
        std::find_if(rows.begin(), rows.end(), [i](const Sized& one) { return !may_be_chosen(one.made.alternatives[i]); });
    if (row == rows.end()) continue;
    const Alternative& one = row->made.alternatives[i];
    text += fmt::format("{}: {}\n", one.algorithm->name, why(one, row->call, rules, row->made));
  }
  return text;
}

std::string table_of(const std::vector<Sized>& rows, const TuneRules& rules) {
  std::string text = fmt::format("{:>12} {:>4} {:>9}", "bytes", "chan", "slice");
  for (const Alternative& one : rows.front().made.alternatives) text += fmt::format(" {:>13}", one.algorithm->name);
  text += "\n";
  for (const Sized& row : rows) {
    text += fmt::format("{:>12} {:>4} {:>9}", row.bytes, row.made.choice.channels, row.made.choice.slice);
    for (const Alternative& one : row.made.alternatives) {
      const std::string cost = one.nanos == UINT64_MAX ? "-" : fmt::format("{}.{}", one.nanos / 1000, one.nanos % 1000 / 100);
      text += fmt::format(" {:>13}", one.outcome == Outcome::chosen      ? "*" + cost
                                     : may_be_chosen(one) || cost == "-" ? cost
                                                                         : "(" + cost + ")");
    }
    text += "\n";
  }
  return text + footnotes(rows, rules);
}

/// How the ranks move data.
std::string means_of(const ExplainOptions& options, const TuneInputs& inputs) {
  const LinkRates& links = inputs.links;
  std::string text = fmt::format("{} to a core, {}", inputs.ranks_per_core, options.processes ? "a process each" : "threads of one process");
  if (links.inside > 0) text = fmt::format("{} channels, {} MB/s past each GPU over {}", links.channels, links.inside, to_string(links.kind));
  if (links.network > 0) text += fmt::format(", {} MB/s out of a node", links.network);
  return text;
}

std::string title_of(const ExplainOptions& options, const CallShape& shape, const TuneInputs& inputs) {
  const Coll coll = shape.spec.coll;
  return fmt::format("{} of {}{}{}, {} ranks{}, {}; microseconds by the model, * chosen, () not to be chosen\n",
                     name_of(coll), name_of(shape.type), has_reduction(coll) ? fmt::format(", {}", name_of(shape.op)) : "",
                     has_root(coll) ? fmt::format(", root {}", shape.spec.root) : "", shape.spec.ranks,
                     options.nodes > 1 ? fmt::format(" on {} nodes", options.nodes) : "", means_of(options, inputs));
}

/// The ranks that the options mean; those of a machine are put into the options.
Result<MachineRanks> place(ExplainOptions* options) {
  if (options->machine.empty()) {
    MachineRanks there{.ranks = options->ranks};
    if (options->nodes > 1 && options->nodes <= options->ranks) {
      there.nodes = {options->nodes, options->ranks / options->nodes, (options->ranks + options->nodes - 1) / options->nodes};
    }
    return there;
  }
  RONDE_TRY(const topo::Reading reading, topo::tool::read_input(options->machine));
  RONDE_TRY(const MachineRanks there, ranks_of(reading.machine, options->copies));
  options->ranks = there.ranks;
  options->nodes = there.nodes.nodes;
  return there;
}

/// The plugin that the settings ask for, started for these ranks as for rank 0 of a communicator; nullptr for none.
Result<std::unique_ptr<Tuner>> tuner_of(const ExplainOptions& options, const Config& config) {
  std::unique_ptr<Tuner> tuner = options.ranks > 1 ? Tuner::load(config) : nullptr;
  if (tuner == nullptr) return tuner;
  TunerComm comm{1, static_cast<size_t>(options.ranks), static_cast<size_t>(options.nodes), options.ranks / options.nodes, 0};
  comm.most_ranks = (options.ranks + options.nodes - 1) / options.nodes;
  RONDE_TRY(tuner->start(comm));
  return tuner;
}

}  // namespace

Result<std::string> explain(const ExplainOptions& asked, const Config& config) {
  ExplainOptions options = asked;
  RONDE_TRY(const MachineRanks there, place(&options));
  RONDE_TRY(const Costs costs, costs_of(config));
  RONDE_TRY(CallShape shape, shape_of(options));
  RONDE_TRY(const TuneRules rules, TuneRules::parse(config));
  RONDE_TRY(const std::unique_ptr<Tuner> tuner, tuner_of(options, config));
  const TuneInputs inputs = inputs_of(options, there, costs, config);
  std::vector<Sized> rows;
  for (uint64_t bytes = options.least;; bytes *= options.factor) {
    shape.count = count_of(shape, bytes);
    RONDE_TRY(Evaluation made, evaluate(shape, rules, inputs, tuner.get()));
    rows.push_back({shape, bytes, std::move(made)});
    if (bytes == 0 || bytes > options.most / options.factor) break;
  }
  if (!options.json)
    return rows.size() == 1 ? explain_text(rows[0].call, rules, rows[0].made)
                            : title_of(options, shape, inputs) + table_of(rows, rules);
  std::string json = "[";
  for (const Sized& row : rows) json += (json.size() > 1 ? ",\n " : "") + explain_json(row.call, rules, row.made);
  return json + "]\n";
}

}  // namespace ronde::plan::tool
