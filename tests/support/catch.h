// Catch2, whichever major version is installed, and a visible skip.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <string>

namespace ronde::test {
/// Counts the running test case as skipped and prints why; use through RONDE_SKIP.
void note_skip(const std::string& reason);
/// True when `text` contains `part`; for REQUIRE with readable failures combine with INFO(text).
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace ronde::test

/// Ends the running test case: it is counted and reported as skipped, with the reason.
#define RONDE_SKIP(reason)              \
  do {                                  \
    ::ronde::test::note_skip(reason);   \
    SUCCEED("skipped");                 \
    return;                             \
  } while (0)
