#include "bench/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace ronde::bench {
namespace {

constexpr size_t kBlock = 8192;  // elements expected at a time: they stay in the cache while all ranks are compared with them

}  // namespace

Verifier::Verifier(const Collective& collective, const Shape& shape, const Inputs& inputs, ncclDataType_t type, int nranks,
                   int root, std::vector<Checked> local)
    : collective_(collective),
      shape_(shape),
      inputs_(inputs),
      type_(type),
      nranks_(nranks),
      root_(root),
      local_(std::move(local)),
      tallies_(local_.size()) {}

void Verifier::run(int thread, int threads) {
  const auto parts = static_cast<size_t>(threads);
  const auto part = static_cast<size_t>(thread);
  const size_t share = local_.size() / parts;
  if (collective_.same_everywhere) {
    // One expectation for all ranks: the threads divide the elements, not the ranks.
    for (const Piece& piece : collective_.result(shape_, 0, nranks_, root_)) check_piece(piece, 0, local_.size(), part, parts);
  } else {
    for (size_t i = part * share; i < (part + 1) * share; ++i) {
      for (const Piece& piece : collective_.result(shape_, local_[i].rank, nranks_, root_)) check_piece(piece, i, i + 1, 0, 1);
    }
  }
  for (size_t i = part * share; i < (part + 1) * share; ++i) check_rest(i);
}

void Verifier::check_piece(const Piece& piece, size_t first_local, size_t end_local, size_t part, size_t parts) {
  std::vector<std::byte> expected(std::min(kBlock, piece.count) * type_size(type_));
  for (size_t done = part * kBlock; done < piece.count; done += parts * kBlock) {
    const size_t count = std::min(kBlock, piece.count - done);
    if (piece.source == Piece::kReduced) {
      inputs_.reduced(piece.first + done, count, expected.data());
    } else {
      inputs_.input(piece.source, piece.first + done, count, expected.data());
    }
    for (size_t i = first_local; i < end_local; ++i) compare(i, piece.at + done, expected.data(), count);
  }
}

void Verifier::compare(size_t local, size_t at, const std::byte* expected, size_t count) {
  const size_t size = type_size(type_);
  const std::byte* got = static_cast<const std::byte*>(local_[local].recv) + at * size;
  if (std::memcmp(got, expected, count * size) == 0) return;
  Tally& tally = tallies_[local];
  const std::lock_guard lock(tally.mutex);
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(got + i * size, expected + i * size, size) == 0) continue;
    if (tally.got.empty() || at + i < tally.first) {
      tally.first = at + i;
      tally.got = element_text(type_, got + i * size);
      tally.expected = element_text(type_, expected + i * size);
    }
    ++tally.wrong;
  }
}

void Verifier::check_rest(size_t local) {
  const Checked& checked = local_[local];
  Tally& tally = tallies_[local];
  std::array<unsigned char, kGuardBytes> junk{};
  junk.fill(kJunk);
  if (std::memcmp(checked.guard, junk.data(), kGuardBytes) != 0) {
    ++tally.wrong;
    tally.elsewhere = "the memory behind the receive buffer was written";
  }
  if (checked.send == nullptr) return;
  const size_t size = type_size(type_);
  std::vector<std::byte> sent(std::min(kBlock, shape_.send) * size);
  for (size_t done = 0; done < shape_.send; done += kBlock) {
    const size_t count = std::min(kBlock, shape_.send - done);
    inputs_.input(checked.rank, done, count, sent.data());
    if (std::memcmp(static_cast<const std::byte*>(checked.send) + done * size, sent.data(), count * size) == 0) continue;
    ++tally.wrong;
    tally.elsewhere = "the send buffer was written";
  }
}

std::string Verifier::first_wrong(size_t local) const {
  const Tally& tally = tallies_[local];
  std::string text = fmt::format("rank {}: ", local_[local].rank);
  if (!tally.got.empty()) {
    text += fmt::format("{} wrong, the first at index {}: got {}, expected {}", tally.wrong.load(), tally.first, tally.got,
                        tally.expected);
    if (tally.elsewhere.empty()) return text;
    text += "; ";
  }
  return text + tally.elsewhere;
}

}  // namespace ronde::bench
