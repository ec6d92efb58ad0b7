// Programs as a drawing: ranks below each other, steps to the right, Moves as boxes, arrows for what travels.
#pragma once

#include <string>

#include "tools/plan/steps.h"
#include "tools/topo/canvas.h"

namespace ronde::plan::tool {

/// An SVG of channels, one below the other. Of large ones the first ranks and steps are drawn, and a line says how many there
/// are.
class Drawing {
 public:
  /// `nodes`: that hold the ranks, as many each as fit evenly; above 1 they are told apart.
  explicit Drawing(int nodes) : nodes_(nodes) {}
  void add(const std::string& title, int ranks, const Course& course);
  /// The whole file.
  std::string finish();

 private:
  topo::tool::Canvas canvas_;
  std::string title_;
  int nodes_;
  double bottom_ = 0;
  size_t channels_ = 0;  ///< added, drawn or not
  size_t lanes_ = 0;     ///< the most that a rank has
};

}  // namespace ronde::plan::tool
