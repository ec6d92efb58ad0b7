// What every block holds, as a term over the users' inputs: an input block, or a combination of terms in one Move.
// A copy is the same term, so a schedule has one term per combining Move, and a complete result is counted out exactly once.
#include <fmt/core.h>
#include <algorithm>

#include "plan/verify_impl.h"

namespace ronde::plan {
namespace {

using Term = uint32_t;
constexpr Term kUndefined = 0;

struct Combination {
  uint32_t first = 0;  ///< of its operands
  uint32_t count = 0;
  uint32_t block = 0;
  bool final = false;
};

/// Terms 1.. are input blocks as the user left them, the next as many are the same once a Move has read them (executors scale
/// what they read from the input of a reduction, so that the two are not the same data), then combinations.
class Terms {
 public:
  explicit Terms(const Subject& subject)
      : blocks_(subject.blocks()),
        inputs_(static_cast<Term>(subject.world.size()) * subject.blocks()),
        ranks_(subject.spec.ranks) {}

  Term user(int rank, uint32_t block) const { return 1 + static_cast<Term>(rank) * blocks_ + block; }
  bool is_user(Term t) const { return t != kUndefined && t <= inputs_; }
  Term entered(Term t) const { return is_user(t) ? t + inputs_ : t; }
  bool is_input(Term t) const { return t != kUndefined && t <= 2 * inputs_; }
  int rank(Term t) const { return static_cast<int>(((t - 1) % inputs_) / blocks_); }
  uint32_t block(Term t) const { return is_input(t) ? (t - 1) % inputs_ % blocks_ : of(t).block; }
  bool final(Term t) const { return !is_input(t) && of(t).final; }

  Term combine(std::span<const Term> operands, bool final) {
    combinations_.push_back(
        {static_cast<uint32_t>(operands_.size()), static_cast<uint32_t>(operands.size()), block(operands[0]), final});
    operands_.insert(operands_.end(), operands.begin(), operands.end());
    return 2 * inputs_ + static_cast<Term>(combinations_.size());
  }

  /// What is wrong with `operands` as the complete sum over all ranks; empty where nothing is.
  std::string incomplete(std::span<const Term> operands) {
    seen_.assign(static_cast<size_t>(ranks_), false);
    int found = 0;
    std::vector<Term> open(operands.begin(), operands.end());
    while (!open.empty()) {
      const Term t = open.back();
      open.pop_back();
      if (!is_input(t)) {
        open.insert(open.end(), &operands_[of(t).first], &operands_[of(t).first] + of(t).count);
        continue;
      }
      const size_t from = static_cast<size_t>(rank(t));
      if (seen_[from]) return fmt::format("rank {} is counted twice", from);
      seen_[from] = true;
      ++found;
    }
    if (found == ranks_) return "";
    return fmt::format("rank {} is missing", std::find(seen_.begin(), seen_.end(), false) - seen_.begin());
  }

  /// One left fold over the inputs of ranks 0..n-1.
  bool rank_order(std::span<const Term> operands) const {
    if (operands.size() != static_cast<size_t>(ranks_)) return false;
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!is_input(operands[i]) || rank(operands[i]) != static_cast<int>(i)) return false;
    }
    return true;
  }

  std::string words(Term t) const {
    if (t == kUndefined) return "nothing";
    if (is_input(t)) return fmt::format("block {} of rank {}", block(t), rank(t));
    return fmt::format("a {} of block {}", final(t) ? "result" : "partial result that no Final Move has passed", block(t));
  }

 private:
  const Combination& of(Term t) const { return combinations_[t - 2 * inputs_ - 1]; }

  uint32_t blocks_;
  Term inputs_;
  int ranks_;
  std::vector<Combination> combinations_;
  std::vector<Term> operands_;
  std::vector<char> seen_;
};

class Content {
 public:
  Content(const Net& net, const Trace& trace, const Cells& cells, Faults& faults, bool& canonical)
      : net_(net),
        subject_(net.subject),
        trace_(trace),
        cells_(cells),
        faults_(faults),
        canonical_(canonical),
        reduces_(has_reduction(net.subject.spec.coll)),
        terms_(net.subject),
        memory_(cells.count(), kUndefined),
        values_(trace.values, kUndefined) {
    for (const Program& program : subject_.world) {
      for (uint32_t b = 0; b < subject_.blocks(); ++b) {
        if (has_input(subject_, program.rank, b)) memory_[cells.of(program.rank, Buf::input, b)] = terms_.user(program.rank, b);
      }
    }
  }

  void run() {
    for (const Event& event : trace_.events) {
      for (uint32_t i = 0; i < event.width; ++i) step(event, i);
      if (event.move->dst == Buf::none) continue;
      for (uint32_t i = 0; i < event.width; ++i)
        memory_[cell(event, event.move->dst, event.move->dst_block, i)] = values_[event.values + i];
    }
    for (const Program& program : subject_.world) {
      for (uint32_t b = 0; b < subject_.blocks(); ++b) {
        if (has_output(subject_, program.rank, b)) check_output(program.rank, b);
      }
    }
  }

 private:
  int rank(const Event& event) const { return net_.lanes[event.lane].rank; }
  size_t cell(const Event& event, Buf buf, uint32_t first, uint32_t i) const {
    return cells_.of(rank(event), buf, first + event.block + i);
  }

  /// acc of block i of the event.
  void step(const Event& event, uint32_t i) {
    const Move& m = *event.move;
    operands_.clear();
    for (uint32_t k = 0; k <= m.in_count; ++k) {
      if (m.src != Buf::none && k == m.src_at) operands_.push_back(local(event, i));
      if (k == m.in_count) break;
      operands_.push_back(values_[trace_.events[trace_.arrivals[event.arrivals + k]].values + i]);
    }
    for (Term t : operands_) {
      if (t == kUndefined) return;  // was reported where it arose
    }
    values_[event.values + i] = acc(event);
  }

  Term local(const Event& event, uint32_t i) {
    const Move& m = *event.move;
    const size_t at = cell(event, m.src, m.src_block, i);
    const Term t = memory_[at];
    if (t == kUndefined) {
      faults_.add(fmt::format("{} reads {}, which holds nothing yet", place(net_, event), cells_.name(at)));
    } else if (reduces_ && terms_.is_user(t) != (m.src == Buf::input)) {
      faults_.add(place(net_, event) +
                  (m.src == Buf::input ? " reads as input what a Move has written to " : " reads the user's data in ") +
                  cells_.name(at) + (m.src == Buf::input ? "" : " other than as input, so that it would not be scaled"));
    }
    return terms_.entered(t);
  }

  Term acc(const Event& event) {
    const bool final = event.move->flags & kMoveFinal;
    if (operands_.size() == 1 && !final) return operands_[0];
    if (!reduces_) {
      faults_.add(fmt::format("{} combines {} and {}, but nothing is reduced", place(net_, event), terms_.words(operands_[0]),
                              terms_.words(operands_[1])));
      return kUndefined;
    }
    for (Term t : operands_) {
      if (terms_.block(t) != terms_.block(operands_[0])) {
        faults_.add(fmt::format("{} combines {} with {}", place(net_, event), terms_.words(operands_[0]), terms_.words(t)));
        return kUndefined;
      }
      if (terms_.final(t)) {
        faults_.add(fmt::format("{} combines {} again", place(net_, event), terms_.words(t)));
        return kUndefined;
      }
    }
    if (final) check_final(event);
    return terms_.combine(operands_, final);
  }

  void check_final(const Event& event) {
    const std::string wrong = terms_.incomplete(operands_);
    if (!wrong.empty()) {
      faults_.add(fmt::format("{} is Final, but of block {} {}", place(net_, event), terms_.block(operands_[0]), wrong));
    }
    if (!terms_.rank_order(operands_)) canonical_ = false;
  }

  void check_output(int rank, uint32_t block) {
    const size_t at = cells_.of(rank, Buf::output, block);
    const Term t = memory_[at];
    if (reduces_) {
      if (t != kUndefined && terms_.final(t) && terms_.block(t) == block) return;
      faults_.add(fmt::format("{} ends with {} instead of the result of block {}", cells_.name(at), terms_.words(t), block));
      return;
    }
    const int from = subject_.spec.coll == Coll::broadcast || subject_.spec.coll == Coll::scatter ? subject_.spec.root
                                                                                                  : static_cast<int>(block);
    const uint32_t what = subject_.spec.coll == Coll::all_to_all ? static_cast<uint32_t>(rank) : block;
    const Term user = terms_.user(from, what);
    if (t == user || t == terms_.entered(user)) return;
    faults_.add(fmt::format("{} ends with {} instead of {}", cells_.name(at), terms_.words(t), terms_.words(user)));
  }

  const Net& net_;
  const Subject& subject_;
  const Trace& trace_;
  const Cells& cells_;
  Faults& faults_;
  bool& canonical_;
  bool reduces_;
  Terms terms_;
  std::vector<Term> memory_;
  std::vector<Term> values_;
  std::vector<Term> operands_;
};

}  // namespace

void check_content(const Net& net, const Trace& trace, const Cells& cells, Faults& faults, bool& canonical) {
  Content(net, trace, cells, faults, canonical).run();
}

}  // namespace ronde::plan
