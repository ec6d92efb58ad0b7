#include "tune/plugin.h"

#include <dlfcn.h>
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstring>
#include <iterator>

#include <fmt/core.h>

#include "base/integers.h"
#include "base/log.h"
#include "base/words.h"

namespace ronde {
namespace {

constexpr int kMostAsked = 64;  // channels that NCCL's interface can name at all

struct Version {
  int number;
  const char* symbol;
  std::unique_ptr<TunerAbi> (*adapt)(const void*);
};
constexpr Version kVersions[] = {{5, "ncclTunerPlugin_v5", adapt_tuner_v5},
                                 {4, "ncclTunerPlugin_v4", adapt_tuner_v4},
                                 {3, "ncclTunerPlugin_v3", adapt_tuner_v3}};
constexpr const char* kOtherSymbols[] = {"ncclTunerPlugin_v7", "ncclTunerPlugin_v6", "ncclTunerPlugin_v2", "ncclTunerPlugin_v1"};

constexpr std::string_view kAlgorithmNames[kTunerAlgorithms] = {"Tree",     "Ring", "CollNetDirect", "CollNetChain", "NVLS",
                                                                "NVLSTree", "PAT"};
constexpr std::string_view kProtocolNames[kTunerProtocols] = {"LL", "LL128", "Simple"};

/// NCCL's number of a collective; -1 for those that it builds from messages.
int function_of(Coll coll) {
  switch (coll) {
    case Coll::broadcast:
      return 0;
    case Coll::reduce:
      return 1;
    case Coll::all_gather:
      return 2;
    case Coll::reduce_scatter:
      return 3;
    case Coll::all_reduce:
      return 4;
    default:
      return -1;
  }
}

/// Of the larger of a rank's two buffers, as NCCL counts.
size_t largest_buffer(const CallShape& call) {
  return times(bytes_of(call), counts_per_rank(call.spec.coll) ? static_cast<uint64_t>(call.spec.ranks) : 1);
}

void tuner_log(int level, unsigned long subsystems, const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log_for_plugin("tuner", level, subsystems, file, line, format, arguments);
  va_end(arguments);
}

bool has_tuner(void* library) {
  return std::any_of(std::begin(kVersions), std::end(kVersions), [&](const Version& one) { return dlsym(library, one.symbol) != nullptr; });
}

/// The first library of the network plugins that has a tuner of use.
std::shared_ptr<void> in_net_plugins(const Config& config, std::string* tried) {
  for (const std::string& word : plugin_words(config.text(Setting::net_plugin))) {
    std::shared_ptr<void> library = open_plugin(word, "net", tried);
    if (library != nullptr && has_tuner(library.get())) return library;
  }
  return nullptr;
}

/// Of the versions that the library has, those that are of no use here; "" for none.
std::string other_versions(void* library) {
  std::string text;
  for (const char* symbol : kOtherSymbols) {
    if (dlsym(library, symbol) != nullptr) text.append(text.empty() ? "" : ", ").append(symbol);
  }
  return text;
}

}  // namespace

int tuner_row(std::string_view algorithm) { return algorithm == "tree" ? 0 : algorithm == "ring" ? 1 : -1; }

float tuner_cost(const Alternative& one) { return one.written.value_or(static_cast<float>(one.nanos) / 1000.0f); }

Tuner::Tuner(std::unique_ptr<TunerAbi> abi, int version, std::shared_ptr<void> library)
    : library_(std::move(library)),
      abi_(std::move(abi)),
      identity_(fmt::format("{} (version {})", shown_name(abi_->name()), version)) {}

Tuner::~Tuner() {
  if (!started_) return;
  const int code = abi_->end();
  if (code != 0) complain(fmt::format("returned code {} when its context was ended", code));
}

std::unique_ptr<Tuner> Tuner::load(const Config& config) {
  const std::string& value = config.text(Setting::tuner_plugin);
  if (same_word(value, "none")) return nullptr;
  const std::string asked = fmt::format("{}={}", config.source(Setting::tuner_plugin), value);
  const auto refuse = [&](const std::string& why, const std::string& remedy) {
    // What nobody asked for is no trouble.
    if (!value.empty()) log_once(fmt::format("{}: {}; going on without a tuner plugin. {}", asked, why, remedy));
    if (value.empty()) RONDE_INFO(tuning, "no tuner plugin: {}", why);
    return nullptr;
  };
  std::string tried;
  std::shared_ptr<void> library = open_plugin(value, "tuner", &tried);
  if (library == nullptr && value.empty()) library = in_net_plugins(config, &tried);
  if (library == nullptr) {
    return refuse(
        fmt::format("no library can be loaded ({})", tried),
        "Give a path, or have its folder in LD_LIBRARY_PATH and its own libraries installed; \"none\" asks for no plugin");
  }
  for (const Version& version : kVersions) {
    const void* const symbol = dlsym(library.get(), version.symbol);
    if (symbol == nullptr) continue;
    std::unique_ptr<TunerAbi> abi = version.adapt(symbol);
    if (!abi->complete()) {
      return refuse(fmt::format("{} lacks functions", version.symbol),
                    "The interface needs all of init, getCollInfo and destroy (finalize in version 5)");
    }
    return std::make_unique<Tuner>(std::move(abi), version.number, std::move(library));
  }
  const std::string others = other_versions(library.get());
  return refuse(
      others.empty() ? "the library has none of ncclTunerPlugin_v5, _v4 and _v3" : fmt::format("the library has only {}", others),
      "Build the plugin for version 3, 4 or 5 of the tuner interface");
}

Result<> Tuner::start(const TunerComm& comm) {
  const int code = abi_->init(comm, tuner_log);
  started_ = code == 0;
  if (started_) return {};
  return fail(
      Code::invalid_usage,
      fmt::format("the tuner plugin {} failed to initialise: its init returned code {}; see what it logs with NCCL_DEBUG=INFO",
                  identity_, code));
}

void Tuner::complain(std::string_view what) const { log_once(fmt::format("the tuner plugin {} {}", identity_, what)); }

/// Whether the answer can be a cost table; what is written where there is nothing is only mentioned.
bool Tuner::sensible(const TunerTable& before, const TunerTable& after) const {
  for (int a = 0; a < kTunerAlgorithms; ++a) {
    for (int p = 0; p < kTunerProtocols; ++p) {
      const float cost = after.cost[a][p];
      if (memcmp(&cost, &before.cost[a][p], sizeof cost) == 0) continue;
      if (!std::isfinite(cost) || (cost < 0 && cost != kTunerIgnore)) {
        complain(
            fmt::format("gave {}/{} a cost of {}, which is none: its answer is ignored. Costs are microseconds from 0 on, or -1",
                        kAlgorithmNames[a], kProtocolNames[p], cost));
        return false;
      }
      if (before.cost[a][p] == kTunerIgnore) {
        complain(fmt::format("gave a cost to {}/{}, which cannot be had (its cost was -1): ignored", kAlgorithmNames[a],
                             kProtocolNames[p]));
      }
    }
  }
  return true;
}

int Tuner::advise(const CallShape& call, std::span<Alternative> all) const {
  const int function = function_of(call.spec.coll);
  if (function < 0 || call.spec.ranks < 2 || call.count == 0) return 0;
  TunerTable before;
  for (auto& row : before.cost) std::fill(std::begin(row), std::end(row), kTunerIgnore);
  for (const Alternative& one : all) {
    const int row = tuner_row(one.algorithm->name);
    if (row >= 0 && one.outcome == Outcome::slower) before.cost[row][kTunerSimple] = tuner_cost(one);
  }
  TunerTable after = before;
  int channels = 0;
  const int code = abi_->get(function, largest_buffer(call), &after, &channels);
  if (code != 0) {
    complain(fmt::format("returned code {} for {}: the model's choice stands", code, name_of(call.spec.coll)));
    return 0;
  }
  if (!sensible(before, after)) return 0;
  for (Alternative& one : all) {
    const int row = tuner_row(one.algorithm->name);
    if (row < 0 || one.outcome != Outcome::slower) continue;
    const float cost = after.cost[row][kTunerSimple];
    if (memcmp(&cost, &before.cost[row][kTunerSimple], sizeof cost) != 0) one.written = cost;
  }
  if (channels >= 0 && channels <= kMostAsked) return channels;
  complain(fmt::format("asked for {} channels: ignored. Numbers are 1 to {}, or 0 for none", channels, kMostAsked));
  return 0;
}

}  // namespace ronde
