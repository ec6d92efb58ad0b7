// Connections of the network "IB" for tests in the virtual machine, where rxe0 and its fellows reach each other.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/verbs/receiver.h"
#include "transport/verbs/sender.h"
#include "unit/net_pairs.h"

namespace ronde::test {

inline constexpr double kPatience = 60;  // seconds; an emulated machine is slow, and slower beside others

inline std::shared_ptr<net::Net> open_ib(Settings more = {}) {
  more.insert({"RONDE_SOCKET_IFNAME", "=lo"});
  more.insert({"RONDE_IB_TIMEOUT", "14"});
  more.insert({"RONDE_IB_RETRY_CNT", "4"});
  std::string why;
  auto opened = net::providers().front().open(*config_of(more), &why);
  INFO(why);
  if (!opened.ok()) FAIL(opened.error().what);
  REQUIRE(*opened != nullptr);
  REQUIRE((*opened)->name() == "IB");
  return *opened;
}

/// A connection from rxe0 to rxe1 with memory for messages: each end has `rooms` of `room` bytes.
class Traffic {
 public:
  Traffic(net::Net& from, net::Net& to, size_t rooms, size_t room, int sender = 0, int receiver = 1)
      : rooms_(rooms), room_(room), out_(rooms * room), in_(rooms * room) {
    auto listener = to.listen(receiver);
    REQUIRE(listener.ok());
    auto connected = from.connect(sender, (*listener)->handle());
    REQUIRE(connected.ok());
    pair_.sender = std::move(*connected);
    const Deadline limit = Deadline::in(kPatience);
    while (!pair_.step(**listener)) REQUIRE_FALSE(limit.passed());
    const auto sends = pair_.sender->use(out_), receives = pair_.receiver->use(in_);
    if (!sends.ok()) FAIL(sends.error().what);
    if (!receives.ok()) FAIL(receives.error().what);
  }

  net::VerbsSender& sender() { return static_cast<net::VerbsSender&>(*pair_.sender); }
  net::VerbsReceiver& receiver() { return static_cast<net::VerbsReceiver&>(*pair_.receiver); }

  /// Carries messages of these sizes; calls `disturb(came)` after each that has come. The first error's text, "" where all has
  /// come and ended.
  std::string carry(const std::vector<size_t>& sizes, const std::function<void(size_t)>& disturb = nullptr) {
    size_t posted = 0, sent = 0, came = 0, ended = 0;
    const Deadline limit = Deadline::in(kPatience);
    while (came != sizes.size() || ended != sizes.size()) {
      if (limit.passed())
        return "it takes too long: " + std::to_string(came) + " have come, " + std::to_string(ended) + " have ended";
      pair_.signal();
      for (; posted != sizes.size() && posted < came + rooms_; ++posted) {
        std::fill_n(in_.begin() + at(posted), room_, std::byte{0x5a});
        const auto post = pair_.receiver->post(std::span(in_).subspan(static_cast<size_t>(at(posted)), room_));
        if (!post.ok()) return post.error().what;
        if (!*post) break;
      }
      for (; sent != sizes.size() && sent < ended + rooms_; ++sent) {
        const auto message = pattern(sizes[sent], sent + seed_);
        std::copy(message.begin(), message.end(), out_.begin() + at(sent));
        const auto span = std::span(out_).subspan(static_cast<size_t>(at(sent)), sizes[sent]);
        const auto post = pair_.sender->post(span.first(sizes[sent] / 3), span.subspan(sizes[sent] / 3));
        if (!post.ok()) return post.error().what;
        if (!*post) break;
      }
      const auto end = pair_.sender->done();
      if (!end.ok()) return end.error().what;
      if (*end) ++ended;
      const auto bytes = pair_.receiver->done();
      if (!bytes.ok()) return bytes.error().what;
      if (!bytes->has_value()) continue;
      const std::string wrong = check(came, sizes[came], **bytes);
      if (!wrong.empty()) return wrong;
      if (disturb) disturb(came);
      ++came;
    }
    seed_ += sizes.size();
    return "";
  }

 private:
  ptrdiff_t at(size_t number) const { return static_cast<ptrdiff_t>(number % rooms_ * room_); }

  std::string check(size_t number, size_t wanted, size_t bytes) const {
    const std::string name = "message " + std::to_string(number) + ": ";
    if (bytes != wanted) return name + std::to_string(bytes) + " bytes instead of " + std::to_string(wanted);
    const auto message = pattern(bytes, number + seed_);
    if (!std::equal(message.begin(), message.end(), in_.begin() + at(number))) return name + "other bytes";
    const auto behind = in_.begin() + at(number) + static_cast<ptrdiff_t>(bytes);
    const bool clean = std::all_of(behind, in_.begin() + at(number) + static_cast<ptrdiff_t>(room_),
                                   [](std::byte b) { return b == std::byte{0x5a}; });
    return clean ? "" : name + "more than itself was written";
  }

  const size_t rooms_, room_;
  std::vector<std::byte> out_, in_;
  Pair pair_;
  uint64_t seed_ = 0;
};

}  // namespace ronde::test
