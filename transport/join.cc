#include "transport/join.h"

#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/core.h>

#include "base/thread.h"
#include "boot/unique_id.h"
#include "transport/net/remote.h"

namespace ronde {
namespace {

template <class T>
Result<std::vector<T>> gather(Bootstrap& bootstrap, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(bootstrap.size()));
  all[static_cast<size_t>(bootstrap.rank())] = mine;
  RONDE_TRY(bootstrap.all_gather(std::as_writable_bytes(std::span(all))));
  return all;
}

struct Outcome {
  Code code = Code::success;
  char text[252] = {};
};

// Ends a step: everybody learns whether all have managed it. The own error is told in full.
Result<> agree(Bootstrap& bootstrap, Result<> mine) {
  Outcome outcome;
  outcome.code = mine.code();
  if (!mine) strncpy(outcome.text, mine.error().what.c_str(), sizeof outcome.text - 1);
  auto all = gather(bootstrap, outcome);
  if (!mine) return mine;
  if (!all) return std::move(all).error();
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const Outcome& its = all.value()[rank];
    if (its.code == Code::success) continue;
    const std::string text(its.text, strnlen(its.text, sizeof its.text));
    return fail(its.code == Code::invalid_usage ? its.code : Code::remote_error, fmt::format("rank {} failed: {}", rank, text),
                Scope::communicator);
  }
  return {};
}

/// How `rank` calls `peer`.
std::string rank_name(const std::vector<PeerInfo>& infos, int rank, int peer) {
  const PeerInfo& info = infos[static_cast<size_t>(peer)];
  if (same_host(info, infos[static_cast<size_t>(rank)])) return fmt::format("rank {} (pid {})", peer, info.pid);
  return fmt::format("rank {} (pid {} on {})", peer, info.pid, info.host_name);
}

PeerInfo describe_rank(const FabricRequest& request, const Process& process) {
  PeerInfo info{};
  info.process = process.id();
  info.host = host_identity(*request.config);
  info.pid = getpid();
  info.shape = arena_shape(*request.config, request.bootstrap->size(), request.links);
  info.shm_disabled = request.config->flag(Setting::shm_disable);
  info.p2p_disabled = request.config->flag(Setting::p2p_disable);
  info.vm_readv = request.config->flag(Setting::vm_readv);
  strncpy(info.host_name, host_name().c_str(), sizeof info.host_name - 1);
  return info;
}

Result<> check_shapes(const std::vector<PeerInfo>& infos) {
  for (size_t rank = 1; rank < infos.size(); ++rank) {
    const ArenaShape &a = infos[0].shape, &b = infos[rank].shape;
    if (a == b) continue;
    return fail(
        Code::invalid_usage,
        fmt::format(
            "ranks 0 and {} disagree about the connections: {} slots of {} bytes and {} links against {} slots of {} bytes "
            "and {} links; set RONDE_SLOTS and RONDE_BUFFSIZE alike on all ranks",
            rank, a.slots, a.slot_capacity, a.links, b.slots, b.slot_capacity, b.links),
        Scope::communicator);
  }
  return {};
}

// Every rank looks at every pair, so that all come to the same answer without another exchange.
Result<const Transport*> choose(const Joined& joined, int a, int b) {
  std::string reasons;
  const PeerInfo& mine = (*joined.infos)[static_cast<size_t>(a)];
  const PeerInfo& theirs = (*joined.infos)[static_cast<size_t>(b)];
  for (const Transport* transport : transports()) {
    const std::string refusal = transport->refusal(a, mine, b, theirs);
    if (refusal.empty()) return transport;
    reasons += fmt::format("; {}: {}", transport->name(), refusal);
  }
  return fail(Code::system_error, fmt::format("no transport connects rank {} with {}{}", a, joined.name(b), reasons),
              Scope::communicator);
}

Result<> choose_all(Joined& joined) {
  const int size = static_cast<int>(joined.infos->size());
  joined.peers.resize(static_cast<size_t>(size));
  for (int peer = 0; peer < size; ++peer) {
    RONDE_TRY(joined.peers[static_cast<size_t>(peer)].transport, choose(joined, joined.rank, peer));
  }
  return {};
}

std::shared_ptr<net::Station> make_station(const FabricRequest& request, const Joined& joined) {
  net::StationParts parts;
  parts.bootstrap = request.bootstrap;
  parts.net = joined.net;
  parts.links_per_channel = request.links_per_channel;
  parts.arena = joined.arena;
  parts.watch = joined.watch;
  parts.on_error = request.on_error;
  // The Joined moves; what the names are made of stays where it is.
  parts.name = [rank = joined.rank, infos = joined.infos](int peer) { return rank_name(*infos, rank, peer); };
  return std::make_shared<net::Station>(std::move(parts));
}

Result<PeerAddress> open_all(const FabricRequest& request, Joined& joined) {
  const PeerInfo& mine = (*joined.infos)[static_cast<size_t>(joined.rank)];
  const bool alone =
      std::all_of(joined.infos->begin(), joined.infos->end(), [&](const PeerInfo& i) { return i.process == mine.process; });
  RONDE_TRY(joined.arena, Arena::create(mine.shape, !alone));
  PeerAddress address{};
  RONDE_TRY(address.arena, random_id());
  joined.process->publish(address.arena, joined.arena);
  if (joined.net != nullptr) joined.station = make_station(request, joined);
  for (size_t peer = 0; peer < joined.peers.size(); ++peer) {
    JoinedPeer& it = joined.peers[peer];
    const PeerRequest wanted{joined.process, joined.watch, joined.rank, static_cast<int>(peer), &mine, &(*joined.infos)[peer], joined.station};
    RONDE_TRY(it.end, it.transport->open(wanted));
    RONDE_TRY(it.end->describe_self(&address));
  }
  return address;
}

Result<> named(const Joined& joined, size_t peer, std::string_view step, Result<> done) {
  if (done) return done;
  Error error = std::move(done).error();
  error.what = fmt::format("{} rank {} with {} over {}: {}", step, joined.rank, joined.name(static_cast<int>(peer)),
                           joined.peers[peer].transport->name(), error.what);
  error.scope = Scope::communicator;
  return error;
}

Result<> connect_all(Joined& joined, const std::vector<PeerAddress>& addresses, const WaitLimit& patience) {
  for (size_t peer = 0; peer < addresses.size(); ++peer) {
    RONDE_TRY(named(joined, peer, "connecting", joined.peers[peer].end->connect(addresses[peer], patience)));
  }
  return {};
}

Result<> map_all(Joined& joined, const std::vector<PeerAddress>& addresses, const WaitLimit& patience) {
  // Each begins with its successor: otherwise all would ask rank 0 first.
  for (size_t i = 0; i < addresses.size(); ++i) {
    const size_t peer = (i + static_cast<size_t>(joined.rank)) % addresses.size();
    RONDE_TRY(named(joined, peer, "sharing memory of", joined.peers[peer].end->map(addresses[peer], patience)));
  }
  return {};
}

}  // namespace

bool same_host(const PeerInfo& a, const PeerInfo& b) { return a.host == b.host; }

std::string Joined::name(int peer) const { return rank_name(*infos, rank, peer); }

Result<Joined> join_peers(const FabricRequest& request) {
  Bootstrap& bootstrap = *request.bootstrap;
  const WaitLimit patience{Deadline::in(request.config->seconds(Setting::init_timeout)), request.abort};
  Joined joined;
  joined.rank = bootstrap.rank();
  RONDE_TRY(joined.process, request.pretend_processes ? Process::pretend() : Process::current());
  joined.watch = std::make_shared<DeathWatch>(request.on_death);
  RONDE_TRY(auto infos, gather(bootstrap, describe_rank(request, *joined.process)));
  joined.infos = std::make_shared<std::vector<PeerInfo>>(std::move(infos));
  RONDE_TRY(check_shapes(*joined.infos));
  if (net::needed(*joined.infos)) {
    RONDE_TRY(joined.net, net::choose_net(bootstrap, *request.config));
  }

  Result<> chosen = choose_all(joined);
  Result<PeerAddress> address = PeerAddress{};
  if (chosen) {
    address = open_all(request, joined);
    if (!address) chosen = std::move(address).error();
  }
  RONDE_TRY(agree(bootstrap, std::move(chosen)));
  RONDE_TRY(const auto addresses, gather(bootstrap, address.value()));
  RONDE_TRY(agree(bootstrap, connect_all(joined, addresses, patience)));
  RONDE_TRY(agree(bootstrap, map_all(joined, addresses, patience)));
  joined.process->seal(*joined.arena);
  for (JoinedPeer& peer : joined.peers) peer.end->start();
  if (joined.station != nullptr) RONDE_TRY(joined.station->start());
  return joined;
}

}  // namespace ronde
