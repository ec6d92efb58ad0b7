#include "tools/plan/steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <map>
#include <tuple>

namespace ronde::plan::tool {
namespace {

/// Lets all lanes do a Move each, as long as one can.
class Walk {
 public:
  explicit Walk(std::span<const Program> world) {
    for (const Program& program : world) {
      for (size_t lane = 0; lane < program.lanes.size(); ++lane) next_.push_back({&program, lane, 0, 0});
    }
  }

  Course run() {
    while (step()) ++course_.steps;
    course_.ends =
        std::all_of(next_.begin(), next_.end(), [](const DoneMove& it) { return it.place == it.program->lanes[it.lane].size(); });
    return std::move(course_);
  }

 private:
  using Key = std::tuple<int, int, uint32_t>;  // from, to, link

  bool ready(const DoneMove& it) {
    if (it.place == it.program->lanes[it.lane].size()) return false;
    const Move& move = it.move();
    for (uint32_t i = move.in_first; i < move.in_first + move.in_count; ++i) {
      if (waiting_[{it.peer(i).rank, it.program->rank, it.peer(i).link}].empty()) return false;
    }
    return true;
  }

  bool step() {
    std::vector<std::pair<Key, size_t>> sent;
    bool moved = false;
    for (DoneMove& it : next_) {
      if (!ready(it)) continue;
      const Move& move = it.move();
      const int rank = it.program->rank;
      const size_t place = course_.moves.size();
      for (uint32_t i = move.in_first; i < move.in_first + move.in_count; ++i) {
        auto& queue = waiting_[{it.peer(i).rank, rank, it.peer(i).link}];
        course_.messages.push_back({queue.front(), place});
        queue.pop_front();
      }
      for (uint32_t i = move.out_first; i < move.out_first + move.out_count; ++i)
        sent.emplace_back(Key{rank, it.peer(i).rank, it.peer(i).link}, place);
      it.step = course_.steps;
      course_.moves.push_back(it);
      ++it.place;
      moved = true;
    }
    for (const auto& [key, place] : sent) waiting_[key].push_back(place);
    return moved;
  }

  std::vector<DoneMove> next_;  ///< of each lane
  std::map<Key, std::deque<size_t>> waiting_;
  Course course_;
};

std::string words(const DoneMove& it) {
  const Move& move = it.move();
  const auto list = [&](char mark, uint32_t first, uint32_t count) {
    std::string text;
    for (uint32_t i = first; i < first + count; ++i) text += fmt::format("{}{}", text.empty() ? "" : ",", it.peer(i).rank);
    return text.empty() ? "" : mark + text;
  };
  return list('<', move.in_first, move.in_count) + (move.src != Buf::none && move.in_count > 0 ? "+" : "") +
         (move.dst != Buf::none ? "=" : "") + ((move.flags & kMoveFinal) != 0 ? "!" : "") +
         list('>', move.out_first, move.out_count);
}

}  // namespace

Course course_of(std::span<const Program> world) { return Walk(world).run(); }

std::string to_text(std::span<const Program> world, const Course& course) {
  std::vector<size_t> widths(course.steps, 1);
  std::map<std::tuple<const Program*, size_t, size_t>, std::string> cells;
  for (const DoneMove& it : course.moves) {
    std::string& cell = cells[{it.program, it.lane, it.step}] = words(it);
    widths[it.step] = std::max(widths[it.step], cell.size());
  }
  std::string text;
  for (const Program& program : world) {
    for (size_t lane = 0; lane < program.lanes.size(); ++lane) {
      std::string line = fmt::format("rank {:<3} lane {:<2}", program.rank, lane);
      for (size_t step = 0; step < course.steps; ++step) {
        const auto at = cells.find({&program, lane, step});
        line += fmt::format("  {:<{}}", at == cells.end() ? "." : at->second, widths[step]);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
  }
  return text;
}

}  // namespace ronde::plan::tool
