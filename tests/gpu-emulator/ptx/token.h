// PTX text as a stream of tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace emu::ptx {

enum class Lexeme : uint8_t { word, integer, float32, float64, text, mark, end };

/// One token. A word begins with a letter or one of _ $ % . and goes on with digits, dots and ::, so an opcode with all its
/// modifiers is one word, as is a directive (".reg") or a register ("%r1").
struct Token {
  Lexeme kind = Lexeme::end;
  char mark = 0;          ///< kind mark: the character
  uint32_t line = 0;      ///< counted from 1
  std::string_view text;  ///< points into the PTX; without quotes
  uint64_t bits = 0;      ///< integer: its value; float32, float64: the bits of that format
};

/// All tokens of `text`; the last one's kind is end.
ronde::Result<std::vector<Token>> tokens_of(std::string_view text);

}  // namespace emu::ptx
