#include "exec/watch.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/clock.h"
#include "base/lists.h"
#include "base/log.h"
#include "exec/work.h"

namespace ronde {
namespace {

/// The other ranks for which the lanes of `work` wait.
std::vector<int> awaited(const Work& work) {
  std::vector<int> peers;
  for (const Part& part : work.parts) {
    for (const Lane& lane : part.lanes) {
      if (lane.done || lane.waits_for == nullptr || lane.waits_for->rank == work.seat->rank()) continue;
      peers.push_back(lane.waits_for->rank);
    }
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

/// The other ranks for which this rank waits.
std::vector<int> awaited(Seat& seat) {
  std::vector<int> peers;
  for (const Work* work : seat.active) {
    if (!seat.has_turn(*work)) continue;
    for (const int peer : awaited(*work)) peers.push_back(peer);
  }
  return peers;
}

/// Counts what has come back of what `work` has sent: a lender that waits for all of it moves with each.
uint64_t returned(const Work& work) {
  uint64_t slots = 0;
  for (const Part& part : work.parts) {
    for (const Lane& lane : part.lanes) {
      for (const Move& move : *lane.moves) {
        for (uint32_t i = 0; i < move.out_count; ++i) {
          const FifoView& out = part.bound->ports[move.out_first + i]->out;
          if (out) slots += out.header->head.load(std::memory_order_seq_cst);  // those of GPUs lie in their memory
        }
      }
    }
  }
  return slots;
}

/// Writes into the control block for whom this rank waits. True if that is what it said before, and nothing has come back since.
bool publish_waits(Seat& seat) {
  ControlBlock& block = seat.control();
  std::atomic<uint64_t>* const words = wait_set(block);
  std::vector<uint64_t> now((static_cast<size_t>(seat.ranks()) + 63) / 64);
  const Work* first = nullptr;
  uint64_t back = 0;
  for (const Work* work : seat.active) {
    if (!seat.has_turn(*work)) continue;
    if (first == nullptr) first = work;
    back += returned(*work);
    for (const int peer : awaited(*work)) now[peer / 64] |= uint64_t{1} << (peer % 64);
  }
  bool same = std::exchange(seat.returned, back) == back;
  for (size_t i = 0; i < now.size(); ++i) {
    if (words[i].load(std::memory_order_relaxed) == now[i]) continue;  // this rank alone writes them
    same = false;
    words[i].store(now[i], std::memory_order_seq_cst);
  }
  if (first != nullptr) {
    block.waiting_what.store(first->call.packed(), std::memory_order_seq_cst);
    block.waiting_sequence.store(first->call.sequence, std::memory_order_seq_cst);
    block.waiting_count.store(first->call.count, std::memory_order_seq_cst);
  }
  return same;
}

struct Record {
  uint64_t what, count, fingerprint;
};

/// What `rank` called at `sequence`; nothing where it has not called yet or that is too long ago.
std::optional<Record> record_of(Seat& seat, int rank, uint64_t sequence) {
  const ControlBlock& block = seat.fabric().control(rank);
  const CallRecord& record = block.history[sequence % kCallHistory];
  const uint64_t before = record.version.load(std::memory_order_seq_cst);  // pairs with Seat::publish
  if (before != 2 * sequence + 2) return std::nullopt;
  const Record copy{record.what.load(std::memory_order_seq_cst), record.count.load(std::memory_order_seq_cst),
                    record.fingerprint.load(std::memory_order_seq_cst)};
  if (record.version.load(std::memory_order_seq_cst) != before) return std::nullopt;
  return copy;
}

std::string last_act(Seat& seat, int rank) {
  const ControlBlock& block = seat.fabric().control(rank);
  const uint64_t what = block.last_what.load(std::memory_order_relaxed);  // for a text alone
  if (what == 0) return fmt::format("rank {} has called nothing yet", rank);
  const uint64_t calls = block.issued.load(std::memory_order_seq_cst);
  return fmt::format("rank {} began {} last, after {} collectives in all", rank, describe_call(what, block.last_count.load(std::memory_order_relaxed)), calls);
}

/// The other ranks that have not begun the collective that `work` is, or, when all have or it is a message, those that it waits for.
std::string whom(Seat& seat, const Work& work, const std::vector<int>& peers, std::vector<int>* named) {
  *named = peers;
  if (work.call.message()) return rank_list(peers);
  std::vector<int> absent;
  for (int rank = 0; rank < seat.ranks(); ++rank) {
    if (rank != seat.rank() && seat.fabric().control(rank).issued.load(std::memory_order_seq_cst) <= work.call.sequence) absent.push_back(rank);
  }
  if (absent.empty()) return rank_list(peers) + ", though all ranks have begun it";
  *named = absent;
  return rank_list(absent) + (absent.size() == 1 ? ", which has not called it" : ", which have not called it");
}

std::string call_name(const Call& call) {
  return fmt::format("{}, {} number {}", describe_call(call), call.message() ? "message" : "collective", call.sequence);
}

/// Why `peer` will never do its part of a call; "" where it may.
std::string_view has_left(Seat& seat, int peer) {
  switch (static_cast<RankState>(seat.fabric().control(peer).state.load(std::memory_order_seq_cst))) {
    case RankState::aborted: return "aborted";
    case RankState::closed: return "destroyed";
    case RankState::revoked: return "revoked";
    case RankState::finalized: return "finalised";
    case RankState::joining:
    case RankState::alive: break;
  }
  return "";
}

/// A peer that will not do its part of a call, and what to say of it.
struct Hopeless {
  int peer;
  Error error;
};

/// Why this call can never end: a peer that it waits for has left, or is inside a Split, where it waits for this rank (whose caller, if `blocking`, is
/// here). Nothing where it may end. What the peer sent before may have come after the last pass: only a second look proves it.
std::optional<Hopeless> cannot_end(Seat& seat, const Work& work, const std::vector<int>& peers, bool blocking) {
  const uint64_t splits = seat.control().splits.load(std::memory_order_relaxed);  // this rank's own thread writes it
  for (const int peer : peers) {
    const ControlBlock& theirs = seat.fabric().control(peer);
    const std::string text = fmt::format("{} on rank {} waits for rank {}, which ", call_name(work.call), seat.rank(), peer);
    const std::string_view how = has_left(seat, peer);
    if (!how.empty()) {
      const Code code = how == "finalised" ? Code::invalid_usage : Code::remote_error;
      return Hopeless{peer, fail(code, fmt::format("{}has {} its communicator", text, how), Scope::communicator)};
    }
    if (!blocking || theirs.in_split.load(std::memory_order_seq_cst) == 0 || theirs.splits.load(std::memory_order_seq_cst) <= splits) continue;
    return Hopeless{peer, fail(Code::invalid_usage, fmt::format("{}is in CommSplit and waits there for rank {}; all ranks must issue the same calls in the same "
                                                                "order", text, seat.rank()), Scope::communicator)};
  }
  return std::nullopt;
}

/// Compares this rank's collective with what the awaited peers have called at the same number. True if the Seat has failed.
bool compare_calls(Seat& seat, const Work& work, const std::vector<int>& peers) {
  if (work.call.message()) return false;
  for (const int peer : peers) {
    const auto theirs = record_of(seat, peer, work.call.sequence);
    if (!theirs.has_value() || theirs->fingerprint == work.fingerprint) continue;
    seat.fail_all(fail(Code::invalid_usage,
                       fmt::format("collective number {} does not fit: rank {} called {} and rank {} called {}; all ranks must issue the same "
                                   "calls in the same order", work.call.sequence, seat.rank(), describe_call(work.call), peer,
                                   describe_call(theirs->what, theirs->count)), Scope::communicator));
    return true;
  }
  return false;
}

/// Reports a Work that has not moved for long; ends it after the limit. True if the Seat has failed.
bool check_age(Seat& seat, Work& work, const std::vector<int>& peers) {
  const uint64_t now = now_ns();
  if (work.progress_ns == 0) {
    work.progress_ns = now;
    return false;
  }
  const double waited = static_cast<double>(now - work.progress_ns) * 1e-9;
  const bool over = seat.limits().timeout > 0 && waited >= seat.limits().timeout;
  const bool report = !work.warned && seat.limits().warn_after > 0 && waited >= seat.limits().warn_after;
  if (!over && !report) return false;
  std::vector<int> named;
  std::string text = fmt::format("{} on rank {} has waited {:.1f} s for ", call_name(work.call), seat.rank(), waited);
  text += whom(seat, work, peers, &named);
  if (!work.stand.empty()) text += "; " + work.stand;
  constexpr size_t kNamed = 8;  // more ranks in one line help nobody
  for (size_t i = 0; i < std::min(named.size(), kNamed); ++i) text += "; " + last_act(seat, named[i]);
  if (over) {
    seat.fail_all(fail(Code::remote_error, text + fmt::format("; the limit is RONDE_TIMEOUT={:g} s", seat.limits().timeout), Scope::communicator));
    return true;
  }
  work.warned = true;
  RONDE_WARN("{}", text);
  return false;
}

/// Whether `rank` says that it waits for `peer`.
bool waits_for(Seat& seat, int rank, int peer) {
  return (wait_set(seat.fabric().control(rank))[peer / 64].load(std::memory_order_seq_cst) >> (peer % 64) & 1) != 0;
}

/// Every rank that this one waits for, directly or through others, and in `moving` those of them that are not known to be blocked.
Suspicion closure(Seat& seat, std::vector<int>* moving) {
  Suspicion found;
  found.members = {seat.rank()};
  std::vector<bool> seen(seat.ranks());
  seen[seat.rank()] = true;
  for (size_t i = 0; i < found.members.size(); ++i) {
    const int member = found.members[i];
    const ControlBlock& block = seat.fabric().control(member);
    found.epochs.push_back(block.epoch.load(std::memory_order_seq_cst));  // before what it must still belong to at the end
    if (block.blocked.load(std::memory_order_seq_cst) == 0) {
      moving->push_back(member);
      continue;
    }
    for (int peer = 0; peer < seat.ranks(); ++peer) {
      if (seen[peer] || !waits_for(seat, member, peer)) continue;
      seen[peer] = true;
      found.members.push_back(peer);
    }
  }
  return found;
}

bool unchanged(Seat& seat, const Suspicion& suspicion) {
  for (size_t i = 0; i < suspicion.members.size(); ++i) {
    const ControlBlock& block = seat.fabric().control(suspicion.members[i]);
    if (block.blocked.load(std::memory_order_seq_cst) == 0 || block.epoch.load(std::memory_order_seq_cst) != suspicion.epochs[i]) return false;
  }
  return true;
}

/// The error for a proven cycle: what each member waits in (the first few).
Error cycle_error(Seat& seat, const Suspicion& suspicion) {
  std::vector<int> members = suspicion.members;
  std::sort(members.begin(), members.end());
  std::string text = fmt::format("{} wait for each other and none can go on", rank_list(members));
  constexpr size_t kNamed = 4;
  for (size_t i = 0; i < std::min(members.size(), kNamed); ++i) {
    const ControlBlock& block = seat.fabric().control(members[i]);
    text += fmt::format("; rank {} is in {}", members[i], describe_call(block.waiting_what.load(), block.waiting_count.load()));
  }
  return fail(Code::invalid_usage, text + "; put sends and receives that depend on each other into one group", Scope::communicator);
}

/// Asks the ranks that this one waits for, if they are a closed set, to look once more. One asks for all: the lowest, if others wait for it (if not, they
/// are a smaller set, which has its own lowest).
void suspect(Seat& seat) {
  std::vector<int> moving;
  Suspicion found = closure(seat, &moving);
  if (!moving.empty()) {
    seat.fabric().ask(moving);  // on other hosts they may have stopped
    return;
  }
  if (*std::min_element(found.members.begin(), found.members.end()) != seat.rank()) return;
  if (std::none_of(found.members.begin(), found.members.end(), [&](int member) { return waits_for(seat, member, seat.rank()); })) return;
  for (const int member : found.members) {
    found.asked.push_back(seat.fabric().control(member).probe.fetch_add(1, std::memory_order_seq_cst) + 1);
    seat.fabric().ring(member);
  }
  seat.fabric().ask(found.members);
  seat.suspicion = std::move(found);
}

/// One step of proving that a closed set of blocked ranks waits for itself: ask each to look once more at all it waits for, and see that nobody has
/// moved in between. A rank that moves raises its epoch before it answers again, and what it published before this rank read the epochs is seen by the
/// look that follows the question (between hosts, a look once nothing was under way any more); so if all answer and no epoch has changed, no member can
/// ever move.
void follow_cycle(Seat& seat) {
  Suspicion& s = seat.suspicion;
  if (!s.members.empty() && !unchanged(seat, s)) s = {};
  if (s.members.empty()) {
    suspect(seat);
    return;
  }
  for (size_t i = 0; i < s.members.size(); ++i) {
    if (seat.fabric().control(s.members[i]).probe_answer.load(std::memory_order_seq_cst) >= s.asked[i]) continue;
    seat.fabric().ask(s.members);
    return;
  }
  if (!unchanged(seat, s)) {
    s = {};
    return;
  }
  seat.fail_all(cycle_error(seat, s));
}

}  // namespace

bool take_mail(Seat& seat) {
  ControlBlock& block = seat.control();
  if (block.mail.load(std::memory_order_acquire) != 2) return false;  // pairs with the store in fail_all
  seat.fail(fail(static_cast<Code>(block.mail_code), block.mail_text, Scope::communicator));
  return true;
}

void note_probe(Seat& seat) {
  const uint64_t probe = seat.control().probe.load(std::memory_order_seq_cst);
  seat.settled = false;
  if (!seat.blocked || probe == seat.control().probe_answer.load(std::memory_order_relaxed)) return;  // this rank alone writes the answer
  const std::vector<int> peers = awaited(seat);
  if (probe != seat.probe_seen) {
    seat.probe_seen = probe;
    seat.question = seat.fabric().ask(peers);
  }
  seat.settled = seat.fabric().settled(peers, seat.question);
}

void answer_probe(Seat& seat) {
  if (!seat.blocked) return;
  if (!publish_waits(seat)) seat.control().epoch.fetch_add(1, std::memory_order_seq_cst);
  if (seat.settled) seat.control().probe_answer.store(seat.probe_seen, std::memory_order_seq_cst);  // after the epoch: see follow_cycle
}

void unblock(Seat& seat) {
  if (!seat.blocked) return;
  seat.blocked = false;
  seat.control().epoch.fetch_add(1, std::memory_order_seq_cst);
  seat.control().blocked.store(0, std::memory_order_seq_cst);
}

void look_why(Seat& seat, bool blocking) {
  if (seat.failed() || seat.active.empty() || take_mail(seat)) return;
  bool waits = false;
  std::optional<Hopeless> hopeless;
  for (Work* work : seat.active) {
    if (!seat.has_turn(*work)) continue;
    waits = true;
    const std::vector<int> peers = awaited(*work);
    seat.fabric().refresh(peers);
    if (compare_calls(seat, *work, peers) || check_age(seat, *work, peers)) return;
    if (!hopeless.has_value()) hopeless = cannot_end(seat, *work, peers, blocking);
  }
  if (hopeless.has_value() && hopeless->peer == seat.hopeless) {
    if (hopeless->error.code == Code::invalid_usage) {
      seat.fail_all(hopeless->error);
    } else {
      seat.fail(hopeless->error);
    }
    return;
  }
  seat.hopeless = hopeless.has_value() ? hopeless->peer : -1;
  if (!blocking) return;
  // Works that are not here yet (behind others on a stream, or not taken up by their thread) may free whoever waits.
  if (!waits || seat.works() != static_cast<int>(seat.active.size())) {
    unblock(seat);
    return;
  }
  if (!publish_waits(seat)) seat.control().epoch.fetch_add(1, std::memory_order_seq_cst);
  if (!seat.blocked) {
    seat.blocked = true;
    seat.control().blocked.store(1, std::memory_order_seq_cst);
    return;
  }
  follow_cycle(seat);
}

}  // namespace ronde
