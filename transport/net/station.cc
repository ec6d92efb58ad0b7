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

constexpr uint32_t kOthers = 16;  // ranks that a refresh asks beside those that are waited for, in turn
constexpr uint64_t kDrainTime = 10 * kSecond;

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

/// Answers question `number`; 0: none.
ControlNews Station::control_for(int peer, uint64_t number) {
  ControlBlock& own = parts_.arena->control();
  const uint64_t answered = own.probe_answer.load(std::memory_order_seq_cst);  // before the epoch: see follow_cycle
  ControlNews news = read_control(own, ranks());
  news.number = number;
  const std::lock_guard lock(mutex_);
  Peer& it = *find(peer);
  if (answered >= it.own_probe) news.probe_answer = it.probe;
  for (const auto& [link, sent] : it.sends) {
    const FifoView fifo = it.mirror->find_fifo(rank_, link);
    if (fifo) news.sent.emplace_back(link, fifo.header->tail.load(std::memory_order_seq_cst));
  }
  for (const auto& [link, received] : it.recvs) {
    const FifoView fifo = parts_.arena->find_fifo(peer, link);
    if (fifo) news.taken.push_back({link, fifo.header->tail.load(std::memory_order_seq_cst), fifo.header->head.load(std::memory_order_seq_cst)});
  }
  return news;
}

void Station::hear(int from, const LookNews& news) {
  bool probed = false;
  {
    const std::lock_guard lock(mutex_);
    Peer& it = *find(from);
    probed = news.probe > it.probe;
    if (probed) {
      it.probe = news.probe;
      it.own_probe = parts_.arena->control().probe.fetch_add(1, std::memory_order_seq_cst) + 1;
    }
  }
  if (probed) ring_own();
  post(from, control_for(from, news.number));
}

void Station::hear(int from, const ControlNews& news) {
  Peer& it = *find(from);
  ControlBlock& mirror = it.mirror->control();
  write_control(mirror, ranks(), news);
  {
    const std::lock_guard lock(mutex_);
    it.heard = news;
    if (leaves(news.state)) {
      it.leaving = news;
    } else if (takes_nothing_more(news.state) || !takes_nothing_more(mirror.state.load(std::memory_order_seq_cst))) {
      mirror.state.store(news.state, std::memory_order_seq_cst);  // an answer may come behind the news that its rank has left: nobody comes back
    }
  }
  settle_leaving(from);
  const ControlBlock& own = parts_.arena->control();
  if (own.blocked.load(std::memory_order_seq_cst) != 0 && own.probe.load(std::memory_order_seq_cst) != own.probe_answer.load(std::memory_order_seq_cst)) {
    ring_own();  // it may wait for this answer to give its own
  }
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
    post(peer, control_for(peer, 0));
  }
  ControlBlock& mirror = it.mirror->control();
  if (mirror.mail.load(std::memory_order_acquire) == 2 && !it.told_mail.exchange(true, std::memory_order_acq_rel)) {  // the same; pairs with leave_mail
    post(peer, MailNews{mirror.mail_code, mirror.mail_text});
  }
}

void Station::refresh(std::span<const int> peers) {
  report_lost();
  const uint32_t first = turns_.fetch_add(kOthers, std::memory_order_relaxed);
  const auto size = static_cast<uint32_t>(peers_.size());
  const uint64_t number = asked_.fetch_add(1, std::memory_order_relaxed) + 1;
  for (uint32_t peer = 0; peer < size; ++peer) {
    const int rank = static_cast<int>(peer);
    if (peers_[peer] == nullptr) continue;
    settle_leaving(rank);
    const bool turn = (peer + size - first % size) % size < kOthers;
    if (turn || std::find(peers.begin(), peers.end(), rank) != peers.end()) look(rank, number);
  }
}

void Station::look(int peer, uint64_t number) {
  post(peer, LookNews{number, find(peer)->mirror->control().probe.load(std::memory_order_relaxed)});  // this rank's own thread writes it
}

uint64_t Station::ask(std::span<const int> peers) {
  const uint64_t number = asked_.fetch_add(1, std::memory_order_relaxed) + 1;
  for (const int peer : peers) {
    if (find(peer) != nullptr) look(peer, number);
  }
  return number;
}

bool Station::settled(std::span<const int> peers, uint64_t since) {
  const std::lock_guard lock(mutex_);
  return std::all_of(peers.begin(), peers.end(), [&](int peer) {
    if (find(peer) == nullptr) return true;
    const ControlNews& theirs = find(peer)->heard;
    return theirs.number >= since && nothing_comes(peer, theirs) && nothing_leaves(peer, theirs);
  });
}

/// What the peer says it has sent has come, or has no room here.
bool Station::nothing_comes(int peer, const ControlNews& theirs) {
  return std::all_of(theirs.sent.begin(), theirs.sent.end(), [&](const auto& one) {
    const auto& [link, sent] = one;
    if (!has_link(link) || sent == 0) return true;
    const FifoView fifo = parts_.arena->find_fifo(peer, link);
    if (!fifo) return false;
    const uint64_t come = fifo.header->tail.load(std::memory_order_seq_cst);
    return come == sent || come == fifo.header->head.load(std::memory_order_seq_cst) + fifo.slots;
  });
}

/// What this rank has sent has come to the peer and back, or has no room there.
bool Station::nothing_leaves(int peer, const ControlNews& theirs) {
  const Peer& it = *find(peer);
  return std::all_of(it.sends.begin(), it.sends.end(), [&](const auto& one) {
    const int link = one.first;
    const FifoView fifo = it.mirror->find_fifo(rank_, link);
    if (!fifo) return true;
    const auto told = std::find_if(theirs.taken.begin(), theirs.taken.end(), [&](const ControlNews::Taken& taken) { return taken.link == link; });
    const auto [number, come, taken] = told == theirs.taken.end() ? ControlNews::Taken{link, 0, 0} : *told;
    const uint64_t sent = fifo.header->tail.load(std::memory_order_seq_cst), back = fifo.header->head.load(std::memory_order_seq_cst);
    return come == sent ? back == sent : come == taken + fifo.slots && back >= come;
  });
}

bool Station::has_link(int link) const { return link >= 0 && link < static_cast<int>(parts_.arena->shape().links); }

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
