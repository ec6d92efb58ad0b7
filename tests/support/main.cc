// The main of every suite: runs Catch2 and closes with "N passed, N failed, N skipped".
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/catch.h"

namespace {

struct Tally {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  bool skip_noted = false;
  std::string running;
  std::vector<std::string> failures;  ///< names
};
Tally& tally() {
  static Tally one;
  return one;
}

#if __has_include(<catch2/catch_session.hpp>)
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

struct Counter : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    tally().skip_noted = false;
    tally().running = info.name;
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    Tally& t = tally();
    if (stats.totals.testCases.failed > 0 || stats.totals.assertions.failed > 0) {
      ++t.failed;
      t.failures.push_back(t.running);
    } else if (t.skip_noted) {
      ++t.skipped;
    } else {
      ++t.passed;
    }
  }
};
CATCH_REGISTER_LISTENER(Counter)

}  // namespace

namespace ronde::test {
void note_skip(const std::string& reason) {
  tally().skip_noted = true;
  std::printf("skipped: %s: %s\n", tally().running.c_str(), reason.c_str());
}
}  // namespace ronde::test

int main(int argc, char** argv) {
  // Ranks are on CPUs also where there is a GPU, unless a suite has named a driver before.
  setenv("RONDE_CUDA_LIBRARY", "no GPU in this suite", 0);
  const int code = Catch::Session().run(argc, argv);
  const Tally& t = tally();
  for (const std::string& name : t.failures) std::printf("failed: %s\n", name.c_str());
  std::printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
  return code;
}
