#include "tools/plan/drawing.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace ronde::plan::tool {
namespace {

using topo::tool::Align;
using topo::tool::Box;
using topo::tool::Canvas;
using topo::tool::Stroke;
using topo::tool::text_width;

constexpr int kMostRanks = 16;
constexpr size_t kMostSteps = 16;
constexpr size_t kMostChannels = 4;
constexpr double kLeft = 16;
constexpr double kNames = 72;  ///< room for the ranks' names
constexpr double kHigh = 30;   ///< of a box
constexpr double kPitch = 42;  ///< from one row of a rank to the next
constexpr double kApart = 14;  ///< of the rows of two ranks, more
constexpr double kGap = 58;    ///< between steps, where arrows go
constexpr int kSize = 9;       ///< of the letters in boxes
constexpr const char* kColours[] = {"#2471a3", "#c0392b", "#1e8449", "#7d3c98", "#b9770e", "#117a65", "#566573", "#a04000"};

const char* colour_of(size_t lane) { return kColours[lane % std::size(kColours)]; }

/// What a Move does, as the legend has it.
struct Kind {
  const char* fill;
  const char* meaning;
};
constexpr Kind kSends{"#e3eefa", "send"};
constexpr Kind kReduces{"#fdebd0", "reduce"};
constexpr Kind kCompletes{"#f5b97a", "reduce: complete"};
constexpr Kind kTakes{"#ddf3e4", "receive"};
constexpr Kind kCopies{"#eeeeee", "copy"};
constexpr Kind kKinds[] = {kSends, kReduces, kCompletes, kTakes, kCopies};

const Kind& kind_of(const Move& move) {
  if ((move.flags & kMoveFinal) != 0) return kCompletes;
  if (move.in_count + (move.src == Buf::none ? 0 : 1) > 1) return kReduces;
  if (move.in_count > 0) return kTakes;
  return move.out_count > 0 ? kSends : kCopies;
}

std::string words_of(const Move& move) {
  std::string text = move.in_count == 0 ? "" : move.in_count + (move.src == Buf::none ? 0 : 1) > 1 ? "reduce" : "receive";
  const auto add = [&text](const char* word) { text += (text.empty() ? "" : ", ") + std::string(word); };
  if (move.dst != Buf::none) add("keep");
  if (move.out_count > 0) add("send");
  return text;
}

std::string operand(Buf buffer, uint32_t block, uint32_t count) {
  const char* const name = buffer == Buf::input ? "input" : buffer == Buf::output ? "output" : "scratch";
  return count == 1 ? fmt::format("{} {}", name, block) : fmt::format("{} {}-{}", name, block, block + count - 1);
}

/// The local blocks of a Move: "input 3, output 3".
std::string blocks_of(const Move& move) {
  std::string text;
  if (move.src != Buf::none) text = operand(move.src, move.src_block, move.n_blocks);
  if (move.dst != Buf::none) text += (text.empty() ? "" : ", ") + operand(move.dst, move.dst_block, move.n_blocks);
  return text;
}

/// Where the Moves of one channel are drawn.
class Panel {
 public:
  Panel(const Course& course, int ranks, double top) : course_(course), ranks_(std::min(ranks, kMostRanks)), top_(top) {
    steps_ = std::min(course.steps, kMostSteps);
    for (const DoneMove& it : course.moves) {
      if (!drawn(it)) continue;
      wide_ = std::max({wide_, text_width(words_of(it.move()), kSize) + 12, text_width(blocks_of(it.move()), kSize) + 12});
      auto [at, is_new] = spans_.emplace(std::pair(it.program->rank, it.lane), Span{it.step, it.step, 0});
      at->second.last = it.step;
    }
    lay_rows();
  }

  void draw(Canvas& canvas, int nodes, int all_ranks) const {
    for (size_t step = 0; step < steps_; ++step)
      canvas.text(x(step) + wide_ / 2, top_, fmt::format("{}{}", step == 0 ? "step " : "", step), Align::centre, 10);
    for (int rank = 0; rank < ranks_; ++rank) draw_rank(canvas, rank, nodes, all_ranks);
    for (const Message& message : course_.messages) draw_message(canvas, message);
    for (const DoneMove& it : course_.moves) {
      if (drawn(it)) draw_move(canvas, it);
    }
  }

  double bottom() const { return bottom_; }

 private:
  struct Span {
    size_t first, last;
    int row;  ///< of its rank
  };

  bool drawn(const DoneMove& it) const { return it.program->rank < ranks_ && it.step < steps_; }
  double x(size_t step) const { return kLeft + kNames + static_cast<double>(step) * (wide_ + kGap); }
  Box box_of(const DoneMove& it) const {
    const int row = spans_.at({it.program->rank, it.lane}).row;
    return {x(it.step), tops_[static_cast<size_t>(it.program->rank)] + row * kPitch, wide_, kHigh};
  }

  /// Lanes of a rank share a row where one begins after the other has ended.
  void lay_rows() {
    std::map<int, std::vector<Span*>> lanes;
    for (auto& [key, span] : spans_) lanes[key.first].push_back(&span);
    double y = top_ + 10;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& spans = lanes[rank];
      std::stable_sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) { return a->first < b->first; });
      std::vector<size_t> ends;
      for (Span* span : spans) {
        const auto free = std::find_if(ends.begin(), ends.end(), [&](size_t end) { return end < span->first; });
        span->row = static_cast<int>(free - ends.begin());
        if (free == ends.end()) ends.push_back(0);
        ends[static_cast<size_t>(span->row)] = span->last;
      }
      tops_.push_back(y);
      y += kPitch * static_cast<double>(std::max<size_t>(ends.size(), 1)) + kApart;
    }
    tops_.push_back(y);
    bottom_ = y;
  }

  void draw_rank(Canvas& canvas, int rank, int nodes, int all_ranks) const {
    const double top = tops_[static_cast<size_t>(rank)] - 7;
    const double right = x(steps_ == 0 ? 0 : steps_ - 1) + wide_ + 10;
    const auto node_of = [&](int it) { return static_cast<int64_t>(it) * nodes / all_ranks; };
    const bool begins = nodes > 1 && (rank == 0 || node_of(rank) != node_of(rank - 1));
    canvas.line(kLeft, top, right, top, Stroke{begins ? "#333" : "#ccc", begins ? 1.6 : 0.8, false, false});
    if (begins) canvas.text(kLeft, top + 12, fmt::format("node {}", node_of(rank)), Align::left, 10);
    canvas.text(kLeft, top + 7 + kHigh / 2 + 8, fmt::format("rank {}", rank), Align::left, 12, true);
  }

  /// In the gap after its step to where it is taken; where it waits, along the row of its taker.
  void draw_message(Canvas& canvas, const Message& message) const {
    const DoneMove& from = course_.moves[message.from];
    const DoneMove& to = course_.moves[message.to];
    const std::string colour = colour_of(from.lane);
    if (!drawn(from) && !drawn(to)) return;
    if (!drawn(to)) return stub(canvas, from, to, colour);
    const Box b = box_of(to);
    const double y = b.y + kHigh / 2;
    if (!drawn(from)) {
      canvas.line(b.x - 18, y, b.x, y, Stroke{colour, 1.3, false, true});
      return canvas.text(b.x - 20, y + 3, fmt::format("{}", from.program->rank), Align::right, 8, false, colour);
    }
    const Box a = box_of(from);
    const double start = a.y + kHigh / 2;
    if (to.step == from.step + 1) {
      canvas.line(a.right(), start, b.x, y, Stroke{colour, 1.3, false, true});
      return;
    }
    const double below = b.bottom() + 5;
    const double turn = b.x - kGap / 3;
    canvas.line(a.right(), start, a.right() + kGap * 2 / 3, below, Stroke{colour, 1.3, false, false});
    canvas.line(a.right() + kGap * 2 / 3, below, turn, below, Stroke{colour, 1.3, true, false});
    canvas.line(turn, below, b.x, y, Stroke{colour, 1.3, false, true});
  }

  /// Towards what is not drawn.
  void stub(Canvas& canvas, const DoneMove& from, const DoneMove& to, const std::string& colour) const {
    const Box a = box_of(from);
    const double y = a.y + kHigh / 2;
    canvas.line(a.right(), y, a.right() + 18, y, Stroke{colour, 1.3, false, true});
    if (to.program->rank >= ranks_)
      canvas.text(a.right() + 20, y + 3, fmt::format("{}", to.program->rank), Align::left, 8, false, colour);
  }

  void draw_move(Canvas& canvas, const DoneMove& it) const {
    const Box box = box_of(it);
    canvas.box(box, kind_of(it.move()).fill, colour_of(it.lane),
               fmt::format("rank {}, lane {}, Move {}", it.program->rank, it.lane, it.place));
    const std::string blocks = blocks_of(it.move());
    canvas.text(box.centre(), box.y + (blocks.empty() ? 18 : 13), words_of(it.move()), Align::centre, kSize);
    if (!blocks.empty()) canvas.text(box.centre(), box.y + 24, blocks, Align::centre, kSize);
  }

  const Course& course_;
  int ranks_;
  size_t steps_ = 0;
  double top_;
  double bottom_ = 0;
  double wide_ = 50;
  std::map<std::pair<int, size_t>, Span> spans_;  ///< by rank and lane
  std::vector<double> tops_;                      ///< by rank
};

/// "the first 16 of 64 ranks and 16 of 127 steps are drawn", or "".
std::string cut_of(int ranks, size_t steps) {
  std::string text;
  if (ranks > kMostRanks) text = fmt::format("{} of {} ranks", kMostRanks, ranks);
  if (steps > kMostSteps) text += fmt::format("{}{} of {} steps", text.empty() ? "" : " and ", kMostSteps, steps);
  return text.empty() ? "" : fmt::format("the first {} are drawn", text);
}

}  // namespace

void Drawing::add(const std::string& title, int ranks, const Course& course) {
  if (title_.empty()) title_ = title;
  if (channels_++ >= kMostChannels) return;
  double y = bottom_ + (bottom_ == 0 ? 30 : 34);
  canvas_.text(kLeft, y, title, Align::left, 14, true);
  const std::string cut = cut_of(ranks, course.steps);
  if (!cut.empty()) canvas_.text(kLeft, y += 18, cut, Align::left, 11);
  const Panel panel(course, ranks, y + 24);
  panel.draw(canvas_, nodes_, ranks);
  bottom_ = panel.bottom();
  for (const DoneMove& it : course.moves) lanes_ = std::max(lanes_, it.lane + 1);
}

std::string Drawing::finish() {
  double y = bottom_ + 14;
  if (channels_ > kMostChannels) {
    canvas_.text(kLeft, y, fmt::format("and {} more channels", channels_ - kMostChannels), Align::left);
    y += 20;
  }
  double x = kLeft;
  for (const Kind& kind : kKinds) {
    canvas_.box({x, y - 9, 16, 11}, kind.fill, "#888");
    canvas_.text(x + 21, y, kind.meaning, Align::left, 10);
    x += 34 + text_width(kind.meaning, 10);
  }
  canvas_.line(x, y - 4, x + 26, y - 4, Stroke{"#444", 1.3, true, false});
  canvas_.text(x + 31, y, "what has arrived waits there", Align::left, 10);
  x = kLeft;
  y += 18;
  for (size_t lane = 0; lane < std::min(lanes_, std::size(kColours)); ++lane) {
    canvas_.line(x, y - 4, x + 20, y - 4, Stroke{colour_of(lane), 1.8, false, true});
    canvas_.text(x + 25, y, fmt::format("lane {}", lane), Align::left, 10);
    x += 74;
  }
  if (lanes_ > std::size(kColours)) canvas_.text(x, y, "and again in this order", Align::left, 10);
  return canvas_.finish(title_);
}

}  // namespace ronde::plan::tool
