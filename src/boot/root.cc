#include "boot/root.h"

#include <fmt/core.h>
#include <algorithm>
#include <set>

#include "base/fd.h"
#include "base/lists.h"
#include "base/log.h"
#include "boot/family.h"
#include "boot/node.h"
#include "ronde.h"

namespace ronde {
namespace {

constexpr double kGraceSeconds = 30;  // in which ranks that come late learn why the others failed

Error broken(Code code, std::string what) { return fail(code, std::move(what), Scope::communicator); }

}  // namespace

std::string who(int rank, const Place& place) { return fmt::format("rank {} ({})", rank, to_string(place)); }

void Root::serve(std::shared_ptr<Family> family, std::shared_ptr<Network> network,
                 std::vector<std::shared_ptr<Lease>> listeners) {
  const std::lock_guard lock(mutex_);
  held_.family = std::move(family);
  held_.network = std::move(network);
  held_.listeners = std::move(listeners);
}

void Root::handle(const FrameHeader& header, std::span<const std::byte> payload, const std::shared_ptr<Link>& link,
                  const std::shared_ptr<Family>& family) {
  Resources freed;
  const std::lock_guard lock(mutex_);  // given back before `freed` dies
  if (header.kind == FrameKind::join) {
    Claim claim{header.from, header.tag, {}, link, family};
    on_join(header, payload, std::move(claim));
  } else if (Claim* claim = find(header.tag, link)) {
    Reader in(payload);
    if (header.kind == FrameKind::address && phase_ == Phase::listening && !claim->ready) {
      claim->place = unpack_place(in);
      claim->ready = true;
      const auto ready = [](const Claim& one) { return one.ready; };
      if (std::all_of(held_.claims.begin(), held_.claims.end(), ready)) introduce();
    } else if (header.kind == FrameKind::done && phase_ == Phase::introducing) {
      claim->done = true;
      const auto done = [](const Claim& one) { return one.done; };
      if (std::all_of(held_.claims.begin(), held_.claims.end(), done)) {
        phase_ = Phase::made;
        release();
      }
    } else if (header.kind == FrameKind::give_up && !claim->done) {
      claim->left = true;
      fail_all(broken(Code::remote_error, fmt::format("{} gave up while the communicator was being made: {}",
                                                      who(claim->rank, claim->place), in.text())));
    } else if (header.kind == FrameKind::expired) {
      on_expired(*claim, payload);
    }
  }
  std::swap(freed, freed_);
}

Root::Claim* Root::find(uint64_t ticket, const std::shared_ptr<Link>& link) {
  for (Claim& claim : held_.claims) {
    if (claim.ticket == ticket && claim.link == link) return &claim;
  }
  return nullptr;
}

void Root::on_join(const FrameHeader& header, std::span<const std::byte> payload, Claim claim) {
  bool readable = false;
  JoinMessage join = JoinMessage::unpack(payload, &readable);
  claim.place = join.place;
  ++arrivals_;
  if (fixed_ && (phase_ == Phase::made || phase_ == Phase::introducing)) {  // it comes for the next communicator
    Reply later;
    later.kind = Reply::Kind::later;
    return reply(claim, later);
  }
  if (phase_ == Phase::made) {
    return refuse(claim, broken(Code::invalid_usage,
                                "this unique id has made a communicator already; each communicator needs an id of its own"));
  }
  if (readable) most_ranks_ = std::max(most_ranks_, join.ranks);
  if (phase_ == Phase::failed) {
    refuse(claim, error_);
    if (arrivals_ >= most_ranks_) release();
    return;
  }
  std::optional<Error> problem = objection(join, claim, header);
  if (!problem && !readable)
    problem = broken(Code::internal_error, fmt::format("rank {} sent a request that cannot be read", header.from));
  if (first_rank_ < 0) {
    first_ = join;
    first_rank_ = join.rank;
  }
  held_.claims.push_back(std::move(claim));
  if (problem) return fail_all(*std::move(problem));
  if (static_cast<int>(held_.claims.size()) == first_.ranks) all_came();
}

std::optional<Error> Root::objection(const JoinMessage& join, const Claim& claim, const FrameHeader& header) const {
  if (join.protocol != kBootProtocol || join.version != RONDE_VERSION_CODE) {
    return broken(
        Code::invalid_usage,
        fmt::format(
            "the library differs: {} has version {} with bootstrap protocol {}, the root of the unique id has version {} with "
            "protocol {}; install one version everywhere",
            who(header.from, claim.place), join.version, join.protocol, RONDE_VERSION_CODE, kBootProtocol));
  }
  const auto twice =
      std::find_if(held_.claims.begin(), held_.claims.end(), [&](const Claim& one) { return one.rank == claim.rank; });
  if (first_rank_ >= 0 && join.ranks != first_.ranks) {
    return broken(Code::invalid_usage,
                  fmt::format("the ranks disagree about their number: {} says {}, {} says {}", who(first_rank_, first_.place),
                              first_.ranks, who(join.rank, join.place), join.ranks));
  }
  if (twice != held_.claims.end()) {
    return broken(Code::invalid_usage,
                  fmt::format("rank {} was claimed twice: by {} and by {}; each rank must be given to one caller", join.rank,
                              to_string(twice->place), to_string(claim.place)));
  }
  if (first_rank_ >= 0 && join.ids != first_.ids) {
    return broken(Code::invalid_usage,
                  fmt::format("the ranks disagree about the number of unique ids: {} passed {}, {} passed {}",
                              who(first_rank_, first_.place), first_.ids, who(join.rank, join.place), join.ids));
  }
  if (first_rank_ >= 0 && join.ids_hash != first_.ids_hash) {
    return broken(Code::invalid_usage, fmt::format("the ranks disagree about the unique ids: {} and {} passed different lists",
                                                   who(first_rank_, first_.place), who(join.rank, join.place)));
  }
  if (join.rank < 0 || join.rank >= join.ranks) {
    return broken(Code::invalid_usage,
                  fmt::format("{} is not below the number of ranks, {}", who(join.rank, join.place), join.ranks));
  }
  return std::nullopt;
}

void Root::all_came() {
  const Place& mine = held_.claims[0].place;
  const bool one_host = std::all_of(held_.claims.begin(), held_.claims.end(), [&](const Claim& one) {
    return one.place.host == mine.host && (!one.link || one.link->route().rfind("TCP", 0) != 0);
  });
  if (one_host) return introduce();
  phase_ = Phase::listening;
  Reply listen;
  listen.kind = Reply::Kind::listen;
  for (const Claim& claim : held_.claims) reply(claim, listen);
}

void Root::introduce() {
  phase_ = Phase::introducing;
  const int n = first_.ranks;
  std::vector<const Claim*> by_rank(static_cast<size_t>(n));
  std::set<uint64_t> processes;
  for (const Claim& claim : held_.claims) {
    by_rank[static_cast<size_t>(claim.rank)] = &claim;
    processes.insert(claim.place.process);
  }
  Reply hand_out;
  hand_out.kind = Reply::Kind::hand_out;
  hand_out.one_process = processes.size() == 1;
  const Result<> random = fill_random(std::as_writable_bytes(std::span(hand_out.token)));
  if (!random.ok()) return fail_all(random.error());
  for (const Claim& claim : held_.claims) {
    hand_out.neighbours.clear();
    for (int distance = 1; distance < n; distance *= 2) {
      const int peer = (claim.rank - distance + n) % n;
      hand_out.neighbours.emplace_back(peer, by_rank[static_cast<size_t>(peer)]->place);
    }
    reply(claim, hand_out);
  }
}

void Root::on_expired(const Claim& claim, std::span<const std::byte> payload) {
  std::vector<int> missing;
  if (phase_ == Phase::gathering) {
    std::set<int> came;
    for (const Claim& one : held_.claims) came.insert(one.rank);
    for (int rank = 0; rank < first_.ranks; ++rank) {
      if (came.count(rank) == 0) missing.push_back(rank);
    }
  } else if (phase_ == Phase::listening || phase_ == Phase::introducing) {
    for (const Claim& one : held_.claims) {
      if (phase_ == Phase::listening ? !one.ready : !one.done) missing.push_back(one.rank);
    }
    std::sort(missing.begin(), missing.end());
  }
  if (missing.empty()) return;
  Reader in(payload);
  const std::string limit = in.text();
  const char* what = phase_ == Phase::gathering ? "did not come" : "came, but did not finish";
  fail_all(
      broken(Code::remote_error, fmt::format("{} {} within {} of the call of {}; is every rank started, with the same unique id? "
                                             "RONDE_INIT_TIMEOUT sets the time",
                                             rank_list(missing), what, limit, who(claim.rank, claim.place))));
}

void Root::lost(uint64_t process, const std::string& why) {
  Resources freed;
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::made || phase_ == Phase::failed) return;
  std::vector<int> ranks;
  for (Claim& claim : held_.claims) {
    if (claim.place.process != process || !claim.link || claim.done) continue;
    claim.left = true;
    ranks.push_back(claim.rank);
  }
  if (ranks.empty()) return;
  const auto one =
      std::find_if(held_.claims.begin(), held_.claims.end(), [&](const Claim& claim) { return claim.rank == ranks[0]; });
  const std::string place = to_string(one->place);
  std::sort(ranks.begin(), ranks.end());
  fail_all(broken(Code::remote_error,
                  fmt::format("{} ({}) died or left while the communicator was being made: the connection ended ({})",
                              rank_list(ranks), place, why.empty() ? "closed" : why)));
  std::swap(freed, freed_);
}

void Root::retire() {
  Resources freed;
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::gathering || !held_.claims.empty()) return;
  phase_ = Phase::made;
  release();
  std::swap(freed, freed_);
}

void Root::fail_all(Error error) {
  if (phase_ == Phase::failed) return;
  phase_ = Phase::failed;
  error_ = std::move(error);
  RONDE_INFO(bootstrap, "the init has failed: {}", error_.what);
  for (const Claim& claim : held_.claims) {
    if (!claim.done && !claim.left) refuse(claim, error_);
  }
  if (fixed_ || arrivals_ >= most_ranks_) return release();
  held_.network->after(kGraceSeconds, [weak = weak_from_this()] {
    const auto root = weak.lock();
    if (!root) return;
    Resources freed;
    const std::lock_guard lock(root->mutex_);
    root->release();
    std::swap(freed, root->freed_);
  });
}

void Root::refuse(const Claim& claim, const Error& error) const {
  Reply failed;
  failed.kind = Reply::Kind::failed;
  failed.error = error;
  reply(claim, failed);
}

void Root::reply(const Claim& claim, const Reply& reply) const {
  const Bytes message = reply.pack();
  FrameHeader header;
  header.length = static_cast<uint32_t>(message.size());
  header.token = {0, claim.ticket};
  header.from = -1;
  if (claim.link) {
    claim.link->send(header, message);
  } else if (const auto family = claim.family.lock()) {
    if (const auto box = family->mailbox(header.token, 0)) box->put(-1, 0, message);
  }
}

void Root::release() {
  if (fixed_ && held_.family) remove_root(held_.family->id(), process_);
  freed_ = std::move(held_);
  held_ = Resources{};
}

}  // namespace ronde
