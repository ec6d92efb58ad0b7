// Graphs: what was captured from streams or put together by hand, and what is made of it to be launched.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpu-emulator/driver/driver.h"

namespace emu::driver {

struct Node {
  Op op;
  std::vector<Node*> after;
  CUgraphNode handle = nullptr;
};

struct UserObject {
  void* data = nullptr;
  CUhostFn destroy = nullptr;
  std::atomic<long> references{0};
};

/// A reference of a graph to a user object; given back when the last copy of the graph is gone.
struct Held {
  std::shared_ptr<UserObject> object;
  long count = 0;
};

/// Gives back references; the last one destroys what the object stands for.
void release_user_object(const std::shared_ptr<UserObject>& object, long count);

struct Graph {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Held> held;
  ~Graph();
};

/// A graph that can be launched: what the graph was when this was made.
struct GraphExec {
  struct Step {
    Op op;
    std::vector<size_t> next;  ///< steps that follow it
    int waits = 0;             ///< for so many
  };
  std::vector<Step> steps;
  std::vector<Held> held;
  ~GraphExec();
};

/// A capture that is under way.
struct Capture {
  std::shared_ptr<Graph> graph;
  CUgraph handle = nullptr;
  std::shared_ptr<Stream> origin;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  uint64_t thread = 0;  ///< that began it
  uint64_t id = 0;
  bool spoilt = false;
  bool ended = false;
  std::vector<std::weak_ptr<Stream>> joined;  ///< streams other than the origin
};

/// Spoils the captures of blocking streams where `stream` is their context's legacy stream; true: there were some. Under the
/// capture lock.
bool spoil_implicit(Driver& driver, const Stream& stream);
/// A number of the calling thread.
uint64_t thread_number();
/// Adds a node after others.
Node& add_node(Graph& graph, Op op, std::vector<Node*> after);
/// The node of a handle; nullptr: none. Under the capture lock.
Node* node_of(CUgraphNode handle);
/// A captured stream waits for an event: true where that was a matter of captures, with its result. Under the capture lock.
bool capture_wait(const std::shared_ptr<Stream>& stream, Event& event, CUresult& result);
/// Runs a graph's steps in their order, side by side where nothing orders them. Returns when all have ended.
void run_steps(const GraphExec& exec);

}  // namespace emu::driver
