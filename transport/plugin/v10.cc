// Version 10 of the net interface: a traffic class for each connection, and a profiler that is told of requests.
#include "transport/plugin/adapter.h"
#include "transport/plugin/profile.h"

namespace ronde::net {
namespace {

struct NetV10 {
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
    int part[4];
    size_t largest_message;
    size_t largest_collective;
  };
  struct Config {
    int traffic_class;
  };

  const char* name;
  int (*init)(PluginLog log, PluginProfile profile);
  int (*devices)(int* count);
  int (*properties)(int device, Properties* out);
  int (*listen)(int device, void* handle, void** comm);
  int (*connect)(int device, Config* config, void* handle, void** comm, void** device_handle);
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
};

class AdapterV10 final : public NetAdapter<NetV10> {
 public:
  using NetAdapter::NetAdapter;
  int init(PluginLog log) override { return plugin_.init(log, no_profile); }
  int listen(int device, void* handle, void** comm) override { return plugin_.listen(device, handle, comm); }
  int connect(int device, void* handle, void** comm) override {
    NetV10::Config config{comm_.traffic_class};
    void* unused = nullptr;
    return plugin_.connect(device, &config, handle, comm, &unused);
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
};

}  // namespace

std::unique_ptr<NetAbi> adapt_net_v10(const void* symbol, const PluginComm& comm) {
  return std::make_unique<AdapterV10>(symbol, comm);
}

}  // namespace ronde::net
