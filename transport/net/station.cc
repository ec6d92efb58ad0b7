#include "transport/net/station.h"

#include <sched.h>
#include <unistd.h>
#include <algorithm>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/bells.h"

namespace ronde::net {
namespace {

constexpr uint32_t kOthers = 16;                 // ranks that a refresh asks beside those that are waited for, in turn
constexpr uint64_t kReasonTime = 2 * kSecond;    // for which a lost connection waits for a better reason than its own
constexpr uint64_t kDrainTime = 10 * kSecond;
constexpr int kOver = -1;                        // the attempt of a connection that was up and has broken

/// Devices worth using: those not much slower than the fastest, or all where speeds are not known.
std::vector<int> worth_using(std::span<const Device> devices) {
  double best = 0;
  for (const Device& device : devices) best = std::max(best, device.gbps);
  std::vector<int> chosen;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].gbps * 2 >= best) chosen.push_back(static_cast<int>(i));
  }
  return chosen;
}

bool leaves(uint32_t state) {
  switch (static_cast<RankState>(state)) {
    case RankState::closed:
    case RankState::finalized: return true;
    case RankState::joining:
    case RankState::alive:
    case RankState::aborted:
    case RankState::revoked: break;
  }
  return false;
}

bool takes_nothing_more(uint32_t state) {
  return state != static_cast<uint32_t>(RankState::joining) && state != static_cast<uint32_t>(RankState::alive);
}

}  // namespace

Station::Station(StationParts parts)
    : parts_(std::move(parts)), rank_(parts_.bootstrap->rank()), devices_(worth_using(parts_.net->devices())), peers_(static_cast<size_t>(parts_.bootstrap->size())), proxies_(devices_.size()) {}

Station::~Station() {
  close();
  cut();
}

void Station::attach(int peer, std::shared_ptr<Arena> mirror) {
  peers_[static_cast<size_t>(peer)] = std::make_unique<Peer>();
  peers_[static_cast<size_t>(peer)]->mirror = std::move(mirror);
}

Result<> Station::start() {
  RONDE_TRY(bells_, BellHold::take());
  parts_.bootstrap->listen_posts([this](int from, std::span<const std::byte> message) { on_post(from, message); },
                                 [this](int peer, const Error& why) { on_gone(peer, why); });
  return {};
}

Station::Peer* Station::find(int peer) const {
  return peer >= 0 && static_cast<size_t>(peer) < peers_.size() ? peers_[static_cast<size_t>(peer)].get() : nullptr;
}

// False: it will not come. What is lost with a peer that has gone, is told as its death.
bool Station::post(int peer, const News& news) {
  users_.fetch_add(1, std::memory_order_seq_cst);
  const bool open = !closed_.load(std::memory_order_seq_cst);
  const bool posted = open && parts_.bootstrap->post(peer, pack(news)).ok();
  users_.fetch_sub(1, std::memory_order_seq_cst);
  return posted;
}

void Station::on_post(int from, std::span<const std::byte> message) {
  const std::optional<News> news = unpack(message);
  if (find(from) == nullptr || !news.has_value()) {
    log_once(fmt::format("{} sent {} bytes of news that cannot be read; use one build of this library on all hosts", parts_.name(from), message.size()));
    return;
  }
  std::visit([&](const auto& n) { hear(from, n); }, *news);
}

void Station::on_gone(int peer, const Error& why) {
  Peer* const it = find(peer);
  if (it == nullptr || it->gone.exchange(true, std::memory_order_seq_cst)) return;
  if (takes_nothing_more(it->mirror->control().state.load(std::memory_order_seq_cst))) return;
  parts_.watch->tell(peer, why.what);
}

bool Station::alive(int peer) const { return !find(peer)->gone.load(std::memory_order_seq_cst); }

void Station::ring_own() { ring(own_bells()[parts_.arena->control().bell.load(std::memory_order_seq_cst) % kBells]); }

// News of the control blocks.

ControlNews Station::control_for(int peer) {
  ControlNews news = read_control(parts_.arena->control());
  const std::lock_guard lock(mutex_);
  Peer& it = *find(peer);
  for (const auto& [link, sent] : it.sends) {
    const FifoView fifo = it.mirror->find_fifo(rank_, link);
    if (fifo) news.sent.emplace_back(link, fifo.header->tail.load(std::memory_order_seq_cst));
  }
  return news;
}

void Station::hear(int from, const LookNews&) {
  const ControlNews news = control_for(from);
  post(from, news);
}

void Station::hear(int from, const ControlNews& news) {
  Peer& it = *find(from);
  ControlBlock& mirror = it.mirror->control();
  write_control(mirror, news);
  {
    const std::lock_guard lock(mutex_);
    if (leaves(news.state)) {
      it.leaving = news;
    } else if (takes_nothing_more(news.state) || !takes_nothing_more(mirror.state.load(std::memory_order_seq_cst))) {
      mirror.state.store(news.state, std::memory_order_seq_cst);  // an answer may come behind the news that its rank has left: nobody comes back
    }
  }
  settle_leaving(from);
}

void Station::hear(int, const MailNews& news) {
  leave_mail(parts_.arena->control(), news.code, news.text);
  ring_own();
}

bool Station::leaving_applies(int peer) {
  for (const auto& [link, sent] : find(peer)->leaving->sent) {
    if (!has_link(link)) continue;
    const FifoView fifo = parts_.arena->find_fifo(peer, link);
    if (sent != 0 && (!fifo || fifo.header->tail.load(std::memory_order_seq_cst) < sent)) return false;
  }
  return true;
}

void Station::settle_leaving(int peer) {
  Peer& it = *find(peer);
  const std::lock_guard lock(mutex_);
  if (!it.leaving.has_value() || !leaving_applies(peer)) return;
  it.mirror->control().state.store(it.leaving->state, std::memory_order_seq_cst);
  it.leaving.reset();
}

void Station::nudge(int peer) {
  due_.store(true, std::memory_order_relaxed);
  Peer& it = *find(peer);
  const uint32_t state = parts_.arena->control().state.load(std::memory_order_seq_cst);
  if (takes_nothing_more(state) && it.told_state.exchange(state, std::memory_order_acq_rel) != state) {  // acq_rel: one of several threads tells it
    post(peer, control_for(peer));
  }
  ControlBlock& mirror = it.mirror->control();
  if (mirror.mail.load(std::memory_order_acquire) == 2 && !it.told_mail.exchange(true, std::memory_order_acq_rel)) {  // the same; pairs with leave_mail
    post(peer, MailNews{mirror.mail_code, mirror.mail_text});
  }
}

void Station::refresh(std::span<const int> peers) {
  report_lost();
  const uint32_t first = looks_.fetch_add(kOthers, std::memory_order_relaxed);  // only whose turn it is
  const auto size = static_cast<uint32_t>(peers_.size());
  for (uint32_t peer = 0; peer < size; ++peer) {
    const int rank = static_cast<int>(peer);
    if (peers_[peer] == nullptr) continue;
    settle_leaving(rank);
    const bool turn = (peer + size - first % size) % size < kOthers;
    if (turn || std::find(peers.begin(), peers.end(), rank) != peers.end()) post(rank, LookNews{});
  }
}

// Connections.

bool Station::has_link(int link) const { return link >= 0 && link < static_cast<int>(parts_.arena->shape().links); }

Result<std::shared_ptr<Proxy>> Station::proxy_of(int device) {
  const auto place = static_cast<size_t>(std::find(devices_.begin(), devices_.end(), device) - devices_.begin());
  if (proxies_[place] == nullptr) {
    const Device& it = parts_.net->devices()[static_cast<size_t>(device)];
    RONDE_TRY(proxies_[place], Proxy::of(fmt::format("{}:{}", parts_.net->name(), it.name), it.pci_path));
  }
  return proxies_[place];
}

FlowEvents Station::events_of(int peer, int link, int attempt, bool sends) {
  return {[this] { ring_own(); },
          [weak = weak_from_this(), peer, link, attempt, sends](Error error) {
            if (const auto self = weak.lock()) self->flow_broken(peer, link, attempt, sends, std::move(error));
          },
          parts_.net, sends ? find(peer)->mirror : parts_.arena};
}

Result<> Station::open(int peer, int link) {
  {
    const std::lock_guard lock(mutex_);
    if (!find(peer)->sends.try_emplace(link).second) return {};
  }
  post(peer, OpenNews{link, 0, first_device(peer, link)});
  return {};
}

void Station::hear(int from, const OpenNews& news) {
  const auto devices = static_cast<int>(devices_.size());
  const int device = device_of(news.device);
  std::shared_ptr<Flow> old;
  std::shared_ptr<Proxy> old_proxy;
  const auto make = [&]() -> Result<Handle> {
    RONDE_TRY(std::unique_ptr<Listener> listener, parts_.net->listen(device));
    const Handle handle = listener->handle();
    const std::lock_guard lock(mutex_);
    if (cut_) return fail(Code::remote_error, "it has left");
    RONDE_TRY(const FifoView fifo, parts_.arena->make_fifo(from, news.link));
    Link& it = find(from)->recvs[news.link];
    old = it.recv;
    old_proxy = it.recv_proxy;
    it.attempt = news.attempt;
    RONDE_TRY(it.recv_proxy, proxy_of(device));
    it.recv = std::make_shared<RecvFlow>(fifo, std::move(listener), events_of(from, news.link, news.attempt, false));
    it.recv_proxy->add(it.recv);
    return handle;
  };
  if (!has_link(news.link) || news.device < 0) return;
  Result<Handle> handle = make();
  if (old != nullptr) old_proxy->remove(old);
  if (handle.ok()) {
    post(from, ListeningNews{news.link, news.attempt, devices, *handle});
  } else {
    post(from, RefusedNews{news.link, news.attempt, devices, handle.error().what});
  }
}

void Station::hear(int from, const ListeningNews& news) {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find(from)->sends.find(news.link);
    if (cut_ || found == find(from)->sends.end() || found->second.attempt != news.attempt || found->second.send != nullptr) return;
    Link& it = found->second;
    it.peer_devices = std::max(1, news.devices);
    const int device = device_of(first_device(from, news.link) + news.attempt);
    const FifoView fifo = find(from)->mirror->find_fifo(rank_, news.link);
    auto proxy = proxy_of(device);
    if (proxy.ok()) {
      it.send_proxy = std::move(proxy).value();
      auto begin = [net = parts_.net, device, handle = news.handle] { return net->connect(device, handle); };
      it.send = std::make_shared<SendFlow>(fifo, std::move(begin), events_of(from, news.link, news.attempt, true));
      it.send_proxy->add(it.send);
      return;
    }
    why = proxy.error().what;
  }
  lose(from, fail(Code::system_error, why, Scope::communicator));
}

void Station::hear(int from, const RefusedNews& news) {
  std::shared_ptr<SendFlow> send;
  std::shared_ptr<Proxy> proxy;
  {
    const std::lock_guard lock(mutex_);
    const auto found = find(from)->sends.find(news.link);
    if (found == find(from)->sends.end() || found->second.attempt != news.attempt) return;
    found->second.peer_devices = std::max(1, news.devices);
    send = found->second.send;
    proxy = found->second.send_proxy;
  }
  if (send != nullptr) proxy->remove(send);
  flow_broken(from, news.link, news.attempt, true,
              fail(Code::remote_error, fmt::format("{} does not listen: {}", parts_.name(from), news.why), Scope::communicator));
}

/// Another pair of devices, each of this rank's with each of the peer's. False: all have been tried. What has been tried again already, or needs it no more,
/// is left as it is.
bool Station::try_again(int peer, int link, int attempt, const std::string& why) {
  int next = attempt + 1, device = 0;
  std::shared_ptr<SendFlow> old;
  {
    const std::lock_guard lock(mutex_);
    Link& it = find(peer)->sends[link];
    const auto mine = static_cast<int>(devices_.size());
    if (cut_ || it.attempt != attempt) return true;
    if (next >= mine * it.peer_devices) return false;
    it.attempt = next;
    old = std::exchange(it.send, nullptr);  // has left its proxy when it broke
    device = first_device(peer, link) + next / mine + next % mine;
  }
  RONDE_INFO(net, "rank {} to {}: trying other network devices, since {}", rank_, parts_.name(peer), why);
  return post(peer, OpenNews{link, next, device});
}

void Station::flow_broken(int peer, int link, int attempt, bool sends, Error error) {
  bool settled = false;
  std::shared_ptr<SendFlow> send;
  std::shared_ptr<RecvFlow> recv;
  {
    const std::lock_guard lock(mutex_);
    if (cut_) return;
    auto& links = sends ? find(peer)->sends : find(peer)->recvs;
    const auto found = links.find(link);
    if (found == links.end() || found->second.attempt != attempt) return;
    Link& it = found->second;
    settled = sends ? it.send != nullptr && it.send->settled() : it.recv != nullptr && it.recv->settled();
    if (settled && sends) send = std::exchange(it.send, nullptr);
    if (!sends) recv = std::exchange(it.recv, nullptr);
    if (settled) it.attempt = kOver;
  }
  // This end goes, so that the peer, which may be the only one who waits, sees it too. (A reader's goes with its flow.)
  if (send != nullptr) send->cut();
  if (!settled && !sends) {  // the writer tries other devices, or tells its rank
    RONDE_INFO(net, "rank {} from {}: {}", rank_, parts_.name(peer), error.what);
    post(peer, RefusedNews{link, attempt, devices(), error.what});
    return;
  }
  if (!settled && try_again(peer, link, attempt, error.what)) return;
  lose(peer, std::move(error));
}

// A connection that breaks is often the consequence of what its peer will tell, or of its end: that is the better reason, if it comes.
void Station::lose(int peer, Error error) {
  RONDE_INFO(net, "rank {} to {}: {}", rank_, parts_.name(peer), error.what);
  {
    const std::lock_guard lock(mutex_);
    Peer& it = *find(peer);
    if (it.lost.has_value() || cut_) return;
    it.lost = std::move(error);
    it.lost_since = now_ns();
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
  post(peer, LookNews{});
  ring_own();
}

void Station::report_lost() {
  if (lost_.load(std::memory_order_relaxed) == 0) return;
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer] == nullptr) continue;
    Peer& it = *peers_[peer];
    std::optional<Error> error;
    {
      const std::lock_guard lock(mutex_);
      if (!it.lost.has_value()) continue;
      const bool consequence = it.lost->code == Code::remote_error;  // or may be one: others tell what they know first
      if (now_ns() - it.lost_since < (consequence ? kReasonTime : kReasonTime / 2)) continue;
      if (it.gone.load(std::memory_order_seq_cst)) continue;
      if (takes_nothing_more(it.mirror->control().state.load(std::memory_order_seq_cst))) continue;
      error = std::exchange(it.lost, std::nullopt);
      lost_.fetch_sub(1, std::memory_order_relaxed);
    }
    parts_.on_error(static_cast<int>(peer), std::move(*error));
  }
}

std::vector<std::shared_ptr<Proxy>> Station::proxies() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Proxy>> used;
  for (const auto& proxy : proxies_) {
    if (proxy != nullptr) used.push_back(proxy);
  }
  return used;
}

bool Station::help() {
  due_.store(false, std::memory_order_relaxed);  // before the look
  bool moved = false;
  for (const auto& proxy : proxies()) {
    const Proxy::Help helped = proxy->help();
    moved |= helped == Proxy::Help::moved;
    if (helped == Proxy::Help::busy) due_.store(true, std::memory_order_relaxed);
  }
  return moved;
}

void Station::rest(bool sleeps) {
  const bool due = due_.exchange(false, std::memory_order_relaxed);
  for (const auto& proxy : proxies()) {
    if (sleeps || due || proxy->unfinished()) proxy->take_over();
  }
}

std::string Station::describe(int peer) {
  const std::lock_guard lock(mutex_);
  for (const auto& [link, it] : find(peer)->sends) {
    if (it.send != nullptr && it.send->settled()) return it.send->describe();
  }
  return "";
}

bool Station::drained(int peer) {
  settle_leaving(peer);
  {
    const std::lock_guard lock(mutex_);
    if (find(peer)->lost.has_value()) return true;
  }
  return !undelivered(peer);
}

/// Something lies in a FIFO that its reader may still want.
bool Station::undelivered(int peer) {
  const std::lock_guard lock(mutex_);
  const Peer& it = *find(peer);
  if (it.gone.load(std::memory_order_seq_cst)) return false;
  if (takes_nothing_more(it.mirror->control().state.load(std::memory_order_seq_cst)) || it.leaving.has_value()) return false;
  for (const auto& [link, one] : it.sends) {
    const FifoView fifo = it.mirror->find_fifo(rank_, link);
    if (fifo && fifo.header->head.load(std::memory_order_seq_cst) != fifo.header->tail.load(std::memory_order_seq_cst)) return true;
  }
  return false;
}

/// Tells a peer that does not get what this rank had sent it: it would wait for ever, and nobody would be left to say why.
void Station::own_up(int peer) {
  std::string why = fmt::format("it was not taken in {} s", kDrainTime / kSecond);
  {
    const std::lock_guard lock(mutex_);
    if (find(peer)->lost.has_value()) why = find(peer)->lost->what;
  }
  RONDE_WARN("rank {} leaves its communicator though {} has not taken all that was sent to it: {}", rank_, parts_.name(peer), why);
  post(peer, MailNews{static_cast<uint32_t>(Code::remote_error), fmt::format("rank {} has left before all that it had sent to rank {} could be delivered: {}",
                                                                             rank_, peer, why)});
}

void Station::cut() {
  std::vector<std::pair<std::shared_ptr<Proxy>, std::shared_ptr<Flow>>> flows;
  std::vector<std::shared_ptr<SendFlow>> senders;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(cut_, true)) return;
    for (const auto& peer : peers_) {
      if (peer == nullptr) continue;
      for (const auto& [link, it] : peer->sends) {
        if (it.send == nullptr) continue;
        flows.emplace_back(it.send_proxy, it.send);
        senders.push_back(it.send);
      }
      for (const auto& [link, it] : peer->recvs) {
        if (it.recv != nullptr) flows.emplace_back(it.recv_proxy, it.recv);
      }
      peer->sends.clear();
      peer->recvs.clear();
    }
  }
  for (const auto& [proxy, flow] : flows) proxy->remove(flow);
  for (const auto& sender : senders) sender->cut();
}

void Station::close() {
  if (closed_.load(std::memory_order_seq_cst)) return;
  const uint64_t until = now_ns() + kDrainTime;
  for (size_t number = 0; number < peers_.size(); ++number) {
    const int peer = static_cast<int>(number);
    if (find(peer) == nullptr) continue;
    while (!drained(peer) && now_ns() <= until) {
      if (!help()) usleep(100);
    }
    if (undelivered(peer)) own_up(peer);
    nudge(peer);
  }
  rest(true);
  closed_.store(true, std::memory_order_seq_cst);
  while (users_.load(std::memory_order_seq_cst) != 0) sched_yield();
  parts_.bootstrap->listen_posts(nullptr, nullptr);
}

}  // namespace ronde::net
