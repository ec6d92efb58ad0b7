#include "boot/node.h"

#include <fmt/core.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "base/thread.h"
#include "boot/interfaces.h"

namespace ronde {
namespace {

/// What a process knows of itself. Never destroyed: threads may still use it while the process exits.
struct State {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<Node>> nodes;
  std::map<std::pair<PublicId, uint64_t>, std::shared_ptr<Root>> roots;  // those that are over too: a late caller is told
};
std::atomic<State*> current_state{nullptr};

State& state() {
  State* known = current_state.load(std::memory_order_acquire);  // pairs with the release below
  if (known != nullptr) return *known;
  // A forked child begins anew; what it inherited has no thread behind it, and is left alone.
  on_fork([] { current_state.store(nullptr, std::memory_order_relaxed); });
  auto* fresh = new State;
  if (current_state.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
  delete fresh;
  return *known;
}

}  // namespace

Result<std::shared_ptr<Node>> Node::get(const std::string& player, const Config& config) {
  RONDE_TRY(const PortRange ports, parse_port_range(config.text(Setting::port_range)));
  const std::string& family = config.text(Setting::socket_family);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::weak_ptr<Node>& slot = s.nodes[fmt::format("{}|{}|{}-{}", player, family, ports.low, ports.high)];
  if (auto node = slot.lock()) return node;
  uint64_t process = 0;
  while (process == 0) RONDE_TRY(fill_random(std::as_writable_bytes(std::span(&process, 1))));
  auto node = std::make_shared<Node>(process, family, ports);
  slot = node;
  return node;
}

Node::Node(uint64_t process, std::string family, PortRange ports)
    : process_(process), address_family_(std::move(family)), ports_(ports) {}

Result<std::shared_ptr<Network>> Node::network() {
  std::unique_lock lock(mutex_);
  // One that is being started or taken down by another thread still has the unix name.
  network_gone_.wait(lock, [&] { return networks_ == 0 || !network_.expired(); });
  if (auto network = network_.lock()) return network;
  ++networks_;
  lock.unlock();
  Result<std::shared_ptr<Network>> started = Network::start(shared_from_this());
  lock.lock();
  if (started.ok()) network_ = *started;
  network_gone_.notify_all();
  return started;
}

std::shared_ptr<Network> Node::live_network() {
  const std::lock_guard lock(mutex_);
  return network_.lock();
}

void Node::network_ended() {
  const std::lock_guard lock(mutex_);
  --networks_;
  network_gone_.notify_all();
}

Result<std::shared_ptr<Lease>> Node::tcp(Network& network) {
  const std::lock_guard lock(tcp_mutex_);
  if (auto lease = tcp_.lock()) return lease;
  network.sync();  // a listener that was just given up has its port until the loop has seen it
  RONDE_TRY(Listening listening, listen_tcp(address_family_, ports_));
  auto lease = network.listen(std::move(listening));
  tcp_ = lease;
  return lease;
}

Place Node::place(const Config& config, const Lease* listener) const {
  Place place;
  place.process = process_;
  place.host = host_identity(config);
  place.pid = static_cast<uint32_t>(getpid());
  place.host_name = host_name();
  if (listener == nullptr) return place;
  for (const Interface& one : usable_interfaces(config)) {
    place.addresses.push_back(one.address);
    place.addresses.back().port = listener->port;
    place.addresses.back().scope = 0;
  }
  return place;
}

std::shared_ptr<Family> Node::family(const Secret& secret) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Family>& slot = families_[public_id(secret)];
  auto family = slot.lock();
  if (!family) {
    family = std::make_shared<Family>(shared_from_this(), secret);
    slot = family;
  }
  std::erase_if(families_, [](const auto& one) { return one.second.expired(); });
  return family;
}

LinkHost::Knowledge Node::know(const PublicId& id) {
  LinkHost::Knowledge known;
  {
    const std::lock_guard lock(mutex_);
    const auto at = families_.find(id);
    if (at != families_.end()) known.family = at->second.lock();
  }
  if (known.family) {
    known.greeting = Greeting::welcome;
    known.secret = known.family->secret();
  } else if (const auto root = find_root(id, process_)) {
    known.greeting = Greeting::used_up;
    known.secret = root->secret();
  }
  return known;
}

std::shared_ptr<Root> find_root(const PublicId& id, uint64_t process) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto at = s.roots.find({id, process});
  return at == s.roots.end() ? nullptr : at->second;
}

bool add_root(const PublicId& id, uint64_t process, const std::shared_ptr<Root>& root) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.roots.emplace(std::pair{id, process}, root).second;
}

void remove_root(const PublicId& id, uint64_t process) {
  std::shared_ptr<Root> last;  // dies after the lock
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto at = s.roots.find({id, process});
  if (at == s.roots.end()) return;
  last = std::move(at->second);
  s.roots.erase(at);
}

}  // namespace ronde
