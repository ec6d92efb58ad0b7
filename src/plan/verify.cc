// Why one slice is enough. Lanes and FIFOs form a marked graph: an event waits for the event before it in its lane, for the
// writer of each slot it reads, and, with S slots, for the reader of the slot S places before each one it writes. Such a graph
// runs for ever exactly when no cycle of waits is free of tokens; a wait that reaches into an earlier slice carries one. So a
// cycle within a slice is all there is to look for. Nor can slices disturb each other's data: their memory is disjoint, and a
// chain of waits from one event of a slice to another of the same slice never leaves it. The order of memory accesses is taken
// from lanes and messages alone, not from waits for free slots, so that what is proven holds for every number of slots from
// min_slots on.
#include "plan/verify.h"

#include <fmt/core.h>
#include <algorithm>

#include "plan/verify_impl.h"

namespace ronde {
namespace plan {

constexpr size_t kMostFaults = 32;

void Faults::add(std::string sentence) {
  if (++count_ <= kMostFaults) sentences_.push_back(std::move(sentence));
}

std::vector<std::string> Faults::take() {
  if (count_ > kMostFaults) sentences_.push_back(fmt::format("and {} more", count_ - kMostFaults));
  return std::move(sentences_);
}

std::string place(int rank, uint32_t lane, uint32_t move) { return fmt::format("rank {} lane {} move {}", rank, lane, move); }

std::string place(const Net& net, const Event& event) {
  const Lane& lane = net.lanes[event.lane];
  const std::string where = place(lane.rank, lane.index, event.index);
  return event.move->n_blocks == 1 ? where : fmt::format("{} (its block {})", where, event.block);
}

namespace {

struct Form {
  int min_slots = 0;
  bool canonical = true;
};

/// Proves one form (merged or not).
Form prove(const Subject& subject, bool merged, Faults& faults) {
  Form form;
  const Net net(subject, merged);
  check_net(net, faults);
  if (faults.any()) return form;
  Trace trace;
  if (!record(net, trace, faults) || faults.any()) return form;
  form.min_slots = least_slots(net);
  if (form.min_slots > subject.options.slots) {
    faults.add(fmt::format("the Programs need {} slots per connection to end{}, but have {}", form.min_slots,
                           merged ? " with merged blocks" : "", subject.options.slots));
  }
  const Cells cells(subject);
  check_content(net, trace, cells, faults, form.canonical);
  check_order(net, trace, cells, faults);
  return form;
}

bool any_wide(std::span<const Program> world) {
  for (const Program& program : world) {
    for (const auto& lane : program.lanes) {
      if (std::any_of(lane.begin(), lane.end(), [](const Move& move) { return move.n_blocks > 1; })) return true;
    }
  }
  return false;
}

}  // namespace
}  // namespace plan

Verdict verify(const CollSpec& spec, std::span<const Program> world, const VerifyOptions& options) {
  Verdict verdict;
  plan::Faults faults;
  const plan::Subject subject{spec, world, options};
  plan::check_shape(subject, faults);
  if (!faults.any()) {
    plan::Form form = plan::prove(subject, false, faults);
    if (!faults.any() && plan::any_wide(world)) {
      const plan::Form merged = plan::prove(subject, true, faults);
      form.min_slots = std::max(form.min_slots, merged.min_slots);
    }
    verdict.min_slots = form.min_slots;
    verdict.canonical = form.canonical && !faults.any();
  }
  verdict.faults = faults.take();
  return verdict;
}

Result<std::vector<std::span<const Program>>> channels_of(const Schedule& schedule) {
  const auto wrong = [](const std::string& what) { return fail(Code::invalid_argument, what); };
  const std::vector<Program>& world = schedule.world;
  const int ranks = schedule.spec.ranks;
  if (ranks < 1 || world.empty() || world.size() % static_cast<size_t>(ranks) != 0)
    return wrong(fmt::format("{} Programs; each channel needs one for each of {} ranks", world.size(), ranks));
  std::vector<std::span<const Program>> channels;
  for (size_t first = 0; first < world.size(); first += static_cast<size_t>(ranks)) {
    const Program& program = world[first];
    if (program.channel != std::ssize(channels)) return wrong(fmt::format("channel {} where {} is expected", program.channel, channels.size()));
    if (program.blocks != world[0].blocks) {
      return wrong(fmt::format("channel {} has {} blocks and channel 0 has {}; all channels need as many", program.channel, program.blocks,
                               world[0].blocks));
    }
    channels.push_back(std::span(world).subspan(first, static_cast<size_t>(ranks)));
  }
  return channels;
}

}  // namespace ronde
