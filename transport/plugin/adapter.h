// The functions that no version of the net plugin interface has changed, by a structure that has them under these names. For the
// files of the versions alone.
#pragma once

#include "transport/plugin/abi.h"

namespace ronde::net {

inline constexpr int kTag = 0;  // one receiver for each sender, so messages need no names

/// `Plugin` is a version's structure, whose function properties fills a Plugin::Properties.
template <class Plugin>
class NetAdapter : public NetAbi {
 public:
  NetAdapter(const void* symbol, const PluginComm& comm) : plugin_(*static_cast<const Plugin*>(symbol)), comm_(comm) {}

  const char* name() const override { return plugin_.name; }
  const char* missing() const override {
    const struct {
      const char* name;
      bool there;
    } all[] = {{"init", plugin_.init != nullptr},
               {"devices", plugin_.devices != nullptr},
               {"getProperties", plugin_.properties != nullptr},
               {"listen", plugin_.listen != nullptr},
               {"connect", plugin_.connect != nullptr},
               {"accept", plugin_.accept != nullptr},
               {"regMr", plugin_.reg != nullptr},
               {"deregMr", plugin_.dereg != nullptr},
               {"isend", plugin_.send != nullptr},
               {"irecv", plugin_.receive != nullptr},
               {"test", plugin_.test != nullptr},
               {"closeSend", plugin_.close_send != nullptr},
               {"closeRecv", plugin_.close_receive != nullptr},
               {"closeListen", plugin_.close_listen != nullptr}};
    for (const auto& one : all) {
      if (!one.there) return one.name;
    }
    return nullptr;
  }
  int devices(int* count) override { return plugin_.devices(count); }
  int properties(int device, PluginDevice* out) override {
    // A plugin of a later release may believe in more members.
    struct {
      typename Plugin::Properties it{};
      char spare[256] = {};
    } told;
    const int code = plugin_.properties(device, &told.it);
    if (code != 0) return code;
    out->name = told.it.name;
    out->pci_path = told.it.pci_path;
    out->guid = told.it.guid;
    out->memory = told.it.memory;
    out->mbps = told.it.speed;
    out->port = told.it.port;
    if constexpr (requires { told.it.offload; }) out->offload = told.it.offload;
    if constexpr (requires { told.it.largest_message; }) out->largest = told.it.largest_message;
    return 0;
  }
  int deregister_memory(void* comm, void* registration) override { return plugin_.dereg(comm, registration); }
  int test(void* request, int* done, int* bytes) override { return plugin_.test(request, done, bytes); }
  int close_send(void* comm) override { return plugin_.close_send(comm); }
  int close_receive(void* comm) override { return plugin_.close_receive(comm); }
  int close_listen(void* comm) override { return plugin_.close_listen(comm); }

 protected:
  const Plugin& plugin_;
  const PluginComm comm_;
};

}  // namespace ronde::net
