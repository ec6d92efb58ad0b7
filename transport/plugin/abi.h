// What the adapters of NCCL's net plugin interface have in common. Each version has a file of its own, which knows its structure.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/plugin.h"

namespace ronde::net {

/// A communicator, as plugins are told of it.
struct PluginComm {
  uint64_t id = 0;
  int traffic_class = -1;  ///< -1: none was asked for
};

/// What a plugin says of a device.
struct PluginDevice {
  const char* name = nullptr;
  const char* pci_path = nullptr;
  uint64_t guid = 0;
  int memory = 0;  ///< bits: kHostMemory and others
  int mbps = 0;
  int port = 0;
  int offload = 0;           ///< 0: none, the host moves the data
  size_t largest = INT_MAX;  ///< bytes of a message
};

inline constexpr int kHostMemory = 1;

/// One plugin, seen through its version's structure. All codes are ncclResult_t; nothing blocks. A connection (`comm`) or request
/// that comes back null after success is to be asked for again.
class NetAbi {
 public:
  virtual ~NetAbi() = default;
  virtual const char* name() const = 0;
  /// The first function that the structure lacks; nullptr: none.
  virtual const char* missing() const = 0;
  /// Whether each communicator has an init() and finish() of its own; otherwise init() is for the process, and finish() does
  /// nothing.
  virtual bool per_communicator() const { return false; }
  virtual int init(PluginLog log) = 0;
  virtual int finish() { return 0; }
  virtual int devices(int* count) = 0;
  virtual int properties(int device, PluginDevice* out) = 0;

  virtual int listen(int device, void* handle, void** comm) = 0;
  /// `handle` is written to, and must be the same memory whenever this is asked again.
  virtual int connect(int device, void* handle, void** comm) = 0;
  virtual int accept(void* listener, void** comm) = 0;
  virtual int register_memory(void* comm, void* data, size_t bytes, void** registration) = 0;
  virtual int deregister_memory(void* comm, void* registration) = 0;
  virtual int send(void* comm, void* data, size_t bytes, void* registration, void** request) = 0;
  virtual int receive(void* comm, void* data, size_t bytes, void* registration, void** request) = 0;
  /// Of a request that is done, which ends with it, also the bytes.
  virtual int test(void* request, int* done, int* bytes) = 0;
  virtual int close_send(void* comm) = 0;
  virtual int close_receive(void* comm) = 0;
  virtual int close_listen(void* comm) = 0;
};

/// `symbol` is the address of the exported structure, which outlives the adapter.
std::unique_ptr<NetAbi> adapt_net_v6(const void* symbol, const PluginComm& comm);
std::unique_ptr<NetAbi> adapt_net_v7(const void* symbol, const PluginComm& comm);
std::unique_ptr<NetAbi> adapt_net_v8(const void* symbol, const PluginComm& comm);
std::unique_ptr<NetAbi> adapt_net_v9(const void* symbol, const PluginComm& comm);
std::unique_ptr<NetAbi> adapt_net_v10(const void* symbol, const PluginComm& comm);
std::unique_ptr<NetAbi> adapt_net_v11(const void* symbol, const PluginComm& comm);
std::unique_ptr<NetAbi> adapt_net_v12(const void* symbol, const PluginComm& comm);

}  // namespace ronde::net
