// What a capture does with the work that is given to its streams.
#include <algorithm>
#include <utility>

#include "gpu-emulator/driver/graph.h"

namespace emu::driver {
namespace {

std::map<CUgraphNode, Node*>& all_nodes() {
  static auto* nodes = new std::map<CUgraphNode, Node*>;
  return *nodes;
}
std::mutex nodes_mutex;

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

uint64_t thread_number() {
  thread_local const uint64_t number = next_handle();
  return number;
}

Node& add_node(Graph& graph, Op op, std::vector<Node*> after) {
  auto node = std::make_unique<Node>();
  node->op = std::move(op);
  node->after = std::move(after);
  node->handle = reinterpret_cast<CUgraphNode>(next_handle());
  Node& added = *node;
  graph.nodes.push_back(std::move(node));
  std::lock_guard lock(nodes_mutex);
  all_nodes()[added.handle] = &added;
  return added;
}

Node* node_of(CUgraphNode handle) {
  std::lock_guard lock(nodes_mutex);
  const auto it = all_nodes().find(handle);
  return it == all_nodes().end() ? nullptr : it->second;
}

Graph::~Graph() {
  {
    std::lock_guard lock(nodes_mutex);
    for (const auto& node : nodes) all_nodes().erase(node->handle);
  }
  for (const Held& one : held) release_user_object(one.object, one.count);
}

bool spoil_implicit(Driver& driver, const Stream& stream) {
  if (&stream != stream.context()->legacy.get()) return false;
  bool any = false;
  for (const auto& weak : driver.captures) {
    const auto capture = weak.lock();
    if (capture == nullptr || capture->ended || capture->origin->context() != stream.context()) continue;
    if (!capture->origin->blocking()) continue;
    capture->spoilt = true;
    any = true;
  }
  return any;
}

CUresult Driver::capture_op(Stream& stream, const Op& op) {
  Capture& capture = *stream.capture;
  if (capture.spoilt) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream.frontier = {&add_node(*capture.graph, op, stream.frontier)};
  return CUDA_SUCCESS;
}

CUresult Driver::refuse_in_capture() {
  std::lock_guard lock(capture_mutex);
  std::erase_if(captures, [](const auto& weak) { return weak.expired() || weak.lock()->ended; });
  CUresult result = CUDA_SUCCESS;
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return result;
  for (const auto& weak : captures) {
    const auto capture = weak.lock();
    if (capture == nullptr || capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool own = capture->thread == thread_number();
    const bool everywhere = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !everywhere) continue;
    capture->spoilt = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

bool capture_wait(const std::shared_ptr<Stream>& stream, Event& event, CUresult& result) {
  const std::shared_ptr<Capture> theirs = event.capture;
  if (theirs == nullptr) {
    if (stream->capture == nullptr) return false;
    // Work outside of the capture would have to be waited for.
    stream->capture->spoilt = true;
    result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    return true;
  }
  result = CUDA_SUCCESS;
  if (theirs->spoilt || theirs->ended) {
    result = theirs->ended ? CUDA_ERROR_CAPTURED_EVENT : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (stream->capture != nullptr && stream->capture != theirs) {
    theirs->spoilt = stream->capture->spoilt = true;
    result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
  } else {
    if (stream->capture == nullptr) {
      stream->capture = theirs;
      stream->frontier.clear();
      theirs->joined.push_back(stream);
    }
    for (Node* node : event.nodes) {
      if (std::find(stream->frontier.begin(), stream->frontier.end(), node) == stream->frontier.end())
        stream->frontier.push_back(node);
    }
  }
  return true;
}

namespace {

/// Every node comes before something that the origin stands after.
bool joined(const Capture& capture, const Stream& other) {
  std::vector<const Node*> reached(capture.origin->frontier.begin(), capture.origin->frontier.end());
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const Node* node : reached[i]->after) {
      if (std::find(reached.begin(), reached.end(), node) == reached.end()) reached.push_back(node);
    }
  }
  return std::all_of(other.frontier.begin(), other.frontier.end(),
                     [&](const Node* node) { return std::find(reached.begin(), reached.end(), node) != reached.end(); });
}

CUresult end_capture(Driver& driver, Stream& stream, CUgraph* graph) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture->origin.get() != &stream) {
    capture->spoilt = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != thread_number())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult result = capture->spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  for (const auto& weak : capture->joined) {
    const auto other = weak.lock();
    if (other == nullptr || other->capture != capture) continue;
    if (result == CUDA_SUCCESS && !joined(*capture, *other)) result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    other->capture = nullptr;
    other->frontier.clear();
  }
  capture->ended = true;
  stream.capture = nullptr;
  stream.frontier.clear();
  *graph = result == CUDA_SUCCESS ? capture->handle : nullptr;
  if (result != CUDA_SUCCESS) driver.graphs.drop(capture->handle);
  return result;
}

/// What the three versions of the question have in common.
CUresult capture_info(CUstream handle, CUstreamCaptureStatus* status, uint64_t* id, CUgraph* graph, const CUgraphNode** nodes,
                      const CUgraphEdgeData** edges, size_t* count) {
  return call([&](Driver& driver) {
    std::shared_ptr<Stream> stream;
    if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = driver.stream(handle, stream); result != CUDA_SUCCESS) return result;
    std::lock_guard lock(driver.capture_mutex);
    if (spoil_implicit(driver, *stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (stream->capture == nullptr) return CUDA_SUCCESS;
    *status = stream->capture->spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id != nullptr) *id = stream->capture->id;
    if (graph != nullptr) *graph = stream->capture->handle;
    // The driver's own array, good until the next call.
    thread_local std::vector<CUgraphNode> handles;
    handles.clear();
    for (const Node* node : stream->frontier) handles.push_back(node->handle);
    if (nodes != nullptr) *nodes = handles.data();
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = handles.size();
    return CUDA_SUCCESS;
  });
}

CUresult update_dependencies(CUstream handle, CUgraphNode* nodes, size_t count, unsigned flags) {
  return call([&](Driver& driver) {
    std::shared_ptr<Stream> stream;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (nodes == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = driver.stream(handle, stream); result != CUDA_SUCCESS) return result;
    std::lock_guard lock(driver.capture_mutex);
    if (stream->capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->spoilt) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    std::vector<Node*> frontier;
    if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES) frontier = stream->frontier;
    for (size_t i = 0; i < count; ++i) {
      Node* node = node_of(nodes[i]);
      if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
      frontier.push_back(node);
    }
    stream->frontier = std::move(frontier);
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return call([&](Driver& driver) {
    std::shared_ptr<Stream> stream;
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = driver.stream(handle, stream); result != CUDA_SUCCESS) return result;
    if (stream == stream->context()->legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    std::lock_guard lock(driver.capture_mutex);
    if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
    auto capture = std::make_shared<Capture>();
    capture->graph = std::make_shared<Graph>();
    capture->handle = driver.graphs.put(capture->graph);
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = thread_number();
    capture->id = next_handle();
    driver.captures.push_back(capture);
    stream->capture = std::move(capture);
    stream->frontier.clear();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  return call([&](Driver& driver) {
    std::shared_ptr<Stream> stream;
    if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = driver.stream(handle, stream); result != CUDA_SUCCESS) return result;
    std::lock_guard lock(driver.capture_mutex);
    return stream->capture == nullptr ? CUDA_ERROR_ILLEGAL_STATE : end_capture(driver, *stream, graph);
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return capture_info(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, size_t* count) {
  return capture_info(stream, status, id, graph, nodes, nullptr, count);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status, uint64_t* id, CUgraph* graph,
                                   const CUgraphNode** nodes, const CUgraphEdgeData** edges, size_t* count) {
  return capture_info(stream, status, id, graph, nodes, edges, count);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode* nodes, size_t count, unsigned flags) {
  return update_dependencies(stream, nodes, count, flags);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count,
                                              unsigned flags) {
  // Edges other than full ones are the business of kernels that start early, which there are none of.
  for (size_t i = 0; edges != nullptr && i < count; ++i) {
    if (edges[i].type != 0) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return update_dependencies(stream, nodes, count, flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call([&](Driver&) {
    if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
      return CUDA_ERROR_INVALID_VALUE;
    std::swap(*mode, thread_mode);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace emu::driver
