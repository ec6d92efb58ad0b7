#include "boot/room.h"

#include <fmt/core.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/lists.h"
#include "base/log.h"
#include "boot/root.h"

namespace ronde {
namespace {

constexpr double kBelieveRefusal = 1;  // seconds: a peer has listened since before it was known
constexpr uint64_t kWatchAfter = 200 * kMillisecond;

Result<> check_size(std::span<const std::byte> message) {
  if (message.size() <= kMaxFrame) return {};
  return fail(Code::invalid_argument,
              fmt::format("{} bytes are too many for one message of the bootstrap: at most {}", message.size(), kMaxFrame));
}

}  // namespace

Room::Room(RoomParts parts, const Token& token, int rank)
    : parts_(std::move(parts)), token_(token), rank_(rank), pid_(getpid()), mailbox_(parts_.family->mailbox(token, rank)) {}

Room::~Room() {
  if (getpid() != pid_) {
    new RoomParts(std::move(parts_));  // a forked child has no thread behind these, and must not touch the parent's locks
    return;
  }
  mailbox_->posts().listen(nullptr, nullptr);
  FrameHeader header;
  header.kind = FrameKind::leave;
  header.token = token_;
  header.from = rank_;
  const auto failed = mailbox_->poison();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || place(peer).process == 0) continue;
    // The connection may be younger than the failure, and the reason tells more than that we have left.
    for (const auto& [exchange, error] : failed) poison(peer, exchange, error);
    header.to = peer;
    if (local(peer)) {
      if (const auto box = parts_.family->mailbox(token_, peer)) box->leave(rank_);
    } else {
      parts_.family->send_last(place(peer).process, header, {});
    }
  }
  parts_.family->close_mailbox(token_, rank_);
}

Patience Room::patience() const {
  return {parts_.abort, deadline_ ? *deadline_ : Deadline::in(parts_.config->seconds(Setting::init_timeout))};
}

std::string Room::name(int peer) const {
  return place(peer).process == 0 ? fmt::format("rank {}", number_of(peer)) : who(number_of(peer), place(peer));
}

Target Room::target(int peer) const {
  Target target;
  target.key = place(peer).process;
  target.place = place(peer);
  target.unix_first = parts_.unix_sockets && place(peer).host == place(rank_).host;
  target.believe_refusal = kBelieveRefusal;
  return target;
}

Result<> Room::usable() const {
  if (getpid() == pid_) return {};
  return fail(Code::invalid_usage, "this communicator belongs to the parent process; make one of its own after fork()");
}

Result<> Room::push(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience) {
  Result<> pushed = local(peer) ? push_local(peer, tag, bytes) : push_remote(peer, tag, bytes, patience);
  if (pushed.ok()) return pushed;
  // A peer that has failed says why before it goes: that tells more than its absence.
  if (std::optional<Error> why = mailbox_->poisoned(exchange_of(tag))) return *std::move(why);
  return pushed;
}

Result<> Room::push_local(int peer, uint64_t tag, std::span<const std::byte> bytes) {
  const auto box = parts_.family->mailbox(token_, peer);
  if (!box) return fail(Code::remote_error, fmt::format("{} has left the communicator", name(peer)), Scope::communicator);
  box->put(rank_, tag, Bytes(bytes.begin(), bytes.end()));
  return {};
}

Result<> Room::push_remote(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience) {
  RONDE_TRY(check_size(bytes));
  Result<std::shared_ptr<Link>> link = parts_.family->reach(target(peer), patience);
  if (!link.ok()) {
    const bool gone = parts_.family->gone(place(peer).process).has_value();
    const std::string what =
        fmt::format("{}{}: {}", name(peer), gone ? " died or has left" : " cannot be reached", link.error().what);
    return fail(Code::remote_error, what, Scope::communicator);
  }
  FrameHeader header;
  header.length = static_cast<uint32_t>(bytes.size());
  header.token = token_;
  header.from = rank_;
  header.to = peer;
  header.tag = tag;
  uint64_t mark = 0;
  if ((*link)->send(header, bytes, &mark) && (*link)->wait_sent(mark, patience)) return {};
  (*link)->wait_end(patience);
  const char* why = patience.aborted() ? "aborted" : (*link)->closed() ? "it died or has left (the connection ended)" : "the time limit has passed";
  return fail(Code::remote_error, fmt::format("sending {} bytes to {}: {}", bytes.size(), name(peer), why), Scope::communicator);
}

std::optional<Error> Room::trouble_with(int peer, uint64_t since) {
  if (trouble_) {
    if (std::optional<Error> error = trouble_()) return error;
  }
  const uint64_t process = place(peer).process;
  if (process == 0 || local(peer)) return std::nullopt;
  if (const std::optional<Error> gone = parts_.family->gone(process)) {
    return fail(Code::remote_error, fmt::format("{} died or has left: {}", name(peer), gone->what), Scope::communicator);
  }
  // Without a connection its death would not be noticed.
  if (now_ns() - since > kWatchAfter && !parts_.family->linked(process)) parts_.family->watch(target(peer));
  return std::nullopt;
}

Result<Bytes> Room::pull(int peer, uint64_t tag, const Patience& patience, const std::function<void()>& meanwhile) {
  const uint64_t since = now_ns();
  Taken taken = mailbox_->take(peer, tag, patience, [&] {
    if (meanwhile) meanwhile();
    return trouble_with(peer, since);
  });
  if (taken.how == Ended::message) return std::move(taken.message);
  if (taken.how == Ended::failed) return std::move(taken.error);
  if (taken.how == Ended::aborted) {
    return fail(Code::remote_error, fmt::format("aborted while rank {} waited for {}", number_of(rank_), name(peer)), Scope::communicator);
  }
  return fail(Code::remote_error,
              fmt::format("rank {} waited {:.1f} s for {}, which did not come", number_of(rank_),
                          static_cast<double>(now_ns() - since) / 1e9, name(peer)),
              Scope::communicator);
}

std::unique_ptr<Room> Room::child(std::span<const int> members, const Token& token, const AbortWord* abort) const {
  RoomParts parts = parts_;
  parts.places.clear();
  parts.abort = abort;
  int rank = -1;
  bool alone = true;
  for (const int member : members) {
    if (member == rank_) rank = static_cast<int>(parts.places.size());
    alone = alone && local(member);
    parts.places.push_back(place(member));
  }
  if (alone) {
    parts.network = nullptr;
    parts.listener = nullptr;
  }
  return std::make_unique<Room>(std::move(parts), token, rank);
}

Patience Room::child_patience(const AbortWord* abort) const {
  return {parts_.abort, Deadline::in(parts_.config->seconds(Setting::init_timeout)), abort};
}

ChildJob Room::split(int color, int key, const AbortWord* abort, std::function<bool()> stopped) {
  const std::lock_guard lock(mutex_);
  return [this, color, key, number = ++splits_, abort, stopped = std::move(stopped)] {
    Patience patience = child_patience(abort);
    patience.stopped = stopped;
    return split_job(color, key, number, patience);
  };
}

Result<std::unique_ptr<Bootstrap>> Room::split_job(int color, int key, uint64_t number, const Patience& patience) {
  struct Choice {
    int color, key;
  };
  std::vector<Choice> choices(static_cast<size_t>(size()));
  choices[static_cast<size_t>(rank_)] = {color, key};
  RONDE_TRY(gather_parts(std::as_writable_bytes(std::span(choices)), {"Split", 0, patience, number}));
  if (color < 0) return std::unique_ptr<Bootstrap>();
  std::vector<int> members;
  for (int peer = 0; peer < size(); ++peer) {
    if (choices[static_cast<size_t>(peer)].color == color) members.push_back(peer);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return choices[static_cast<size_t>(a)].key < choices[static_cast<size_t>(b)].key; });
  const uint64_t seed[2] = {number, static_cast<uint64_t>(color)};
  return std::unique_ptr<Bootstrap>(child(members, keyed_hash(token_, "split", std::as_bytes(std::span(seed))), patience.child));
}

ChildJob Room::shrink(std::span<const int> survivors, const AbortWord* abort) {
  std::vector<int> members(survivors.begin(), survivors.end());
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++shrinks_[members];
  return [this, members = std::move(members), number, abort] { return shrink_job(members, number, abort); };
}

Result<std::unique_ptr<Bootstrap>> Room::shrink_job(const std::vector<int>& survivors, uint64_t number, const AbortWord* abort) {
  RONDE_TRY(usable());
  const bool good = std::is_sorted(survivors.begin(), survivors.end(), std::less_equal<int>()) &&
                    std::binary_search(survivors.begin(), survivors.end(), rank_) && survivors.front() >= 0 &&
                    survivors.back() < size();
  if (!good) {
    return fail(
        Code::invalid_argument,
        fmt::format("the survivors of a shrink must ascend, lie below {}, and include the caller, rank {}", size(), rank_));
  }
  std::vector<uint64_t> seed(survivors.begin(), survivors.end());
  seed.push_back(number);
  std::unique_ptr<Room> room = child(survivors, keyed_hash(token_, "shrink", std::as_bytes(std::span(seed))), abort);
  room->numbers_ = survivors;
  std::vector<std::byte> all(survivors.size());
  RONDE_TRY(room->gather_parts(all, {"Shrink", 0, child_patience(abort)}));
  room->numbers_.clear();
  return std::unique_ptr<Bootstrap>(std::move(room));
}

void Room::listen_posts(OnPost on_post, OnGone on_gone) {
  if (getpid() != pid_) return;
  const auto told = [this, on_gone = std::move(on_gone)](int peer, const Error& why) {
    if (!on_gone) return;
    const std::string what = fmt::format("{} died or cannot be reached any more: {}", name(peer), why.what);
    on_gone(peer, fail(Code::remote_error, what, Scope::communicator));
  };
  mailbox_->posts().listen(std::move(on_post), told);
}

Result<> Room::post(int peer, std::span<const std::byte> message) {
  RONDE_TRY(usable());
  if (peer < 0 || peer >= size()) return fail(Code::invalid_argument, fmt::format("a message to rank {} of {}", peer, size()));
  RONDE_TRY(check_size(message));
  if (local(peer)) {
    if (const auto box = parts_.family->mailbox(token_, peer)) box->posts().put(rank_, Bytes(message.begin(), message.end()));
    return {};
  }
  const uint64_t process = place(peer).process;
  mailbox_->posts().know(peer, process);  // before it is asked for: a death after this is told anyway
  FrameHeader header;
  header.kind = FrameKind::post;
  header.length = static_cast<uint32_t>(message.size());
  header.token = token_;
  header.from = rank_;
  header.to = peer;
  const Patience time{nullptr, Deadline::in(parts_.config->seconds(Setting::init_timeout))};
  if (std::optional<Error> gone = parts_.family->post(target(peer), header, message, time)) {
    // Not here: the caller may hold what its handlers want.
    parts_.network->after(0, [box = mailbox_, process, why = *std::move(gone)] { box->posts().lost(process, why); });
  }
  return {};
}

std::string Room::describe() const {
  std::set<std::string> routes;
  bool same_host = true, local_only = true;
  for (int peer = 0; peer < size(); ++peer) {
    if (local(peer)) continue;
    local_only = false;
    same_host = same_host && place(peer).host == place(rank_).host;
    if (const auto link = parts_.family->linked(place(peer).process)) routes.insert(link->route());
  }
  if (local_only) return "in process";
  if (routes.empty()) return same_host ? "unix socket" : "TCP";
  return comma_list({routes.begin(), routes.end()});
}

Result<> Bootstrap::barrier() {
  std::vector<std::byte> token(static_cast<size_t>(size()));
  return all_gather(token);
}

}  // namespace ronde
