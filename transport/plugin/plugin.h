// Networks that are NCCL net plugins: libraries of the user that offer versions 6 to 12 of NCCL's interface.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "transport/net/net.h"
#include "transport/plugin/abi.h"

namespace ronde::net {

/// A plugin whose library is loaded: one for each structure of the process, which stays until the process ends, as threads of the
/// plugin may. Thread-safe.
class NetPlugin {
 public:
  /// What `value`, a word of RONDE_NET_PLUGIN, or empty for what is taken where nothing is asked for, leads to. nullptr: `*why`
  /// says what is wrong.
  static NetPlugin* find(const std::string& value, std::string* why);

  /// By which RONDE_NET picks it.
  const std::string& name() const { return name_; }
  /// "Example (plugin of version 10)", for texts.
  const std::string& identity() const { return identity_; }
  /// See Provider::open. The plugin is initialised by the first call.
  Result<std::shared_ptr<Net>> open(const PluginComm& comm, std::string* why);

 private:
  NetPlugin(std::shared_ptr<void> library, const void* symbol, size_t version);
  Result<> start(NetAbi& abi);

  const std::shared_ptr<void> library_;
  const void* const symbol_;
  const size_t version_;  // place in the table of versions
  std::string name_;
  std::string identity_;
  std::mutex mutex_;         // held while a function of the plugin runs that is not of one connection
  std::optional<int> init_;  // what init returned, where it is for the process
};

/// A word of RONDE_NET_PLUGIN and the plugin that it leads to.
struct PluginChoice {
  std::string word;  ///< "RONDE_NET_PLUGIN=ofi", or "libnccl-net.so" where nothing is asked for
  bool asked = false;
  NetPlugin* plugin = nullptr;  ///< nullptr: none, as `why` says
  std::string why;
};

/// What the settings ask for, in order; libnccl-net.so where they ask for nothing.
std::vector<PluginChoice> plugins_of(const Config& config);

}  // namespace ronde::net
