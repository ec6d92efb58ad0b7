// The all-gather of a Room: rounds, how a failure reaches everybody, and who is missing when the time is over.
#include <fmt/core.h>
#include <algorithm>

#include "base/clock.h"
#include "base/lists.h"
#include "boot/address.h"
#include "boot/messages.h"
#include "boot/room.h"
#include "boot/root.h"

namespace ronde {
namespace {

// Beside the rounds of an exchange: "are you in it?", and "I am".
constexpr uint64_t kRoll = (uint64_t{1} << kTagBits) - 2;
constexpr uint64_t kHere = kRoll + 1;
constexpr double kRollTime = 1;  // seconds in which a rank must answer

}  // namespace

Result<> Room::unpack_round(std::span<const std::byte> message, int from, const Exchange& exchange, int count, Blobs& blobs) {
  Reader in(message);
  const std::string theirs = in.text();
  const auto their_shape = in.get<uint64_t>();
  const auto their_count = in.get<uint32_t>();
  if (theirs != exchange.what || their_shape != exchange.shape || their_count != static_cast<uint32_t>(count)) {
    return fail(Code::invalid_usage,
                fmt::format("the ranks are in different calls of the bootstrap: rank {} in {} ({} bytes), {} in {} ({} bytes)",
                            number_of(rank_), exchange.what, exchange.shape, name(from), theirs, their_shape),
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

Result<> Room::gather_rounds(Blobs& blobs, const Exchange& exchange) {
  const int n = size();
  const auto meanwhile = [&] { answer_roll(exchange); };
  for (int have = 1, round = 0; have < n; have *= 2, ++round) {
    // Bruck: I hold the blobs of `have` ranks from mine on; the rank `have` below needs them, the one `have` above has the next.
    const int count = std::min(have, n - have);
    const uint64_t tag = exchange.tag(static_cast<uint64_t>(round));
    Writer out;
    out.text(exchange.what).put(exchange.shape).put(static_cast<uint32_t>(count));
    for (int i = 0; i < count; ++i) out.blob(blobs[static_cast<size_t>((rank_ + i) % n)]);
    RONDE_TRY(push((rank_ - have + n) % n, tag, out.take(), exchange.patience));
    const int from = (rank_ + have) % n;
    Result<Bytes> message = pull(from, tag, exchange.patience, meanwhile);
    if (!message.ok()) {
      const bool late = exchange.patience.deadline.passed() && !exchange.patience.aborted() && !mailbox_->poisoned(exchange.number);
      return late ? call_roll(blobs, exchange, std::move(message).error()) : std::move(message).error();
    }
    RONDE_TRY(unpack_round(*message, from, exchange, count, blobs));
  }
  return {};
}

Result<> Room::gather(Blobs& blobs, const Exchange& exchange) {
  RONDE_TRY(usable());
  // The messages of those who have given up would let a rank that comes late succeed alone.
  if (std::optional<Error> why = mailbox_->poisoned(exchange.number)) return *std::move(why);
  Result<> result = gather_rounds(blobs, exchange);
  // Who aborts a communicator says that he leaves it; who aborts the making of one says it here.
  if (!result.ok() && (exchange.patience.child != nullptr || !exchange.patience.aborted())) spread(result.error(), exchange.number);
  return result;
}

/// A small message without payload, if that needs no waiting; else begins what it takes.
bool Room::tell(int peer, uint64_t tag) {
  if (place(peer).process == 0) return false;
  if (local(peer)) return push_local(peer, tag, {}).ok();
  const auto link = parts_.family->linked(place(peer).process);
  if (!link) {
    parts_.family->watch(target(peer));
    return false;
  }
  FrameHeader header;
  header.token = token_;
  header.from = rank_;
  header.to = peer;
  header.tag = tag;
  return link->send(header, {});
}

void Room::answer_roll(const Exchange& exchange) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_ && mailbox_->poll(peer, exchange.tag(kRoll))) tell(peer, exchange.tag(kHere));
  }
}

/// The time is over. The rank that did not come may be missed by others than this one, which waits for a rank that waits for it: asks
/// all. `late` is what this rank knows by itself.
Error Room::call_roll(const Blobs& blobs, const Exchange& exchange, Error late) {
  if (trouble_) return late;  // in an init the root knows
  const double waited = static_cast<double>(now_ns() - exchange.since) / 1e9;
  const Patience grace{exchange.patience.abort, Deadline::in(kRollTime), exchange.patience.child};
  std::vector<bool> asked(static_cast<size_t>(size()));
  const auto attend = [&]() -> std::optional<Error> {
    answer_roll(exchange);
    for (int peer = 0; peer < size(); ++peer) {
      const auto i = static_cast<size_t>(peer);
      if (peer != rank_ && blobs[i].empty() && !asked[i]) asked[i] = tell(peer, exchange.tag(kRoll));
    }
    return std::nullopt;
  };
  attend();
  std::vector<int> missing;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || !blobs[static_cast<size_t>(peer)].empty()) continue;
    const Taken taken = mailbox_->take(peer, exchange.tag(kHere), grace, attend);
    if (taken.how == Ended::message) continue;
    // Another rank was quicker with the verdict, or nobody wants it any more.
    if (const std::optional<Error> verdict = mailbox_->poisoned(exchange.number)) return *verdict;
    if (taken.how == Ended::aborted) return late;
    missing.push_back(number_of(peer));
  }
  if (missing.empty()) return late;
  return fail(Code::remote_error,
              fmt::format("{} did not come to {} within {:.1f} s of the call of rank {}; does every rank make this call? "
                          "RONDE_INIT_TIMEOUT sets the time",
                          rank_list(missing), exchange.what, waited, number_of(rank_)),
              Scope::communicator);
}

/// A rank that waits for us would else learn only that we did not come, not why.
void Room::spread(const Error& error, uint64_t number) {
  for (int peer = 0; peer < size(); ++peer) {
    if (place(peer).process != 0) poison(peer, number, error);
  }
}

void Room::poison(int peer, uint64_t number, const Error& error) {
  if (local(peer)) {
    if (const auto box = parts_.family->mailbox(token_, peer)) box->poison(number, error);
    return;
  }
  const auto link = parts_.family->linked(place(peer).process);
  if (!link) return;
  Writer out;
  pack_error(out, error);
  const Bytes message = out.take();
  FrameHeader header;
  header.kind = FrameKind::poison;
  header.length = static_cast<uint32_t>(message.size());
  header.token = token_;
  header.from = rank_;
  header.to = peer;
  header.tag = number << kTagBits;
  link->send(header, message);
}

Result<> Room::all_gather(std::span<std::byte> all) {
  if (all.size() % static_cast<size_t>(size()) != 0) {
    return fail(Code::invalid_argument,
                fmt::format("an all-gather of {} bytes over {} ranks: the parts are not equal", all.size(), size()));
  }
  return gather_parts(all, {"AllGather", all.size() / static_cast<size_t>(size()), patience()});
}

Result<std::vector<Bytes>> Room::all_gather_parts(Bytes mine) {
  Blobs blobs(static_cast<size_t>(size()));
  mine.push_back(std::byte{0});  // an empty blob is one that has not come
  blobs[static_cast<size_t>(rank_)] = std::move(mine);
  RONDE_TRY(gather(blobs, {"AllGather of parts", 0, patience()}));
  for (Bytes& blob : blobs) blob.pop_back();
  return blobs;
}

Result<> Room::gather_parts(std::span<std::byte> all, const Exchange& exchange) {
  const size_t part = all.size() / static_cast<size_t>(size());
  Blobs blobs(static_cast<size_t>(size()));
  const auto mine = all.subspan(part * static_cast<size_t>(rank_), part);
  blobs[static_cast<size_t>(rank_)].assign(mine.begin(), mine.end());
  RONDE_TRY(gather(blobs, exchange));
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
  Result<> result = gather(blobs, {"init", 0, patience()});
  trouble_ = nullptr;
  if (!result.ok()) return result;
  for (size_t peer = 0; peer < blobs.size(); ++peer) {
    Reader in(blobs[peer]);
    parts_.places[peer] = unpack_place(in);
    if (!in.ok()) return fail(Code::internal_error, fmt::format("the place of rank {} cannot be read", peer));
  }
  return {};
}

}  // namespace ronde
