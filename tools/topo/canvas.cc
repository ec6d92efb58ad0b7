#include "tools/topo/canvas.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace ronde::topo::tool {
namespace {

constexpr double kMargin = 16;

/// What XML would take for more than text, and what it does not allow at all.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? '?' : c;
    }
  }
  return out;
}

/// A coordinate, to a tenth.
std::string at(double value) { return fmt::format("{:g}", std::round(value * 10) / 10); }

std::string stroke_text(const Stroke& stroke) {
  return fmt::format("stroke=\"{}\" stroke-width=\"{}\"{}", stroke.colour, at(stroke.width),
                     stroke.dashed ? " stroke-dasharray=\"4 3\"" : "");
}

}  // namespace

double text_width(const std::string& text, int size) { return static_cast<double>(text.size()) * size * 0.58; }

void Canvas::reach(double x, double y) {
  width_ = std::max(width_, x);
  height_ = std::max(height_, y);
}

void Canvas::box(const Box& box, const std::string& fill, const std::string& stroke, const std::string& hint) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"3\" fill=\"{}\" stroke=\"{}\"", at(box.x),
                       at(box.y), at(box.width), at(box.height), fill, stroke);
  body_ += hint.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escaped(hint));
  reach(box.right(), box.bottom());
}

void Canvas::line(double x1, double y1, double x2, double y2, const Stroke& stroke) {
  body_ += fmt::format("<path d=\"M{} {}L{} {}\" {}/>\n", at(x1), at(y1), at(x2), at(y2), stroke_text(stroke));
  reach(std::max(x1, x2), std::max(y1, y2));
  if (stroke.arrow) arrow(x2, y2, x2 - x1, y2 - y1, stroke.colour);
}

void Canvas::arc(double x1, double x2, double y, double height, const Stroke& stroke) {
  // A curve stays below three quarters of its control points' height.
  const double control = y + height * 4 / 3;
  const double lean = (x2 - x1) / 6;
  body_ += fmt::format("<path d=\"M{} {}C{} {} {} {} {} {}\" {}/>\n", at(x1), at(y), at(x1 + lean), at(control), at(x2 - lean),
                       at(control), at(x2), at(y), stroke_text(stroke));
  reach(std::max(x1, x2), std::max(y, y + height));
  if (stroke.arrow) arrow(x2, y, lean, y - control, stroke.colour);
}

void Canvas::arrow(double x, double y, double dx, double dy, const std::string& colour) {
  const double length = std::hypot(dx, dy);
  if (length == 0) return;
  const double back_x = x - 7 * dx / length;
  const double back_y = y - 7 * dy / length;
  const double side_x = -3 * dy / length;
  const double side_y = 3 * dx / length;
  body_ += fmt::format("<path d=\"M{} {}L{} {}L{} {}z\" fill=\"{}\"/>\n", at(x), at(y), at(back_x + side_x), at(back_y + side_y),
                       at(back_x - side_x), at(back_y - side_y), colour);
}

void Canvas::circle(double x, double y, double radius, const std::string& fill, const std::string& stroke) {
  body_ +=
      fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\" stroke=\"{}\"/>\n", at(x), at(y), at(radius), fill, stroke);
  reach(x + radius, y + radius);
}

void Canvas::text(double x, double y, const std::string& text, Align align, int size, bool bold, const std::string& colour) {
  const char* anchor = align == Align::left ? "start" : align == Align::centre ? "middle" : "end";
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\" font-size=\"{}\"{} fill=\"{}\">{}</text>\n", at(x), at(y),
                       anchor, size, bold ? " font-weight=\"bold\"" : "", colour, escaped(text));
  const double width = text_width(text, size);
  reach(align == Align::left ? x + width : align == Align::centre ? x + width / 2 : x, y);
}

void Canvas::label(double x, double y, const std::string& words, const std::string& colour) {
  const double width = text_width(words, 10) + 2;
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"11\" fill=\"#fff\"/>\n", at(x - width / 2), at(y - 9),
                       at(width));
  text(x, y, words, Align::centre, 10, false, colour);
}

std::string Canvas::finish(const std::string& title) const {
  const std::string width = at(std::ceil(width_ + kMargin));
  const std::string height = at(std::ceil(height_ + kMargin));
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
             "font-family=\"DejaVu Sans, Verdana, sans-serif\">\n<title>{2}</title>\n"
             "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n<g fill=\"none\">\n",
             width, height, escaped(title)) +
         body_ + "</g>\n</svg>\n";
}

}  // namespace ronde::topo::tool
