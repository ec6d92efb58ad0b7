#include "gpu-emulator/driver/graph.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/thread.h"
#include "gpu-emulator/driver/module.h"

namespace emu::driver {

void release_user_object(const std::shared_ptr<UserObject>& object, long count) {
  if (object->references.fetch_sub(count) == count) object->destroy(object->data);
}

GraphExec::~GraphExec() {
  for (const Held& one : held) release_user_object(one.object, one.count);
}

namespace {

/// A run of a graph: each step goes to a thread of its own as soon as it may, but one that the finisher of the step before does
/// itself.
class Run {
 public:
  explicit Run(const GraphExec& exec) : exec_(exec), left_(exec.steps.size()) {
    for (const auto& step : exec.steps) waits_.push_back(step.waits);
  }

  void run() {
    std::vector<size_t> ready;
    for (size_t i = 0; i < waits_.size(); ++i) {
      if (waits_[i] == 0) ready.push_back(i);
    }
    follow(std::move(ready));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ == 0 && helpers_ == 0; });
  }

 private:
  void follow(std::vector<size_t> ready) {
    while (!ready.empty()) {
      const size_t mine = ready.back();
      ready.pop_back();
      for (const size_t other : ready) help(other);
      ready = step(mine);
    }
  }

  void help(size_t number) {
    {
      std::lock_guard lock(mutex_);
      ++helpers_;
    }
    auto thread = ronde::start_thread("emu-graph", [this, number] {
      follow({number});
      std::lock_guard lock(mutex_);
      --helpers_;
      changed_.notify_all();
    });
    if (!thread) {
      std::fprintf(stderr, "emulated GPU: %s\n", thread.error().what.c_str());
      std::abort();
    }
    thread->detach();
  }

  /// Runs a step; gives those that may run now.
  std::vector<size_t> step(size_t number) {
    const auto& step = exec_.steps[number];
    Context& context = *step.op.context;
    if (step.op.run && context.failed() == CUDA_SUCCESS) {
      if (const CUresult result = step.op.run(); result != CUDA_SUCCESS) context.fail(result, "");
    }
    std::vector<size_t> ready;
    std::lock_guard lock(mutex_);
    for (const size_t next : step.next) {
      if (--waits_[next] == 0) ready.push_back(next);
    }
    --left_;
    changed_.notify_all();
    return ready;
  }

  const GraphExec& exec_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> waits_;
  size_t left_;
  int helpers_ = 0;
};

/// The handles of nodes that a new one follows; false: one of them is none.
bool nodes_of(const CUgraphNode* handles, size_t count, std::vector<Node*>& nodes) {
  for (size_t i = 0; i < count; ++i) {
    Node* node = node_of(handles[i]);
    if (node == nullptr) return false;
    nodes.push_back(node);
  }
  return true;
}

/// What adding a node by hand has in common.
CUresult add_by_hand(CUgraphNode* out, CUgraph handle, const CUgraphNode* after, size_t count, Op op) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    const std::shared_ptr<Graph> graph = driver.graphs.get(handle);
    std::vector<Node*> nodes;
    std::lock_guard lock(driver.capture_mutex);
    if (out == nullptr || graph == nullptr || (after == nullptr && count > 0) || !nodes_of(after, count, nodes))
      return CUDA_ERROR_INVALID_VALUE;
    if (op.context == nullptr) op.context = context;
    *out = add_node(*graph, std::move(op), std::move(nodes)).handle;
    return CUDA_SUCCESS;
  });
}

}  // namespace

void run_steps(const GraphExec& exec) { Run(exec).run(); }

extern "C" {

CUresult cuGraphCreate(CUgraph* graph, unsigned flags) {
  return call([&](Driver& driver) {
    if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = driver.graphs.put(std::make_shared<Graph>());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return call([&](Driver& driver) { return driver.graphs.drop(graph) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count) {
  return add_by_hand(out, graph, after, count, {});
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                            const CUDA_HOST_NODE_PARAMS* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto [function, data] = *parameters;
  Op op;
  op.type = CU_GRAPH_NODE_TYPE_HOST;
  op.run = [function = function, data = data] {
    function(data);
    return CUDA_SUCCESS;
  };
  return add_by_hand(out, graph, after, count, std::move(op));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode* out, CUgraph graph, const CUgraphNode* after, size_t count,
                                 const CUDA_KERNEL_NODE_PARAMS* parameters) {
  return call([&](Driver& driver) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUDA_KERNEL_NODE_PARAMS& given = *parameters;
    Launch launch;
    launch.blocks = {given.gridDimX, given.gridDimY, given.gridDimZ};
    launch.threads = {given.blockDimX, given.blockDimY, given.blockDimZ};
    launch.shared_bytes = given.sharedMemBytes;
    Op op;
    CUfunction function = given.func != nullptr ? given.func : reinterpret_cast<CUfunction>(given.kern);
    const CUresult result = prepare_launch(driver, function, std::move(launch), given.kernelParams, given.extra, op);
    return result != CUDA_SUCCESS ? result : add_by_hand(out, graph, after, count, std::move(op));
  });
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  return call([&](Driver& driver) {
    const std::shared_ptr<Graph> graph = driver.graphs.get(handle);
    if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(driver.capture_mutex);
    for (size_t i = 0; nodes != nullptr && i < *count; ++i)
      nodes[i] = i < graph->nodes.size() ? graph->nodes[i]->handle : nullptr;
    *count = nodes == nullptr ? graph->nodes.size() : std::min(*count, graph->nodes.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  return call([&](Driver& driver) {
    std::lock_guard lock(driver.capture_mutex);
    const Node* node = node_of(handle);
    if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *type = node->op.type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph handle, unsigned long long) {
  return call([&](Driver& driver) {
    const std::shared_ptr<Graph> graph = driver.graphs.get(handle);
    if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto exec = std::make_shared<GraphExec>();
    std::lock_guard lock(driver.capture_mutex);
    std::map<const Node*, size_t> numbers;
    for (const auto& node : graph->nodes) numbers[node.get()] = numbers.size();
    exec->steps.resize(graph->nodes.size());
    for (const auto& node : graph->nodes) {
      GraphExec::Step& step = exec->steps[numbers[node.get()]];
      step.op = node->op;
      for (const Node* before : node->after) {
        // Only nodes of the same graph: a cycle is impossible, as a node comes after those that it names.
        const auto it = numbers.find(before);
        if (it == numbers.end()) return CUDA_ERROR_INVALID_VALUE;
        exec->steps[it->second].next.push_back(numbers[node.get()]);
        ++step.waits;
      }
    }
    for (const Held& one : graph->held) {
      one.object->references.fetch_add(one.count);
      exec->held.push_back(one);
    }
    *out = driver.execs.put(std::move(exec));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return call([&](Driver& driver) { return driver.execs.drop(exec) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; });
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  return call([&](Driver& driver) {
    std::shared_ptr<Stream> target;
    if (driver.execs.get(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return driver.stream(stream, target);
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream) {
  return call([&](Driver& driver) {
    const std::shared_ptr<GraphExec> exec = driver.execs.get(handle);
    if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Op op;
    op.type = CU_GRAPH_NODE_TYPE_GRAPH;
    op.run = [exec] {
      run_steps(*exec);
      return CUDA_SUCCESS;
    };
    return driver.submit(stream, std::move(op));
  });
}

CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned references, unsigned flags) {
  return call([&](Driver& driver) {
    if (out == nullptr || destroy == nullptr || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
      return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<UserObject>();
    object->data = data;
    object->destroy = destroy;
    object->references = static_cast<long>(references);
    *out = driver.user_objects.put(std::move(object));
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned count) {
  return call([&](Driver& driver) {
    const auto object = driver.user_objects.get(handle);
    if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    object->references.fetch_add(static_cast<long>(count));
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  return call([&](Driver& driver) {
    const auto object = driver.user_objects.get(handle);
    if (object == nullptr || count == 0 || object->references.load() < static_cast<long>(count)) return CUDA_ERROR_INVALID_VALUE;
    release_user_object(object, static_cast<long>(count));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRetainUserObject(CUgraph handle, CUuserObject object_handle, unsigned count, unsigned flags) {
  return call([&](Driver& driver) {
    const auto graph = driver.graphs.get(handle);
    const auto object = driver.user_objects.get(object_handle);
    if (graph == nullptr || object == nullptr || count == 0 || flags > CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(driver.capture_mutex);
    if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->references.fetch_add(static_cast<long>(count));
    graph->held.push_back({object, static_cast<long>(count)});
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphReleaseUserObject(CUgraph handle, CUuserObject object_handle, unsigned count) {
  return call([&](Driver& driver) {
    const auto graph = driver.graphs.get(handle);
    const auto object = driver.user_objects.get(object_handle);
    if (graph == nullptr || object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    {
      std::lock_guard lock(driver.capture_mutex);
      const auto it = std::find_if(graph->held.begin(), graph->held.end(), [&](const Held& one) {
        return one.object == object && one.count >= static_cast<long>(count);
      });
      if (it == graph->held.end()) return CUDA_ERROR_INVALID_VALUE;
      it->count -= static_cast<long>(count);
      if (it->count == 0) graph->held.erase(it);
    }
    release_user_object(object, static_cast<long>(count));
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace emu::driver
