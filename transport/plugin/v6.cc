// Version 6 of the net interface: the oldest that NCCL itself still takes.
#include "transport/plugin/adapter.h"

namespace ronde::net {
namespace {

struct NetV6 {
  struct Properties {
    char* name;
    char* pci_path;
    uint64_t guid;
    int memory;
    int speed;
    int port;
    float latency;
    int max_comms;
    int max_receives;
  };

  const char* name;
  int (*init)(PluginLog log);
  int (*devices)(int* count);
  int (*properties)(int device, Properties* out);
  int (*listen)(int device, void* handle, void** comm);
  int (*connect)(int device, void* handle, void** comm);
  int (*accept)(void* listener, void** comm);
  int (*reg)(void* comm, void* data, int bytes, int kind, void** registration);
  int (*reg_dma_buffer)(void* comm, void* data, size_t bytes, int kind, uint64_t offset, int fd, void** registration);
  int (*dereg)(void* comm, void* registration);
  int (*send)(void* comm, void* data, int bytes, int tag, void* registration, void** request);
  int (*receive)(void* comm, int n, void** data, int* bytes, int* tags, void** registrations, void** request);
  int (*flush)(void* comm, int n, void** data, int* bytes, void** registrations, void** request);
  int (*test)(void* request, int* done, int* bytes);
  int (*close_send)(void* comm);
  int (*close_receive)(void* comm);
  int (*close_listen)(void* comm);
};

class AdapterV6 final : public NetAdapter<NetV6> {
 public:
  using NetAdapter::NetAdapter;
  int init(PluginLog log) override { return plugin_.init(log); }
  int listen(int device, void* handle, void** comm) override { return plugin_.listen(device, handle, comm); }
  int connect(int device, void* handle, void** comm) override { return plugin_.connect(device, handle, comm); }
  int accept(void* listener, void** comm) override { return plugin_.accept(listener, comm); }
  int register_memory(void* comm, void* data, size_t bytes, void** registration) override {
    return plugin_.reg(comm, data, static_cast<int>(bytes), kHostMemory, registration);
  }
  int send(void* comm, void* data, size_t bytes, void* registration, void** request) override {
    return plugin_.send(comm, data, static_cast<int>(bytes), kTag, registration, request);
  }
  int receive(void* comm, void* data, size_t bytes, void* registration, void** request) override {
    int tag = kTag;
    int room = static_cast<int>(bytes);
    return plugin_.receive(comm, 1, &data, &room, &tag, &registration, request);
  }
};

}  // namespace

std::unique_ptr<NetAbi> adapt_net_v6(const void* symbol, const PluginComm& comm) {
  return std::make_unique<AdapterV6>(symbol, comm);
}

}  // namespace ronde::net
