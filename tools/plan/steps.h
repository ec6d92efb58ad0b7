// Programs as a course of steps: what each lane does when, if all lanes are equally fast and slots without number.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/program.h"

namespace ronde::plan::tool {

/// A Move that was done.
struct DoneMove {
  const Program* program;
  size_t lane;
  size_t place;  ///< in the lane
  size_t step;
  const Move& move() const { return program->lanes[lane][place]; }
  const Peer& peer(uint32_t i) const { return program->peers[i]; }
};

/// What one Move sent and another took: places in Course::moves.
struct Message {
  size_t from;
  size_t to;
  bool operator==(const Message&) const = default;
};

struct Course {
  std::vector<DoneMove> moves;  ///< by step, then rank, then lane
  std::vector<Message> messages;
  size_t steps = 0;
  bool ends = true;  ///< false where some Moves wait for ever
};
/// Of Programs of one channel whose indices are right. The Programs have to outlive what is returned.
Course course_of(std::span<const Program> world);

/// A line a lane: "<1" arrives from rank 1, "+" is combined with what lies here, "=" is kept, ">3" goes to rank 3, "!" is
/// complete.
std::string to_text(std::span<const Program> world, const Course& course);

}  // namespace ronde::plan::tool
