// Version 3 of the tuner interface: the first with a cost table.
#include "tune/plugin_abi.h"

namespace ronde {
namespace {

struct TunerV3 {
  const char* name;
  int (*init)(size_t ranks, size_t nodes, PluginLog log, void** context);
  int (*get)(void* context, int function, size_t bytes, int pipe_ops, float** table, int algorithms, int protocols,
             int* channels);
  int (*destroy)(void* context);
};

class AdapterV3 final : public TunerAbi {
 public:
  explicit AdapterV3(const TunerV3& plugin) : plugin_(plugin) {}
  const char* name() const override { return plugin_.name; }
  bool complete() const override { return plugin_.init != nullptr && plugin_.get != nullptr && plugin_.destroy != nullptr; }
  int init(const TunerComm& comm, PluginLog log) override { return plugin_.init(comm.ranks, comm.nodes, log, &context_); }
  int get(int function, size_t bytes, TunerTable* table, int* channels) override {
    // The interface says float**, and means a pointer to the table itself.
    return plugin_.get(context_, function, bytes, 1, reinterpret_cast<float**>(table->cost), kTunerAlgorithms, kTunerProtocols,
                       channels);
  }
  int end() override { return plugin_.destroy(context_); }

 private:
  const TunerV3& plugin_;
  void* context_ = nullptr;
};

}  // namespace

std::unique_ptr<TunerAbi> adapt_tuner_v3(const void* symbol) {
  return std::make_unique<AdapterV3>(*static_cast<const TunerV3*>(symbol));
}

}  // namespace ronde
