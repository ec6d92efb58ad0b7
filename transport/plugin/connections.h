// A plugin as a Net: its devices and connections.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/net/net.h"
#include "transport/plugin/abi.h"

namespace ronde::net {

/// A plugin of a communicator that has been initialised.
class PluginNet final : public Net, public std::enable_shared_from_this<PluginNet> {
 public:
  /// A device and its number in the plugin.
  struct Known {
    Device device;
    int number = 0;
    size_t largest = 0;  ///< bytes of a message
  };
  /// `identity` names the plugin in texts; `plugin_wide`, held while a function runs that is not of one connection, outlives
  /// this.
  PluginNet(std::unique_ptr<NetAbi> abi, std::string name, std::string identity, std::mutex& plugin_wide,
            std::vector<Known> known);
  ~PluginNet() override;

  std::string_view name() const override { return name_; }
  std::span<const Device> devices() const override { return devices_; }
  Result<std::unique_ptr<Listener>> listen(int device) override;
  Result<std::unique_ptr<Sender>> connect(int device, const Handle& handle) override;

  NetAbi& abi() const { return *abi_; }
  const Known& known(int device) const { return known_.at(static_cast<size_t>(device)); }
  /// "device eth0 of Example (plugin of version 10)".
  std::string where(int device) const;
  /// Nothing for code 0, else what `function` has returned, in words.
  Result<> check(int code, const char* function, int device) const;
  /// The same for what cannot be helped: a line in the log.
  void note(int code, const char* function, int device) const;

 private:
  const std::unique_ptr<NetAbi> abi_;
  const std::string name_;
  const std::string identity_;
  std::mutex& plugin_wide_;
  const std::vector<Known> known_;
  std::vector<Device> devices_;
};

/// "code 2 (a call of the system or of another library has failed)".
std::string code_in_words(int code);

}  // namespace ronde::net
