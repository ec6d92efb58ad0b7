// Cores, and what networks carry: by themselves, or driven by the cores at both ends.
#include "plan/simulate_run.h"

namespace ronde::sim {

void Run::want_core(Task task) {
  Core& core = core_of(rank_of(task));
  if (core.busy) {
    core.queue.push_back(task);
  } else {
    take_core(task);
  }
}

void Run::leave_core(Core& core) {
  core.busy = false;
  if (core.queue.empty()) return;
  const Task waiting = core.queue.front();
  core.queue.pop_front();
  take_core(waiting);
}

void Run::take_core(Task task) {
  const int rank = rank_of(task);
  Core& core = core_of(rank);
  const bool other = core.last != rank && core.last != -1;
  const uint64_t change = other ? static_cast<uint64_t>(net_.costs.cpu_switch) * kPicos : 0;
  core.busy = true;
  core.last = rank;
  if (task.what != What::begin) {
    Connection& c = net_.connections[task.index];
    const bool sends = task.what == What::sent;
    SlotState& slot = net_.slot(c, sends ? c.sent : c.arrived);
    const uint64_t rate = static_cast<uint64_t>(sends ? net_.costs.cpu_net_send : net_.costs.cpu_net_receive);
    const uint64_t works = static_cast<uint64_t>(net_.costs.cpu_net_slot) * kPicos + slot.bytes * kWorkPerByte / rate;
    slot.spent.carried += works;
    clock_.add(clock_.now() + change + works, {task.what, task.index, 0});
    return;
  }
  Lane& lane = net_.lanes[task.index];
  const uint64_t start = std::max(clock_.now(), lane.idle) + change;
  lane.spent.room += clock_.now() > lane.idle ? clock_.now() - lane.idle + change : change;
  const uint64_t slots = slot_time(lane);
  lane.spent.slots += slots;
  clock_.add(start + slots, {What::begin, task.index, 0});
}

/// The next slot of a connection over the network is on its way; one at a time, and while its lane goes on.
void Run::carry(uint32_t connection) {
  Connection& c = net_.connections[connection];
  c.carrying = true;
  SlotState& slot = net_.slot(c, c.carried);
  slot.ready = clock_.now();
  if (slot.bytes == 0) return carried(connection);
  FlowSpec spec;
  spec.way = c.way;
  spec.owner = connection;
  spec.carrier = true;
  spec.weight = net_.shares[net_.lanes[c.writer].channel].weight;
  spec.bytes = slot.bytes;
  spec.efficiency = c.efficiency;
  net_.traffic.start(spec);
}

void Run::carried(uint32_t connection) {
  Connection& c = net_.connections[connection];
  SlotState& slot = net_.slot(c, c.carried);
  slot.spent.carried += clock_.now() - slot.ready;
  slot.ready = clock_.now() + c.latency;
  ++c.carried;
  c.carrying = false;
  if (!c.by_cpu) {
    c.arrived = c.carried;
    if (net_.lanes[c.reader].waiting) attempt(c.reader);
    if (c.carried < c.tail) carry(connection);
    return;
  }
  slot.freed = clock_.now();
  if (slot.lent) end_ = std::max(end_, slot.freed);
  clock_.add(slot.ready, {What::near, connection, 0});
  if (net_.lanes[c.writer].waiting) attempt(c.writer);
  if (c.carried < c.sent) carry(connection);
}

/// The writer's core gives the next slot to the network, one after the other.
void Run::send(uint32_t connection) {
  net_.connections[connection].sending = true;
  want_core({What::sent, connection});
}

void Run::sent(uint32_t connection) {
  Connection& c = net_.connections[connection];
  ++c.sent;
  c.sending = false;
  if (!c.carrying) carry(connection);
  if (c.sent < c.tail) send(connection);
  leave_core(core_of(c.from));
}

void Run::received(uint32_t connection) {
  Connection& c = net_.connections[connection];
  net_.slot(c, c.arrived).ready = clock_.now();
  ++c.arrived;
  if (net_.lanes[c.reader].waiting) attempt(c.reader);
  leave_core(core_of(c.to));
}

}  // namespace ronde::sim
