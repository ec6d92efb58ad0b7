// Why a call runs as it does, in full: what was chosen, what else there was, what each would cost and why it was not taken.
#pragma once

#include <string>
#include <string_view>

#include "tune/choose.h"

namespace ronde {

/// One clause: why this alternative was not taken; of the chosen one, the choice's reason.
std::string why(const Alternative& one, const CallShape& call, const TuneRules& rules, const Evaluation& made);

/// A line for the call, one for the choice, and one for each alternative. Every line ends with a newline. `transport`: how the
/// ranks' data travels, where that is known.
std::string explain_text(const CallShape& call, const TuneRules& rules, const Evaluation& made, std::string_view transport = "");

/// The same as one JSON object without a newline: call, ranks, count, type, op and root (null where the call has none), bytes,
/// choice, alternatives. Where there is no estimate "microseconds" is null. The keys are described in docs/tuning.md.
std::string explain_json(const CallShape& call, const TuneRules& rules, const Evaluation& made, std::string_view transport = "");

}  // namespace ronde
