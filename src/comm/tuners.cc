#include "comm/tuners.h"

#include <fmt/core.h>
#include <algorithm>

#include "base/hash.h"
#include "base/lists.h"
#include "base/log.h"
#include "base/words.h"
#include "comm/communicator.h"

namespace ronde {
namespace {

constexpr uint64_t kNone = 0;
constexpr uint64_t kMissing = 1;

/// The ranks whose word is, or is not, `word`.
std::vector<int> ranks_where(std::span<const uint64_t> words, uint64_t word, bool equal) {
  std::vector<int> ranks;
  for (size_t r = 0; r < words.size(); ++r) {
    if ((words[r] == word) == equal) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

}  // namespace

uint64_t tuner_word(const Tuner* tuner, const Config& config) {
  if (tuner != nullptr) return fnv1a(tuner->identity()) | 2;  // neither of the other two
  const std::string& value = config.text(Setting::tuner_plugin);
  return value.empty() || same_word(value, "none") ? kNone : kMissing;
}

/// A plugin decides on each rank for itself, so it may be used only where all ranks have it. `loaded`: the word of each rank.
/// With RONDE_STRICT=1 one that was wanted and is not used is an error, on all ranks; otherwise all go on without.
Result<> Communicator::agree_on_tuner(const TunerComm& comm, std::span<const uint64_t> loaded) {
  if (ranks_ == 1) return {};  // nothing to choose: none was loaded
  const auto without = [&](const std::string& why) -> Result<> {
    const std::string identity = tuner_ != nullptr ? tuner_->identity() : "";
    tuner_.reset();
    const std::string what = fmt::format("the tuner plugin{}{} is not used: {}", identity.empty() ? "" : " ", identity, why);
    if (rules_.strict()) return fail(Code::invalid_usage, what + ". RONDE_STRICT=1 makes this an error", Scope::communicator);
    if (rank_ == 0) RONDE_WARN("{}; set RONDE_TUNER_PLUGIN to the same on all ranks, or to \"none\"", what);
    return {};
  };
  const uint64_t first = loaded[0];
  const std::vector<int> unlike = ranks_where(loaded, first, false);
  if (!unlike.empty()) {
    return without(
        fmt::format("{} and {} have not loaded the same one", rank_list(ranks_where(loaded, first, true)), rank_list(unlike)));
  }
  if (first == kNone) return {};
  if (first == kMissing) return rules_.strict() ? without("no rank could load it") : Result<>{};  // each has warned already

  const Result<> started = tuner_->start(comm);
  if (!started.ok()) log_error(started.error());
  std::vector<uint64_t> codes(static_cast<size_t>(ranks_));
  codes[static_cast<size_t>(rank_)] = started.ok() ? 0 : 1;
  RONDE_TRY(bootstrap_->all_gather(std::as_writable_bytes(std::span(codes))));
  const std::vector<int> failed = ranks_where(codes, 0, false);
  if (!failed.empty()) return without(fmt::format("it failed to initialise on {}", rank_list(failed)));
  RONDE_INFO(tuning, "rank {} uses the tuner plugin {}", rank_, tuner_->identity());
  return {};
}

}  // namespace ronde
