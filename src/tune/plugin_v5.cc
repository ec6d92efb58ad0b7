// Version 5 of the tuner interface: init is told more and takes the context first; destroy is called finalize.
#include "tune/plugin_abi.h"

namespace ronde {
namespace {

/// Groups of ranks that reach each other without a network: here, nodes.
struct DomainsV5 {
  int count;
  int least_ranks;
  int most_ranks;
};

struct TunerV5 {
  const char* name;
  int (*init)(void** context, uint64_t comm_id, size_t ranks, size_t nodes, PluginLog log, DomainsV5* domains, void* constants);
  int (*get)(void* context, int function, size_t bytes, int pipe_ops, float** table, int algorithms, int protocols,
             int registered, int* channels);
  int (*finalize)(void* context);
};

class AdapterV5 final : public TunerAbi {
 public:
  explicit AdapterV5(const TunerV5& plugin) : plugin_(plugin) {}
  const char* name() const override { return plugin_.name; }
  bool complete() const override { return plugin_.init != nullptr && plugin_.get != nullptr && plugin_.finalize != nullptr; }
  int init(const TunerComm& comm, PluginLog log) override {
    domains_ = {static_cast<int>(comm.nodes), comm.least_ranks, comm.most_ranks};
    return plugin_.init(&context_, comm.id, comm.ranks, comm.nodes, log, &domains_, constants_);
  }
  int get(int function, size_t bytes, TunerTable* table, int* channels) override {
    return plugin_.get(context_, function, bytes, 1, reinterpret_cast<float**>(table->cost), kTunerAlgorithms, kTunerProtocols, 0,
                       channels);
  }
  int end() override { return plugin_.finalize(context_); }

 private:
  const TunerV5& plugin_;
  void* context_ = nullptr;
  DomainsV5 domains_{};
  // NCCL's constants of GPU links, which plugins may read and overwrite: zeros, more of them than the interface has, and what is
  // written is not used. The model here has other constants.
  double constants_[512] = {};
};

}  // namespace

std::unique_ptr<TunerAbi> adapt_tuner_v5(const void* symbol) {
  return std::make_unique<AdapterV5>(*static_cast<const TunerV5*>(symbol));
}

}  // namespace ronde
