#include "boot/room.h"

#include <fmt/core.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <set>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "boot/root.h"

namespace ronde {
namespace {

constexpr uint64_t kUserTag = uint64_t{1} << 32;  // send and recv; the collectives use the tags below
constexpr double kBelieveRefusal = 1;             // seconds: a peer has listened since before it was known
constexpr uint64_t kWatchAfter = 200 * kMillisecond;

}  // namespace

Room::Room(RoomParts parts, const Token& token, int rank)
    : parts_(std::move(parts)), token_(token), rank_(rank), pid_(getpid()), mailbox_(parts_.family->mailbox(token, rank)) {}

Room::~Room() {
  if (getpid() != pid_) {
    new RoomParts(std::move(parts_));  // a forked child has no thread behind these, and must not touch the parent's locks
    return;
  }
  FrameHeader header;
  header.kind = FrameKind::leave;
  header.token = token_;
  header.from = rank_;
  std::set<uint64_t> told;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || place(peer).process == 0) continue;
    header.to = peer;
    if (local(peer)) {
      if (const auto box = parts_.family->mailbox(token_, peer)) box->leave(rank_);
    } else if (const auto link = parts_.family->linked(place(peer).process)) {
      link->send(header, {});
    }
  }
  parts_.family->close_mailbox(token_, rank_);
}

Patience Room::patience() const {
  return {parts_.abort, deadline_ ? *deadline_ : Deadline::in(parts_.config->seconds(Setting::init_timeout))};
}

std::string Room::name(int peer) const {
  return place(peer).process == 0 ? fmt::format("rank {}", peer) : who(peer, place(peer));
}

Target Room::target(int peer) const {
  Target target;
  target.key = place(peer).process;
  target.place = place(peer);
  target.unix_first = parts_.unix_sockets && place(peer).host == place(rank_).host;
  target.believe_refusal = kBelieveRefusal;
  return target;
}

Result<> Room::usable(int peer) const {
  if (getpid() != pid_)
    return fail(Code::invalid_usage, "this communicator belongs to the parent process; make one of its own after fork()");
  if (peer < 0 || peer >= size()) {
    return fail(Code::invalid_argument, fmt::format("there is no rank {} among {} ranks", peer, size()));
  }
  return {};
}

Result<> Room::push(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience) {
  Result<> pushed = local(peer) ? push_local(peer, tag, bytes) : push_remote(peer, tag, bytes, patience);
  if (pushed.ok()) return pushed;
  // A peer that has failed says why before it goes: that tells more than its absence.
  if (std::optional<Error> why = mailbox_->poisoned()) return *std::move(why);
  return pushed;
}

Result<> Room::push_local(int peer, uint64_t tag, std::span<const std::byte> bytes) {
  const auto box = parts_.family->mailbox(token_, peer);
  if (!box) return fail(Code::remote_error, fmt::format("{} has left the communicator", name(peer)), Scope::communicator);
  box->put(rank_, tag, Bytes(bytes.begin(), bytes.end()));
  return {};
}

Result<> Room::push_remote(int peer, uint64_t tag, std::span<const std::byte> bytes, const Patience& patience) {
  if (bytes.size() > kMaxFrame) {
    return fail(Code::invalid_argument,
                fmt::format("{} bytes are too many for one message of the bootstrap: at most {}", bytes.size(), kMaxFrame));
  }
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

Result<Bytes> Room::pull(int peer, uint64_t tag, const Patience& patience) {
  const uint64_t since = now_ns();
  Taken taken = mailbox_->take(peer, tag, patience, [&] { return trouble_with(peer, since); });
  if (taken.how == Ended::message) return std::move(taken.message);
  if (taken.how == Ended::failed) return std::move(taken.error);
  if (taken.how == Ended::aborted) {
    return fail(Code::remote_error, fmt::format("aborted while rank {} waited for {}", rank_, name(peer)), Scope::communicator);
  }
  return fail(Code::remote_error,
              fmt::format("rank {} waited {:.1f} s for {}, which did not come", rank_,
                          static_cast<double>(now_ns() - since) / 1e9, name(peer)),
              Scope::communicator);
}

Result<> Room::send(int peer, uint32_t tag, std::span<const std::byte> bytes) {
  RONDE_TRY(usable(peer));
  return push(peer, kUserTag | tag, bytes, patience());
}

Result<> Room::recv(int peer, uint32_t tag, std::span<std::byte> bytes) {
  RONDE_TRY(usable(peer));
  RONDE_TRY(const Bytes message, pull(peer, kUserTag | tag, patience()));
  if (message.size() != bytes.size()) {
    return fail(Code::invalid_usage,
                fmt::format("rank {} expected {} bytes from {}, which sent {}", rank_, bytes.size(), name(peer), message.size()));
  }
  std::copy(message.begin(), message.end(), bytes.begin());
  return {};
}

Result<> Room::unpack_round(std::span<const std::byte> message, int from, const char* what, uint64_t shape, int count,
                            Blobs& blobs) {
  Reader in(message);
  const std::string theirs = in.text();
  const auto their_shape = in.get<uint64_t>();
  const auto their_count = in.get<uint32_t>();
  if (theirs != what || their_shape != shape || their_count != static_cast<uint32_t>(count)) {
    return fail(Code::invalid_usage,
                fmt::format("the ranks are in different calls of the bootstrap: rank {} in {} ({} bytes), {} in {} ({} bytes)",
                            rank_, what, shape, name(from), theirs, their_shape),
                Scope::communicator);
  }
  for (int i = 0; i < count; ++i) {
    const auto blob = in.blob();
    blobs[static_cast<size_t>((from + i) % size())].assign(blob.begin(), blob.end());
  }
  if (!in.ok())
    return fail(Code::internal_error, fmt::format("{} sent a message that cannot be read", name(from)), Scope::communicator);
  return {};
}

Result<> Room::gather_rounds(Blobs& blobs, const char* what, uint64_t shape, const Patience& patience) {
  const int n = size();
  for (int have = 1, round = 0; have < n; have *= 2, ++round) {
    // Bruck: I hold the blobs of `have` ranks from mine on; the rank `have` below needs them, the one `have` above has the next.
    const int count = std::min(have, n - have);
    Writer out;
    out.text(what).put(shape).put(static_cast<uint32_t>(count));
    for (int i = 0; i < count; ++i) out.blob(blobs[static_cast<size_t>((rank_ + i) % n)]);
    RONDE_TRY(push((rank_ - have + n) % n, static_cast<uint64_t>(round), out.take(), patience));
    const int from = (rank_ + have) % n;
    RONDE_TRY(const Bytes message, pull(from, static_cast<uint64_t>(round), patience));
    RONDE_TRY(unpack_round(message, from, what, shape, count, blobs));
  }
  return {};
}

Result<> Room::gather(Blobs& blobs, const char* what, uint64_t shape) {
  RONDE_TRY(usable(rank_));
  const Patience limit = patience();
  Result<> result = gather_rounds(blobs, what, shape, limit);
  if (!result.ok() && !limit.aborted()) spread(result.error());
  return result;
}

/// A rank that waits for us would else learn only that we did not come, not why.
void Room::spread(const Error& error) {
  Writer out;
  pack_error(out, error);
  const Bytes message = out.take();
  FrameHeader header;
  header.kind = FrameKind::poison;
  header.length = static_cast<uint32_t>(message.size());
  header.token = token_;
  header.from = rank_;
  for (int peer = 0; peer < size(); ++peer) {
    header.to = peer;
    if (place(peer).process == 0) continue;
    if (local(peer)) {
      if (const auto box = parts_.family->mailbox(token_, peer)) box->poison(error);
    } else if (const auto link = parts_.family->linked(place(peer).process)) {
      link->send(header, message);
    }
  }
}

Result<> Room::all_gather(std::span<std::byte> all) {
  if (all.size() % static_cast<size_t>(size()) != 0) {
    return fail(Code::invalid_argument,
                fmt::format("an all-gather of {} bytes over {} ranks: the parts are not equal", all.size(), size()));
  }
  const size_t part = all.size() / static_cast<size_t>(size());
  Blobs blobs(static_cast<size_t>(size()));
  const auto mine = all.subspan(part * static_cast<size_t>(rank_), part);
  blobs[static_cast<size_t>(rank_)].assign(mine.begin(), mine.end());
  RONDE_TRY(gather(blobs, "AllGather", part));
  for (size_t peer = 0; peer < blobs.size(); ++peer) {
    if (blobs[peer].size() != part) return fail(Code::internal_error, fmt::format("rank {} gave a part of another size", peer));
    std::copy(blobs[peer].begin(), blobs[peer].end(), all.begin() + static_cast<ptrdiff_t>(peer * part));
  }
  return {};
}

Result<> Room::introduce(std::function<std::optional<Error>()> trouble) {
  Blobs blobs(static_cast<size_t>(size()));
  Writer mine;
  pack(mine, place(rank_));
  blobs[static_cast<size_t>(rank_)] = mine.take();
  trouble_ = std::move(trouble);
  Result<> result = gather(blobs, "init", 0);
  trouble_ = nullptr;
  if (!result.ok()) return result;
  for (size_t peer = 0; peer < blobs.size(); ++peer) {
    Reader in(blobs[peer]);
    parts_.places[peer] = unpack_place(in);
    if (!in.ok()) return fail(Code::internal_error, fmt::format("the place of rank {} cannot be read", peer));
  }
  return {};
}

Result<std::unique_ptr<Bootstrap>> Room::child(std::span<const int> members, const Token& token) const {
  RoomParts parts = parts_;
  parts.places.clear();
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
  auto room = std::make_unique<Room>(std::move(parts), token, rank);
  if (deadline_) room->set_deadline(*deadline_);
  return std::unique_ptr<Bootstrap>(std::move(room));
}

Result<std::unique_ptr<Bootstrap>> Room::split(int color, int key) {
  struct Choice {
    int color, key;
  };
  std::vector<Choice> choices(static_cast<size_t>(size()));
  choices[static_cast<size_t>(rank_)] = {color, key};
  RONDE_TRY(all_gather(std::as_writable_bytes(std::span(choices))));
  ++splits_;
  if (color < 0) return std::unique_ptr<Bootstrap>();
  std::vector<int> members;
  for (int peer = 0; peer < size(); ++peer) {
    if (choices[static_cast<size_t>(peer)].color == color) members.push_back(peer);
  }
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return choices[static_cast<size_t>(a)].key < choices[static_cast<size_t>(b)].key; });
  const uint64_t seed[2] = {splits_, static_cast<uint64_t>(color)};
  return child(members, keyed_hash(token_, "split", std::as_bytes(std::span(seed))));
}

Result<std::unique_ptr<Bootstrap>> Room::shrink(std::span<const int> survivors) {
  RONDE_TRY(usable(rank_));
  const bool good = std::is_sorted(survivors.begin(), survivors.end(), std::less_equal<int>()) &&
                    std::binary_search(survivors.begin(), survivors.end(), rank_) && survivors.front() >= 0 &&
                    survivors.back() < size();
  if (!good) {
    return fail(
        Code::invalid_argument,
        fmt::format("the survivors of a shrink must ascend, lie below {}, and include the caller, rank {}", size(), rank_));
  }
  uint64_t list = fnv1a("");
  for (const int survivor : survivors) list = fnv1a_u64(static_cast<uint64_t>(survivor), list);
  const uint64_t seed[2] = {list, ++shrinks_[list]};
  RONDE_TRY(std::unique_ptr<Bootstrap> room, child(survivors, keyed_hash(token_, "shrink", std::as_bytes(std::span(seed)))));
  RONDE_TRY(room->barrier());
  return room;
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
