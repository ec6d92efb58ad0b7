// The choice: algorithm, protocol, channels and slice size of a call. Integers only, the same answer on every rank.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "base/types.h"
#include "plan/algorithm.h"
#include "plan/costs.h"

namespace ronde {

class Tuner;

/// What joins the ranks besides their own cores: MB/s of data, by all channels together.
struct LinkRates {
  int64_t inside = 0;              ///< past each rank, over links within its node; 0: CPU ranks, whose cores move the data
  HopKind kind = HopKind::nvlink;  ///< of those links
  int64_t network = 0;             ///< out of each node, and as much into it; 0: one node, or nothing is known
  bool by_cpu = true;              ///< CPU ranks' cores move what the network carries (sockets); false: its adapters do
  int channels = 1;                ///< that this takes
  int devices = 1;                 ///< of the network, of the host with the fewest: connections of different channels take turns over them
};

/// What the choice depends on besides the call; equal on all ranks of a communicator (exchanged and hashed at init).
struct TuneInputs {
  int ranks = 1;
  int ranks_per_core = 1;  ///< ranks on the busiest machine / its cores, rounded up
  bool lends = true;       ///< every pair of ranks can lend
  bool one_process = true;
  uint32_t slots = 4;
  uint32_t slot_capacity = 65536;
  size_t lend_threshold = 16384;
  NodeShape nodes;
  LinkRates links;
  const Costs* costs = nullptr;  ///< the constants of the model; nullptr: built_in_costs()
};

/// What NCCL_ALGO or NCCL_PROTO says about one collective.
struct WordList {
  bool given = false;  ///< false: everything is admitted
  bool named =
      false;  ///< the entry names the collective (or it is one of NCCL's five, to which an entry without a name is meant)
  bool inverted = false;           ///< everything except `words`
  std::vector<std::string> words;  ///< lower case
  std::string text;                ///< as the user wrote it, for warnings
  bool admits(std::string_view word) const;
};

/// More would cost table space in every rank, and bring nothing.
inline constexpr int kMostChannels = 16;

/// A number of channels that the program asked for at init (ncclConfig_t's minCTAs and maxCTAs); 0: none.
struct AskedChannels {
  int least = 0;
  int most = 0;
};

/// NCCL_ALGO and NCCL_PROTO after parsing, with the settings that go with them.
class TuneRules {
 public:
  /// Parses the settings algo, proto, strict, deterministic, slice, and those of channels: what is asked holds where neither the
  /// NCHANNELS nor the CTAS setting of that end is set; of two that are, the narrower. An unknown word is invalid_usage naming
  /// the word, its position and the words that would do.
  static Result<TuneRules> parse(const Config& config, AskedChannels asked = {});
  /// Whether `algorithm` may be chosen for `coll` by NCCL_ALGO (not: by determinism).
  bool admits(Coll coll, std::string_view algorithm) const { return algo(coll).admits(algorithm); }
  /// The same for NCCL_PROTO and a protocol's name.
  bool admits_protocol(Coll coll, std::string_view protocol) const { return proto(coll).admits(protocol); }
  const WordList& algo(Coll coll) const { return algo_[static_cast<size_t>(coll)]; }
  const WordList& proto(Coll coll) const { return proto_[static_cast<size_t>(coll)]; }
  /// The names under which the user set them (NCCL_ALGO or RONDE_ALGO, ...), for messages.
  const std::string& algo_variable() const { return algo_variable_; }
  const std::string& proto_variable() const { return proto_variable_; }
  bool strict() const { return strict_; }
  bool deterministic() const { return deterministic_; }
  /// From 1 to max_channels(), which is from 1 to kMostChannels.
  int min_channels() const { return min_channels_; }
  int max_channels() const { return max_channels_; }
  size_t slice() const { return slice_; }
  /// Everything that must be equal on all ranks, as text and for hashing. Ways of writing the same rules (case, RONDE_ or NCCL_)
  /// give one text.
  std::string text() const;

 private:
  std::array<WordList, kColls> algo_;
  std::array<WordList, kColls> proto_;
  std::string algo_variable_;
  std::string proto_variable_;
  bool strict_ = false;
  bool deterministic_ = false;
  int min_channels_ = 1;
  int max_channels_ = kMostChannels;
  size_t slice_ = 0;
};

/// What will be done for one call.
struct Choice {
  const Algorithm* algorithm = nullptr;
  int channels = 1;
  size_t slice = 0;  ///< bytes of one slot's data, a multiple of 64 unless the whole block is smaller; at most the slot capacity
  bool merged = false;  ///< adjacent blocks of a Move travel in one slot (they fit: see Move)
  uint64_t nanos = 0;   ///< the model's estimate
  std::string_view protocol = "Simple";
  std::string reason;
};

/// One call, as the choice sees it.
struct CallShape {
  CollSpec spec;
  size_t count = 0;  ///< as the API's argument, see counts_per_rank()
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
};

/// What the count amounts to; SIZE_MAX where that is too much to be counted.
size_t bytes_of(const CallShape& call);

/// What became of an algorithm when a call's was chosen.
enum class Outcome : uint8_t {
  chosen,
  slower,         ///< could have been taken
  unsupported,    ///< does not exist for the collective
  not_admitted,   ///< NCCL_ALGO does not name it
  not_canonical,  ///< the call needs canonical order
  ruled_out,      ///< by the tuner plugin
};

/// One algorithm of the registry, with the best way to run the call by it.
struct Alternative {
  const Algorithm* algorithm = nullptr;
  Outcome outcome = Outcome::slower;
  int channels = 1;
  size_t slice = 0;
  bool merged = false;
  uint64_t nanos = UINT64_MAX;        ///< the model's estimate; UINT64_MAX: none (unsupported, or unknown to the model)
  std::optional<float> written = {};  ///< what the tuner plugin wrote into its table: microseconds, or below 0 to rule it out
};

/// A choice with what it was made from.
struct Evaluation {
  Choice choice;
  std::vector<Alternative> alternatives;  ///< every algorithm, in the registry's order
};

/// What makes a canonical order necessary for the call, as the subject of a sentence; "" where nothing does.
std::string_view canonical_reason(const CallShape& call, const TuneRules& rules);

/// Chooses by the cost model among what exists, what the rules admit and what the call needs: integer averages and
/// RONDE_DETERMINISTIC need a canonical algorithm. A forced algorithm that does not exist for the collective or is not canonical
/// where that is needed: the best other one with one warning (log_once), or invalid_usage naming both when strict. Deterministic:
/// depends on its arguments alone, and on the answers of `tuner` where there is one (tune/plugin.h).
Result<Evaluation> evaluate(const CallShape& call, const TuneRules& rules, const TuneInputs& inputs,
                            const Tuner* tuner = nullptr);
/// The choice of evaluate().
Result<Choice> choose(const CallShape& call, const TuneRules& rules, const TuneInputs& inputs, const Tuner* tuner = nullptr);

}  // namespace ronde
