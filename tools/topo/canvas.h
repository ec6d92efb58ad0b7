// What drawings are made of.
#pragma once

#include <string>

namespace ronde::topo::tool {

/// How a line or curve looks.
struct Stroke {
  std::string colour = "#666";
  double width = 1.5;
  bool dashed = false;
  bool arrow = false;  ///< at the end
};

struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double centre() const { return x + width / 2; }
};

enum class Align : char { left, centre, right };

/// Collects the elements of an SVG; coordinates in pixels, y downwards. Grows with what is drawn.
class Canvas {
 public:
  void box(const Box& box, const std::string& fill, const std::string& stroke, const std::string& hint = "");
  void line(double x1, double y1, double x2, double y2, const Stroke& stroke);
  /// From one point of a row to another, `height` above (negative) or below it.
  void arc(double x1, double x2, double y, double height, const Stroke& stroke);
  void circle(double x, double y, double radius, const std::string& fill, const std::string& stroke);
  /// `y` is the baseline; of bold text `bold`.
  void text(double x, double y, const std::string& text, Align align = Align::centre, int size = 11, bool bold = false,
            const std::string& colour = "#222");
  /// Text on a white ground, to be read across lines.
  void label(double x, double y, const std::string& text, const std::string& colour = "#222");
  /// The whole file.
  std::string finish(const std::string& title) const;

 private:
  void reach(double x, double y);
  /// A head at (x, y), in the direction (dx, dy).
  void arrow(double x, double y, double dx, double dy, const std::string& colour);
  std::string body_;
  double width_ = 0;
  double height_ = 0;
};

/// Pixels that text takes, about.
double text_width(const std::string& text, int size = 11);

}  // namespace ronde::topo::tool
