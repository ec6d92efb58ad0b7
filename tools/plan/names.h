// What users call things, and what they could have called them.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/lists.h"
#include "base/result.h"
#include "base/types.h"
#include "base/words.h"
#include "plan/algorithm.h"

namespace ronde::plan::tool {

inline Error no_such(std::string_view kind, const std::string& word, const std::vector<std::string>& known) {
  return fail(Code::invalid_argument, fmt::format("\"{}\" is no {}; known are {}", word, kind, comma_list(known)));
}

/// The value, of `n` that count from 0, whose name is `word`, whatever its case; the error lists all.
template <class Value>
Result<Value> named(std::string_view kind, const std::string& word, int n) {
  std::vector<std::string> known;
  for (int i = 0; i < n; ++i) {
    known.emplace_back(name_of(static_cast<Value>(i)));
    if (same_word(known.back(), word)) return static_cast<Value>(i);
  }
  return no_such(kind, word, known);
}

inline Result<Coll> collective_named(const std::string& word) {
  return named<Coll>("collective", word, static_cast<int>(Coll::send));
}

/// Never nullptr.
inline Result<const Algorithm*> algorithm_named(const std::string& word) {
  if (const Algorithm* found = find_algorithm(word)) return found;
  std::vector<std::string> known;
  for (const Algorithm& one : algorithms()) known.emplace_back(one.name);
  return no_such("algorithm", word, known);
}

}  // namespace ronde::plan::tool
