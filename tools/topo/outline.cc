#include "tools/topo/outline.h"

#include <algorithm>
#include <utility>

namespace ronde::topo::tool {
namespace {

constexpr size_t kLeast = 30;  ///< columns that text gets, however deep it is

const char* escape_of(Tone tone) {
  switch (tone) {
    case Tone::plain:
      return "";
    case Tone::title:
      return "\x1b[1m";
    case Tone::device:
      return "\x1b[32m";
    case Tone::net:
      return "\x1b[36m";
    case Tone::quiet:
      return "\x1b[2m";
    case Tone::warning:
      return "\x1b[33m";
  }
  return "";
}

/// Columns of UTF-8 text.
size_t columns(const std::string& text) {
  size_t count = 0;
  for (const unsigned char c : text) count += (c & 0xc0) != 0x80;
  return count;
}

/// The words of pieces, each with the tone of its piece; a piece's first word comes after two blanks.
struct Word {
  std::string text;
  Tone tone;
  size_t gap;
};

std::vector<Word> words_of(const std::vector<Piece>& pieces) {
  std::vector<Word> words;
  for (const Piece& piece : pieces) {
    size_t gap = words.empty() ? 0 : 2;
    for (size_t at = 0; at < piece.text.size();) {
      const size_t end = std::min(piece.text.find(' ', at), piece.text.size());
      words.push_back({piece.text.substr(at, end - at), piece.tone, gap});
      gap = 1;
      at = end + 1;
    }
  }
  return words;
}

/// The words of a line, those of one tone together.
class Run {
 public:
  Run(const Look& look, size_t at, size_t room, const std::string& indent) : look_(look), at_(at), room_(room), indent_(indent) {}

  void add(const Word& word) {
    const size_t gap = fresh_ ? 0 : word.gap;
    if (room_ > 0 && !fresh_ && at_ + gap + columns(word.text) > room_) {
      flush();
      text_.append("\n").append(toned(indent_, Tone::quiet, look_));
      at_ = columns(indent_) + columns(word.text);
      run_ = word.text;
    } else {
      if (word.tone != tone_) {
        flush();
        text_ += std::string(gap, ' ');
      } else {
        run_ += std::string(gap, ' ');
      }
      run_ += word.text;
      at_ += gap + columns(word.text);
    }
    tone_ = word.tone;
    fresh_ = false;
  }

  std::string take() {
    flush();
    return std::move(text_);
  }

 private:
  void flush() {
    text_ += toned(run_, tone_, look_);
    run_.clear();
  }

  const Look& look_;
  size_t at_;
  size_t room_;
  const std::string& indent_;
  std::string text_;
  std::string run_;  ///< of tone_, not yet in text_
  Tone tone_ = Tone::plain;
  bool fresh_ = true;
};

}  // namespace

std::string toned(const std::string& text, Tone tone, const Look& look) {
  if (!look.colour || tone == Tone::plain || text.empty()) return text;
  return escape_of(tone) + text + "\x1b[0m";
}

void Outline::add(int depth, std::vector<Piece> pieces) { lines_.push_back({depth, std::move(pieces)}); }

bool Outline::has_later_sibling(size_t line, int depth) const {
  for (size_t i = line + 1; i < lines_.size() && lines_[i].depth >= depth; ++i) {
    if (lines_[i].depth == depth) return true;
  }
  return false;
}

std::string Outline::text(const Look& look) const {
  const std::string bar = look.unicode ? "│  " : "|  ";
  const std::string fork = look.unicode ? "├─ " : "|- ";
  const std::string last = look.unicode ? "└─ " : "`- ";
  std::string text;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    std::string first;
    std::string next;
    for (int depth = 1; depth <= line.depth; ++depth) {
      const bool goes_on = has_later_sibling(i, depth);
      first += depth < line.depth ? (goes_on ? bar : "   ") : (goes_on ? fork : last);
      next += goes_on ? bar : "   ";
    }
    next += i + 1 < lines_.size() && lines_[i + 1].depth > line.depth ? bar + "  " : "     ";
    const size_t least = columns(next) + kLeast;
    const size_t room = look.width > 0 ? std::max(static_cast<size_t>(look.width), least) : 0;
    text += toned(first, Tone::quiet, look);
    Run run(look, columns(first), room, next);
    for (const Word& word : words_of(line.pieces)) run.add(word);
    text += run.take();
    text += "\n";
  }
  return text;
}

}  // namespace ronde::topo::tool
