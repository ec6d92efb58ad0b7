#include "transport/net/news.h"

#include <algorithm>

namespace ronde::net {
namespace {

// Index of each kind in News: part of what travels.
enum class Kind : uint8_t { open, listening, refused, look, control, mail, lost };

void put(Writer& out, const OpenNews& n) { out.put(n.link).put(n.attempt).put(n.device); }
void put(Writer& out, const ListeningNews& n) { out.put(n.link).put(n.attempt).put(n.devices).put(n.handle); }
void put(Writer& out, const RefusedNews& n) { out.put(n.link).put(n.attempt).put(n.devices).text(n.why); }
void put(Writer& out, const LookNews& n) { out.put(n.number).put(n.probe); }
void put(Writer& out, const ControlNews& n) {
  out.put(n.state).put(n.in_split).put(n.issued).put(n.splits).put(n.last_what).put(n.last_count).put(n.waiting_what).put(n.waiting_sequence);
  out.put(n.waiting_count).put(n.history).put(n.blocked).put(n.epoch).put(n.number).put(n.probe_answer);
  out.put(static_cast<uint32_t>(n.sent.size()));
  for (const auto& [link, slots] : n.sent) out.put(link).put(slots);
  out.put(static_cast<uint32_t>(n.taken.size()));
  for (const auto& [link, come, taken] : n.taken) out.put(link).put(come).put(taken);
  out.put(static_cast<uint32_t>(n.waits.size()));
  for (const uint64_t word : n.waits) out.put(word);
}
void put(Writer& out, const MailNews& n) { out.put(n.code).text(n.text); }
void put(Writer& out, const LostNews& n) { out.text(n.why); }

ControlNews get_control(Reader& in) {
  ControlNews n;
  n.state = in.get<uint32_t>();
  n.in_split = in.get<uint32_t>();
  for (uint64_t* field : {&n.issued, &n.splits, &n.last_what, &n.last_count, &n.waiting_what, &n.waiting_sequence, &n.waiting_count}) {
    *field = in.get<uint64_t>();
  }
  n.history = in.get<std::array<ControlNews::Record, kCallHistory>>();
  n.blocked = in.get<uint32_t>();
  for (uint64_t* field : {&n.epoch, &n.number, &n.probe_answer}) *field = in.get<uint64_t>();
  for (auto left = in.get<uint32_t>(); left > 0 && in.ok(); --left) {
    const auto link = in.get<int32_t>();
    n.sent.emplace_back(link, in.get<uint64_t>());
  }
  for (auto left = in.get<uint32_t>(); left > 0 && in.ok(); --left) {
    const auto link = in.get<int32_t>();
    const auto come = in.get<uint64_t>();
    n.taken.push_back({link, come, in.get<uint64_t>()});
  }
  for (auto left = in.get<uint32_t>(); left > 0 && in.ok(); --left) n.waits.push_back(in.get<uint64_t>());
  return n;
}

News get(Kind kind, Reader& in) {
  const auto link = kind <= Kind::refused ? in.get<int32_t>() : 0;
  const auto attempt = kind <= Kind::refused ? in.get<int32_t>() : 0;
  const auto devices = kind <= Kind::refused ? in.get<int32_t>() : 0;
  switch (kind) {
    case Kind::open: return OpenNews{link, attempt, devices};
    case Kind::listening: return ListeningNews{link, attempt, devices, in.get<Handle>()};
    case Kind::refused: return RefusedNews{link, attempt, devices, in.text()};
    case Kind::look: {
      const auto number = in.get<uint64_t>();
      return LookNews{number, in.get<uint64_t>()};
    }
    case Kind::control: return get_control(in);
    case Kind::lost: return LostNews{in.text()};
    case Kind::mail: break;
  }
  MailNews mail;
  mail.code = in.get<uint32_t>();
  mail.text = in.text();
  return mail;
}

}  // namespace

bool takes_nothing_more(uint32_t state) {
  return state != static_cast<uint32_t>(RankState::joining) && state != static_cast<uint32_t>(RankState::alive);
}

Bytes pack(const News& news) {
  Writer out;
  out.put(static_cast<uint8_t>(news.index()));
  std::visit([&](const auto& n) { put(out, n); }, news);
  return out.take();
}

std::optional<News> unpack(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const auto kind = in.get<uint8_t>();
  if (!in.ok() || kind > static_cast<uint8_t>(Kind::lost)) return std::nullopt;
  News news = get(static_cast<Kind>(kind), in);
  if (!in.ok()) return std::nullopt;
  return news;
}

ControlNews read_control(ControlBlock& block, int ranks) {
  ControlNews n;
  n.state = block.state.load(std::memory_order_seq_cst);
  n.in_split = block.in_split.load(std::memory_order_seq_cst);
  n.issued = block.issued.load(std::memory_order_seq_cst);
  n.splits = block.splits.load(std::memory_order_seq_cst);
  n.last_what = block.last_what.load(std::memory_order_relaxed);  // for texts alone, as the next
  n.last_count = block.last_count.load(std::memory_order_relaxed);
  n.waiting_what = block.waiting_what.load(std::memory_order_seq_cst);
  n.waiting_sequence = block.waiting_sequence.load(std::memory_order_seq_cst);
  n.waiting_count = block.waiting_count.load(std::memory_order_seq_cst);
  for (size_t i = 0; i < n.history.size(); ++i) {
    const CallRecord& record = block.history[i];
    const uint64_t before = record.version.load(std::memory_order_seq_cst);  // a sequence lock: see Seat::publish
    n.history[i] = {before, record.what.load(std::memory_order_seq_cst), record.count.load(std::memory_order_seq_cst),
                    record.fingerprint.load(std::memory_order_seq_cst)};
    if (before % 2 != 0 || record.version.load(std::memory_order_seq_cst) != before) n.history[i].version = 0;
  }
  n.epoch = block.epoch.load(std::memory_order_seq_cst);  // first: what follows may be newer than it, which a later look shows, but not older
  n.blocked = block.blocked.load(std::memory_order_seq_cst);
  n.waits.resize(wait_words(ranks));
  for (size_t i = 0; i < n.waits.size(); ++i) n.waits[i] = wait_set(block)[i].load(std::memory_order_seq_cst);
  return n;
}

void write_control(ControlBlock& mirror, int ranks, const ControlNews& news) {
  for (size_t i = 0; i < news.history.size(); ++i) {
    const ControlNews::Record& from = news.history[i];
    CallRecord& to = mirror.history[i];
    if (from.version == 0 || from.version == to.version.load(std::memory_order_relaxed)) continue;  // this thread alone writes it
    to.version.store(from.version - 1, std::memory_order_seq_cst);
    to.what.store(from.what, std::memory_order_seq_cst);
    to.count.store(from.count, std::memory_order_seq_cst);
    to.fingerprint.store(from.fingerprint, std::memory_order_seq_cst);
    to.version.store(from.version, std::memory_order_seq_cst);
  }
  mirror.issued.store(news.issued, std::memory_order_seq_cst);
  mirror.splits.store(news.splits, std::memory_order_seq_cst);
  mirror.in_split.store(news.in_split, std::memory_order_seq_cst);
  mirror.last_what.store(news.last_what, std::memory_order_relaxed);
  mirror.last_count.store(news.last_count, std::memory_order_relaxed);
  mirror.waiting_what.store(news.waiting_what, std::memory_order_seq_cst);
  mirror.waiting_sequence.store(news.waiting_sequence, std::memory_order_seq_cst);
  mirror.waiting_count.store(news.waiting_count, std::memory_order_seq_cst);
  const size_t words = std::min(news.waits.size(), wait_words(ranks));
  for (size_t i = 0; i < words; ++i) wait_set(mirror)[i].store(news.waits[i], std::memory_order_seq_cst);
  mirror.blocked.store(news.blocked, std::memory_order_seq_cst);
  mirror.epoch.store(news.epoch, std::memory_order_seq_cst);                // after what belongs to it, as the rank itself does
  mirror.probe_answer.store(news.probe_answer, std::memory_order_seq_cst);  // after the epoch, likewise
}

}  // namespace ronde::net
