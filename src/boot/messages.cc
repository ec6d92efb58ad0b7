#include "boot/messages.h"

namespace ronde {

// Not inlined: g++ 12 takes what is appended to a vector that it sees growing for a write past its end.
[[gnu::noinline]] Writer& Writer::append(std::span<const std::byte> bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  return *this;
}

Bytes JoinMessage::pack() const {
  Writer out;
  out.put(protocol).put(version).put(rank).put(ranks).put(ids).put(ids_hash);
  ronde::pack(out, place);
  return out.take();
}

JoinMessage JoinMessage::unpack(std::span<const std::byte> bytes, bool* ok) {
  Reader in(bytes);
  JoinMessage message;
  message.protocol = in.get<uint32_t>();
  message.version = in.get<uint32_t>();
  message.rank = in.get<int32_t>();
  message.ranks = in.get<int32_t>();
  message.ids = in.get<uint32_t>();
  message.ids_hash = in.get<uint64_t>();
  message.place = unpack_place(in);
  *ok = in.ok();
  return message;
}

Bytes Reply::pack() const {
  Writer out;
  out.put(kind).put(token).put(static_cast<uint8_t>(one_process)).put(static_cast<uint32_t>(neighbours.size()));
  for (const auto& [rank, place] : neighbours) {
    out.put(rank);
    ronde::pack(out, place);
  }
  pack_error(out, error);
  return out.take();
}

Reply Reply::unpack(std::span<const std::byte> bytes) {
  Reader in(bytes);
  Reply reply;
  reply.kind = in.get<Kind>();
  reply.token = in.get<Token>();
  reply.one_process = in.get<uint8_t>() != 0;
  const auto count = in.get<uint32_t>();
  for (uint32_t i = 0; i < count && in.ok(); ++i) {
    const auto rank = in.get<int32_t>();
    reply.neighbours.emplace_back(rank, unpack_place(in));
  }
  const int code = in.get<int32_t>();
  std::string what = in.text();
  if (!in.ok()) {
    reply.kind = Kind::failed;
    reply.error = fail(Code::internal_error, "the root of the bootstrap sent something that cannot be read", Scope::communicator);
  } else {
    reply.error = fail(static_cast<Code>(code), std::move(what), Scope::communicator);
  }
  return reply;
}

void pack_error(Writer& out, const Error& error) { out.put(static_cast<int32_t>(error.code)).text(error.what); }

Error unpack_error(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const int code = in.get<int32_t>();
  std::string what = in.text();
  return fail(static_cast<Code>(code), std::move(what), Scope::communicator);
}

}  // namespace ronde
