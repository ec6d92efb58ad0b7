// Trees of lines for a terminal or a file.
#pragma once

#include <string>
#include <vector>

namespace ronde::topo::tool {

/// How text is shown.
struct Look {
  bool colour = false;   ///< with the escapes of ANSI terminals
  bool unicode = false;  ///< tree lines of UTF-8; else of ASCII
  int width = 0;         ///< columns after which lines are broken between words; 0: never
};

enum class Tone : char { plain, title, device, net, quiet, warning };

/// A piece of a line; lines are broken between pieces first.
struct Piece {
  std::string text;
  Tone tone = Tone::plain;
};

/// `text` with the escapes of its tone.
std::string toned(const std::string& text, Tone tone, const Look& look);

class Outline {
 public:
  /// Below the last line of depth - 1; depth 0 starts at the margin.
  void add(int depth, std::vector<Piece> pieces);
  std::string text(const Look& look) const;

 private:
  struct Line {
    int depth;
    std::vector<Piece> pieces;
  };
  bool has_later_sibling(size_t line, int depth) const;
  std::vector<Line> lines_;
};

}  // namespace ronde::topo::tool
