// A tuner plugin: a library of the user that sees the model's costs of each call and changes them. NCCL's interface, versions 3
// to 5.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tune/choose.h"
#include "tune/plugin_abi.h"

namespace ronde {

/// The row of an algorithm in the plugins' cost table; -1 where NCCL has none for it.
int tuner_row(std::string_view algorithm);
/// An alternative's cost as the table has it: what the plugin wrote, else the model's estimate; microseconds.
float tuner_cost(const Alternative& one);

/// One communicator's context in a plugin. One thread at a time, as the communicator itself: the plugin is called by the thread
/// that makes the call.
class Tuner {
 public:
  /// What RONDE_TUNER_PLUGIN asks for, not yet started; where it asks for nothing, libnccl-tuner.so, else the first library of
  /// NCCL_NET_PLUGIN that has a tuner. nullptr where there is none, and, after a warning that says why, where what was asked for
  /// cannot be used.
  static std::unique_ptr<Tuner> load(const Config& config);
  /// Around a structure of any version that outlives it. For load(), and for tests.
  explicit Tuner(std::unique_ptr<TunerAbi> abi, int version, std::shared_ptr<void> library = nullptr);
  /// Ends the plugin's context, then closes the library.
  ~Tuner();
  Tuner(const Tuner&) = delete;

  /// `name (version 4)`, printable.
  const std::string& identity() const { return identity_; }
  /// Makes the plugin's context. invalid_usage with the plugin's code where it refuses.
  Result<> start(const TunerComm& comm);
  /// Asks about one call: fills `written` of those of `all` that may be chosen (outcome `slower`) and that the plugin gave
  /// another cost. Returns the number of channels it wants, 0 for none. An answer that makes no sense is warned of, once, and
  /// counts as none.
  int advise(const CallShape& call, std::span<Alternative> all) const;

 private:
  bool sensible(const TunerTable& before, const TunerTable& after) const;
  void complain(std::string_view what) const;

  std::shared_ptr<void> library_;  // the adapter's structure lies in it
  std::unique_ptr<TunerAbi> abi_;
  std::string identity_;
  bool started_ = false;
};

}  // namespace ronde
