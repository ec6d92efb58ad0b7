// Time, and what shares links in it.
#include "plan/simulate_impl.h"

namespace ronde::sim {

void Clock::add(uint64_t time, Event event) {
  if (time != last_time_) {
    const auto [at, is_new] = at_.try_emplace(time, 0);
    if (is_new) {
      if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(batches_.size()));
        batches_.emplace_back();
      }
      at->second = free_.back();
      free_.pop_back();
      times_.push(time);
    }
    last_time_ = time;
    last_batch_ = at->second;
  }
  batches_[last_batch_].push_back(event);
}

const Event* Clock::next() {
  if (current_ == UINT32_MAX || taken_ == batches_[current_].size()) return nullptr;
  return &batches_[current_][taken_++];
}

bool Clock::advance() {
  if (current_ != UINT32_MAX) {
    batches_[current_].clear();
    free_.push_back(current_);
    at_.erase(now_);
    if (last_time_ == now_) last_time_ = UINT64_MAX;
    current_ = UINT32_MAX;
  }
  if (times_.empty()) return false;
  now_ = times_.top();
  times_.pop();
  current_ = at_.at(now_);
  taken_ = 0;
  return true;
}

uint32_t Traffic::add_arc(int64_t capacity) {
  Arc arc;
  arc.capacity = capacity;
  arcs_.push_back(std::move(arc));
  return static_cast<uint32_t>(arcs_.size() - 1);
}

uint32_t Traffic::add_memory(uint64_t sharers) {
  const uint32_t id = add_arc(INT64_MAX);
  arcs_[id].memory = true;
  arcs_[id].sharers = sharers;
  return id;
}

Way Traffic::add_way(const std::vector<uint32_t>& arcs) {
  const Way way{static_cast<uint32_t>(pool_.size()), static_cast<uint32_t>(arcs.size())};
  pool_.insert(pool_.end(), arcs.begin(), arcs.end());
  longest_ = std::max(longest_, way.count);
  return way;
}

void Traffic::touch(uint32_t arc) {
  if (arcs_[arc].dirty) return;
  arcs_[arc].dirty = true;
  dirty_.push_back(arc);
}

void Traffic::start(const FlowSpec& spec) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(flows_.size()));
    flows_.emplace_back();
    flows_.back().places = static_cast<uint32_t>(places_.size());
    places_.resize(places_.size() + longest_ + 1);
  }
  const uint32_t id = free_.back();
  free_.pop_back();
  Flow& flow = flows_[id];
  flow.spec = spec;
  flow.left = spec.bytes * kWorkPerByte;
  flow.rate = 0;
  flow.settled = 0;
  flow.since = clock_.now();
  each_arc(flow, [&](uint32_t arc, uint32_t i) {
    places_[flow.places + i] = static_cast<uint32_t>(arcs_[arc].flows.size());
    arcs_[arc].flows.push_back(id);
    arcs_[arc].users += spec.weight;
    arcs_[arc].bytes += spec.bytes * spec.weight;
    touch(arc);
  });
  fresh_.push_back(id);
}

bool Traffic::end(const Event& event) {
  Flow& flow = flows_[event.index];
  if (flow.version != event.version) return false;
  ++flow.version;
  each_arc(flow, [&](uint32_t arc, uint32_t i) {
    std::vector<uint32_t>& list = arcs_[arc].flows;
    arcs_[arc].users -= flow.spec.weight;
    const uint32_t place = places_[flow.places + i];
    const uint32_t moved = list.back();
    list[place] = moved;
    list.pop_back();
    touch(arc);
    if (moved == event.index) return;
    // The one that takes its place has the arc somewhere in its way.
    Flow& other = flows_[moved];
    each_arc(other, [&](uint32_t a, uint32_t j) {
      if (a == arc && places_[other.places + j] == list.size()) places_[other.places + j] = place;
    });
  });
  free_.push_back(event.index);
  return true;
}

int64_t Traffic::rate_of(const Flow& flow) {
  int64_t share = INT64_MAX;
  int64_t most = flow.spec.alone;
  each_arc(flow, [&](uint32_t id, uint32_t) {
    const Arc& arc = arcs_[id];
    share = std::min(share, arc.share);
    if (!arc.memory) return;
    const auto others = static_cast<int64_t>(std::max<uint64_t>(arc.sharers, 2) - 1);
    most -= (flow.spec.alone - flow.spec.shared) * std::min<int64_t>(arc.rated - 1, others) / others;
  });
  if (share != INT64_MAX) share = share * flow.spec.efficiency / 1000;
  return std::max<int64_t>(1, std::min(share, most));
}

void Traffic::rate(uint32_t id) {
  Flow& flow = flows_[id];
  if (flow.settled == settled_) return;
  flow.settled = settled_;
  const int64_t rate = rate_of(flow);
  if (rate == flow.rate) return;
  const uint64_t done = (clock_.now() - flow.since) * static_cast<uint64_t>(flow.rate);
  flow.left -= std::min(flow.left, done);
  flow.since = clock_.now();
  flow.rate = rate;
  ++flow.version;
  const auto speed = static_cast<uint64_t>(rate);
  clock_.add(clock_.now() + (flow.left + speed - 1) / speed, {What::flow, id, flow.version});
}

void Traffic::settle() {
  ++settled_;
  size_t changed = 0;
  for (const uint32_t id : dirty_) {
    Arc& arc = arcs_[id];
    arc.dirty = false;
    if (arc.users == arc.rated) continue;
    arc.rated = arc.users;
    if (arc.users == 0) continue;
    if (arc.capacity != INT64_MAX) arc.share = arc.capacity / arc.users;
    dirty_[changed++] = id;
  }
  dirty_.resize(changed);
  for (const uint32_t arc : dirty_) {
    for (const uint32_t id : arcs_[arc].flows) rate(id);
  }
  dirty_.clear();
  for (const uint32_t id : fresh_) rate(id);
  fresh_.clear();
}

}  // namespace ronde::sim
