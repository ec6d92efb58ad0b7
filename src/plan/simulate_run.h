// One run: events, and the cores and connections that they are about.
#pragma once

#include <deque>

#include "plan/simulate_impl.h"

namespace ronde::sim {

/// What a core does for one rank: a lane's Move, or an end of a connection over a network that cores drive.
struct Task {
  What what = What::begin;  ///< begin, sent or received: the event that ends it, or for a lane the waiting for its core
  uint32_t index = 0;
};

/// One core, and who wants it.
struct Core {
  bool busy = false;
  int last = -1;
  std::deque<Task> queue;
};

/// Programs on their way, event by event.
class Run {
 public:
  Run(Net& net, Clock& clock) : net_(net), clock_(clock) {
    const int shared = net.conditions.ranks_per_core;
    cores_.resize(static_cast<size_t>((net.call.spec.ranks + shared - 1) / shared));
  }

  Result<> run() {
    launch();
    while (clock_.advance()) {
      while (const Event* const event = clock_.next()) {
        fetch_ahead();
        handle(*event);
      }
      net_.traffic.settle();
    }
    for (const Lane& lane : net_.lanes) {
      if (!lane.done) return stuck(lane);
    }
    return {};
  }

  Simulation result() const;

 private:
  Core& core_of(int rank) { return cores_[static_cast<size_t>(rank / net_.conditions.ranks_per_core)]; }
  Core& core_of(const Lane& lane) { return core_of(lane.rank); }
  int rank_of(const Task& task) const {
    if (task.what == What::begin) return net_.lanes[task.index].rank;
    const Connection& c = net_.connections[task.index];
    return task.what == What::sent ? c.from : c.to;
  }
  Connection& in(const Lane& lane, uint32_t i) { return net_.connections[net_.in_of[lane.ports + lane.at->in_first + i]]; }
  Connection& out(const Lane& lane, uint32_t i) { return net_.connections[net_.out_of[lane.ports + lane.at->out_first + i]]; }
  uint64_t launch_time(const Lane& lane) const {
    return static_cast<uint64_t>(lane.cpu ? net_.costs.cpu_launch : net_.costs.gpu_launch) * kPicos;
  }

  void launch() {
    for (uint32_t id = 0; id < net_.lanes.size(); ++id) {
      Lane& lane = net_.lanes[id];
      lane.idle = launch_time(lane);
      if (lane.moves->empty()) {
        lane.done = true;
      } else {
        clock_.add(lane.idle, {What::wake, id, 0});
      }
    }
  }

  // By value: what is handled adds events.
  void handle(Event event) {
    if (event.what == What::begin) return begin(event.index);
    if (event.what == What::sent) return sent(event.index);
    if (event.what == What::near) return want_core({What::received, event.index});
    if (event.what == What::received) return received(event.index);
    if (event.what == What::wake) {
      net_.lanes[event.index].waiting = true;
      return attempt(event.index);
    }
    if (!net_.traffic.end(event)) return;
    const FlowSpec& spec = net_.traffic.spec(event.index);
    const uint32_t owner = spec.owner;
    if (spec.carrier) return carried(owner);
    if (--net_.lanes[owner].pending == 0) finish(owner);
  }

  /// Thousands of lanes do not fit into a core's caches, but it is known which of them are next.
  void fetch_ahead() const {
    const Event* const far = clock_.peek(12);
    if (far != nullptr && far->what == What::flow) net_.traffic.prefetch(far->index);
    const Event* const near = clock_.peek(8);
    if (near != nullptr) fetch_lane(near->what == What::flow ? net_.traffic.spec(near->index).owner : near->index);
    const Event* const next = clock_.peek(4);
    if (next != nullptr) fetch_ends(next->what == What::flow ? net_.traffic.spec(next->index).owner : next->index);
  }
  void fetch_lane(uint32_t id) const {
    if (id >= net_.lanes.size()) return;  // of a connection
    __builtin_prefetch(&net_.lanes[id]);
    __builtin_prefetch(&net_.lanes[id].bytes);
    __builtin_prefetch(&net_.lanes[id].spent.room);
  }
  void fetch_ends(uint32_t id) const {
    if (id >= net_.lanes.size() || net_.lanes[id].done) return;
    const Lane& lane = net_.lanes[id];
    const auto fetch = [&](const Connection& c) {
      __builtin_prefetch(&c);
      __builtin_prefetch(&c.slot);
      __builtin_prefetch(&net_.slot(c, c.head));
      __builtin_prefetch(&net_.slot(c, c.head).spent.latency);
    };
    if (lane.at->in_count > 0) fetch(net_.connections[net_.in_of[lane.ports + lane.at->in_first]]);
    if (lane.at->out_count > 0) fetch(net_.connections[net_.out_of[lane.ports + lane.at->out_first]]);
  }

  void attempt(uint32_t id);
  void want_core(Task task);
  void take_core(Task task);
  void leave_core(Core& core);
  void begin(uint32_t id);
  void begin_gpu(uint32_t id, uint64_t bytes);
  void begin_cpu(uint32_t id, uint64_t bytes);
  void finish(uint32_t id);
  void release(Connection& c);
  void publish(uint32_t connection, const Lane& lane, bool lent);
  void carry(uint32_t connection);
  void carried(uint32_t connection);
  void send(uint32_t connection);
  void sent(uint32_t connection);
  void received(uint32_t connection);
  void next(uint32_t id);
  uint64_t bytes_of(const Lane& lane);
  uint64_t slot_time(const Lane& lane);
  Error stuck(const Lane& lane) const;

  Net& net_;
  Clock& clock_;
  std::vector<Core> cores_;
  uint64_t end_ = 0;
  uint64_t last_idle_ = 0;
  uint64_t moves_ = 0;
  Spent last_;
  int last_rank_ = 0;
};

}  // namespace ronde::sim
