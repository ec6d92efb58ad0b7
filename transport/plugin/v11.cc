// Versions 11 and 12 of the net interface: a context for each communicator, with the traffic class; from version 12 on devices
// have up to 8 parts and belong to rails.
#include "transport/plugin/adapter.h"
#include "transport/plugin/profile.h"

namespace ronde::net {
namespace {

template <int kParts>
struct NetV11 {
  struct Properties {
    char* name;
    char* pci_path;
    uint64_t guid;
    int memory;
    int registers_globally;
    int forces_flush;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_receives;
    int offload;
    int offload_version;
    int parts;
    int part[kParts];
    size_t largest_message;
    size_t largest_collective;
    int most_in_request;
  };
  struct Config {
    int traffic_class;
  };

  const char* name;
  int (*init)(void** context, uint64_t id, Config* config, PluginLog log, PluginProfile profile);
  int (*devices)(int* count);
  int (*properties)(int device, Properties* out);
  int (*listen)(void* context, int device, void* handle, void** comm);
  int (*connect)(void* context, int device, void* handle, void** comm, void** device_handle);
  int (*accept)(void* listener, void** comm, void** device_handle);
  int (*reg)(void* comm, void* data, size_t bytes, int kind, void** registration);
  int (*reg_dma_buffer)(void* comm, void* data, size_t bytes, int kind, uint64_t offset, int fd, void** registration);
  int (*dereg)(void* comm, void* registration);
  int (*send)(void* comm, void* data, size_t bytes, int tag, void* registration, void* profile, void** request);
  int (*receive)(void* comm, int n, void** data, size_t* bytes, int* tags, void** registrations, void** profiles, void** request);
  int (*flush)(void* comm, int n, void** data, int* bytes, void** registrations, void** request);
  int (*test)(void* request, int* done, int* bytes);
  int (*close_send)(void* comm);
  int (*close_receive)(void* comm);
  int (*close_listen)(void* comm);
  int (*device_registration)(void* comm, void* registration, void** out);
  int (*consumed)(void* comm, int n, void* request);
  int (*make_device)(int* device, void* parts);
  int (*finalize)(void* context);
  int (*set_attributes)(void* context, void* attributes);
};

template <int kParts>
class AdapterV11 final : public NetAdapter<NetV11<kParts>> {
 public:
  AdapterV11(const void* symbol, const PluginComm& comm)
      : NetAdapter<NetV11<kParts>>(symbol, comm), id_(comm.id), config_{comm.traffic_class} {}

  bool per_communicator() const override { return true; }
  const char* missing() const override {
    return plugin_.finalize == nullptr ? "finalize" : NetAdapter<NetV11<kParts>>::missing();
  }
  int init(PluginLog log) override { return plugin_.init(&context_, id_, &config_, log, no_profile); }
  int finish() override { return plugin_.finalize(context_); }
  int listen(int device, void* handle, void** comm) override { return plugin_.listen(context_, device, handle, comm); }
  int connect(int device, void* handle, void** comm) override {
    void* unused = nullptr;
    return plugin_.connect(context_, device, handle, comm, &unused);
  }
  int accept(void* listener, void** comm) override {
    void* unused = nullptr;
    return plugin_.accept(listener, comm, &unused);
  }
  int register_memory(void* comm, void* data, size_t bytes, void** registration) override {
    return plugin_.reg(comm, data, bytes, kHostMemory, registration);
  }
  int send(void* comm, void* data, size_t bytes, void* registration, void** request) override {
    return plugin_.send(comm, data, bytes, kTag, registration, nullptr, request);
  }
  int receive(void* comm, void* data, size_t bytes, void* registration, void** request) override {
    int tag = kTag;
    void* profile = nullptr;
    return plugin_.receive(comm, 1, &data, &bytes, &tag, &registration, &profile, request);
  }

 private:
  using NetAdapter<NetV11<kParts>>::plugin_;

  const uint64_t id_;
  typename NetV11<kParts>::Config config_;  // stays: a plugin may keep the address
  void* context_ = nullptr;
};

}  // namespace

std::unique_ptr<NetAbi> adapt_net_v11(const void* symbol, const PluginComm& comm) {
  return std::make_unique<AdapterV11<4>>(symbol, comm);
}
std::unique_ptr<NetAbi> adapt_net_v12(const void* symbol, const PluginComm& comm) {
  return std::make_unique<AdapterV11<8>>(symbol, comm);
}

}  // namespace ronde::net
