// The station's connections: how they are opened, tried again over other devices, and given up.
#include <algorithm>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/net/station.h"

namespace ronde::net {
namespace {

constexpr uint64_t kReasonTime = 2 * kSecond;  // for which a lost connection waits for a better reason than its own
constexpr int kOver = -1;                      // the attempt of a connection that was up and has broken

}  // namespace

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
  if (post(peer, OpenNews{link, 0, first_device(peer, link)})) return {};
  return fail(Code::invalid_usage, "this rank can ask for no connection any more: it has left the communicator, or was forked from a process that is in it",
              Scope::communicator);
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
    Peer& peer = *find(from);
    if (peer.lost_recvs.erase(news.link) != 0 && peer.lost_recvs.empty()) {  // its end came before the news that its writer tries again
      peer.lost.reset();
      peer.said.clear();
      lost_.fetch_sub(1, std::memory_order_relaxed);
    }
    Link& it = peer.recvs[news.link];
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
    if (found == find(from)->sends.end()) return;
    if (found->second.attempt == kOver) find(from)->said = news.why;  // it worked as seen from here, and broke because of that
    if (found->second.attempt != news.attempt) return;
    found->second.peer_devices = std::max(1, news.devices);
    send = found->second.send;
    proxy = found->second.send_proxy;
  }
  if (send != nullptr) proxy->remove(send);
  flow_broken(from, news.link, news.attempt, true,
              fail(Code::remote_error, fmt::format("{} does not listen: {}", parts_.name(from), news.why), Scope::communicator));
}

void Station::hear(int from, const LostNews& news) {
  const std::lock_guard lock(mutex_);
  if (find(from)->said.empty()) find(from)->said = news.why;
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
  lose(peer, std::move(error), sends ? std::nullopt : std::optional(link));
}

// A connection that breaks is often the consequence of what its peer will tell, or of its end: that is the better reason, if it comes.
void Station::lose(int peer, Error error, std::optional<int> recv) {
  RONDE_INFO(net, "rank {} to {}: {}", rank_, parts_.name(peer), error.what);
  const std::string why = error.what;
  {
    const std::lock_guard lock(mutex_);
    Peer& it = *find(peer);
    if (cut_) return;
    const bool for_good = it.lost.has_value() && it.lost_recvs.empty();
    if (!recv.has_value()) {
      it.lost_recvs.clear();
    } else if (!for_good) {
      it.lost_recvs.insert(*recv);
    }
    if (it.lost.has_value()) return;
    it.lost = std::move(error);
    it.lost_since = now_ns();
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
  post(peer, LostNews{why});
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
      // The two ends break one after the other, and which was first nobody knows.
      if (!it.said.empty()) error->what += fmt::format("; {} says of its end: {}", parts_.name(static_cast<int>(peer)), it.said);
      it.said.clear();
      it.lost_recvs.clear();
      lost_.fetch_sub(1, std::memory_order_relaxed);
    }
    parts_.on_error(static_cast<int>(peer), std::move(*error));
  }
}

}  // namespace ronde::net
