#include "transport/verbs/sender.h"

#include <sys/timerfd.h>
#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/integers.h"
#include "base/log.h"

namespace ronde::net {
namespace {

constexpr uint64_t kFirstPause = 50 * kMillisecond;  // before the second attempt to mend; twice as much before each further one
constexpr uint64_t kMostPause = 2 * kSecond;
constexpr uint64_t kPatience = 500 * kMillisecond;  // between two looks at how long the peer takes to answer

}  // namespace

std::vector<int> VerbsSender::descriptors() const {
  return dial_ != nullptr ? dial_->descriptors() : std::vector<int>{gate_.descriptor()};
}

void VerbsSender::signalled() {
  news_ = true;
  gate_.clear();
}

Result<> VerbsSender::use(std::span<std::byte> memory) {
  used_.push_back(memory);
  return line_->use(memory);
}

std::string VerbsSender::describe() const {
  if (dial_ != nullptr) return dial_->describe();
  if (line_ == nullptr || line_->there().empty()) return fmt::format("connecting over {}", port().device.name);
  return fmt::format("{} to {}, {} queue pair{}", line_->here(), line_->there(), line_->queues(),
                     line_->queues() == 1 ? "" : "s");
}

Result<bool> VerbsSender::ready() {
  if (error_.has_value()) return *error_;
  news_ = true;
  Result<> moved = move();
  if (!moved.ok()) return *(error_ = std::move(moved).error());
  return stage_ == Stage::up;
}

// While nothing is to be sent nobody asks: what comes is taken here.
Result<bool> VerbsSender::arm() {
  if (line_ == nullptr) return true;
  const uint64_t before = changes_;
  if (!error_.has_value()) {
    Result<> moved = move();
    if (!moved.ok()) error_ = std::move(moved).error();
  }
  if (error_.has_value()) return *error_;
  if (changes_ != before) return false;  // there may be room for a message now, or one has ended
  return line_->arm();
}

Result<bool> VerbsSender::post(std::span<const std::byte> head, std::span<const std::byte> data) {
  if (error_.has_value()) return *error_;
  if (stage_ == Stage::up && posted_ >= rooms_) {
    Result<> moved = move();
    if (!moved.ok()) return *(error_ = std::move(moved).error());
  }
  if (posted_ >= rooms_ || posted_ - done_ == kMaxMessages) return false;
  const std::span whole(head.data(), head.size() + data.size());
  const Registered* const registered = line_->find(whole);
  if (registered == nullptr || (!data.empty() && data.data() != head.data() + head.size())) {
    return fail(Code::internal_error,
                fmt::format("{} bytes were to be sent by {} that lie in no memory it was told of", whole.size(), describe()),
                Scope::communicator);
  }
  message_of(posted_++) = {whole, registered->lkey(), parts_of(whole.size())};
  Result<> pushed = push();
  if (!pushed.ok()) return *(error_ = std::move(pushed).error());
  return true;
}

Result<bool> VerbsSender::done() {
  if (error_.has_value()) return *error_;
  if (done_ == pushed_ || message_of(done_).missing > 0) {
    Result<> moved = move();
    if (!moved.ok()) return *(error_ = std::move(moved).error());
  }
  if (done_ == pushed_ || message_of(done_).missing > 0) return false;
  ++done_;
  return true;
}

/// Goes on with all that can go on.
Result<> VerbsSender::move() {
  if (stage_ == Stage::dialling) RONDE_TRY(dial());
  if (stage_ == Stage::dialling) return {};
  if (news_) {
    news_ = false;
    port().adapter->take_events();
    if (std::optional<std::string> fatal = port().adapter->fatal()) return fail(Code::system_error, *fatal, Scope::communicator);
    RONDE_TRY(hear());
  }
  if (stage_ == Stage::up) RONDE_TRY(complete());
  if (stage_ != Stage::up && generation_ > 0) RONDE_TRY(look_at_window());
  if (stage_ == Stage::pausing && now_ns() >= next_) RONDE_TRY(ask());
  return push();
}

Result<> VerbsSender::dial() {
  RONDE_TRY(const bool up, dial_->step());
  if (!up) return {};
  std::vector<BootFd> streams = dial_->take();
  wire_.emplace(std::move(streams.at(0)), interface_);
  dial_.reset();
  gate_.add(timer_.get());
  gate_.add(wire_->descriptor());
  RONDE_TRY(move_to(at_));
  return ask();
}

/// From now on over another port, or over the first one.
Result<> VerbsSender::move_to(size_t port) {
  RONDE_TRY(std::unique_ptr<Line> line, Line::make((*ports_)[port], settings_, settings_.queues, Line::Side::sender));
  for (const std::span<std::byte> memory : used_) RONDE_TRY(line->use(memory));
  for (uint64_t number = done_; number != posted_; ++number)
    message_of(number).key = line->find(message_of(number).bytes)->lkey();
  line_ = std::move(line);
  at_ = port;
  gate_.add(line_->descriptor());
  gate_.add(this->port().adapter->events_descriptor());
  return {};
}

/// The next port that is active takes over, where there is one.
void VerbsSender::change_rail() {
  for (size_t i = 1; i < ports_->size(); ++i) {
    const size_t next = (at_ + i) % ports_->size();
    if (!is_active((*ports_)[next])) continue;
    const Result<> moved = move_to(next);
    if (moved.ok()) return;
    RONDE_INFO(net, "NET/IB {} cannot take over: {}", (*ports_)[next].device.name, moved.error().what);
  }
}

/// Offers the receiver the present queue pairs.
Result<> VerbsSender::ask() {
  if (generation_ > 0) {
    // The first time, where the port is well, only a queue pair may have failed.
    if (attempts_ > 1 || !is_active(port())) change_rail();
    RONDE_TRY(line_->make_queues());
  }
  RONDE_TRY(const Card card, line_->card(generation_));
  wire_->put(Wire::Kind::card, pack(card));
  stage_ = Stage::asking;
  if (generation_ > 0) set_timer(kPatience);
  return wire_->move();
}

Result<> VerbsSender::hear() {
  while (true) {
    Result<> goes_on = wire_->move();
    const std::optional<Wire::Letter> letter = wire_->take();
    if (!letter.has_value()) return goes_on;
    if (letter->kind == Wire::Kind::card) {
      const std::optional<Card> card = unpack_card(letter->bytes);
      if (!card.has_value()) return foreign_stream(wire_->ends(), "a card that cannot be read");
      if (card->generation == generation_ && stage_ == Stage::asking) RONDE_TRY(on_card(*card));
    } else if (letter->kind == Wire::Kind::broken && stage_ == Stage::up) {
      RONDE_TRY(broken(std::string(reinterpret_cast<const char*>(letter->bytes.data()), letter->bytes.size()), true));
    }
  }
}

Result<> VerbsSender::on_card(const Card& card) {
  Result<> connected = line_->connect(card, wire_->ends());
  if (!connected.ok()) {
    if (generation_ == 0) return connected;
    broken_by_ = connected.error().what;
    return pause(kFirstPause << std::min(attempts_++, 6u));
  }
  RONDE_TRY(take_back(card));
  Writer generation;
  generation.put(card.generation);
  wire_->put(Wire::Kind::up, generation.take());
  stage_ = Stage::up;
  set_timer(0);
  return {};
}

/// What was given to earlier queue pairs and has not come whole is to be given to the new ones, whole.
Result<> VerbsSender::take_back(const Card& card) {
  if (card.whole > posted_) {
    return foreign_stream(wire_->ends(),
                          fmt::format("{} messages are said to have come, of {} that were sent", card.whole, posted_));
  }
  for (uint64_t number = done_; number != posted_; ++number) {
    const bool came =
        number < card.whole || (number - card.whole < kMaxMessages && (card.whole_mask >> (number - card.whole) & 1) != 0);
    message_of(number).missing = came ? 0 : parts_of(message_of(number).bytes.size());
  }
  pushed_ = std::max(done_, card.whole);
  rooms_ = card.whole;  // the receiver announces what it has beyond, by the keys of the port that it uses now
  ++changes_;
  return {};
}

Result<> VerbsSender::complete() {
  while (stage_ == Stage::up) {
    const std::optional<Completion> completion = line_->next();
    if (!completion.has_value()) return {};
    if (completion->status != IBV_WC_SUCCESS) {
      const std::string attempted =
          completion->receive ? "waiting for room at the peer," : fmt::format("sending message {}", completion->id);
      RONDE_TRY(broken(failure_text(line_->failure(*completion, attempted)), may_pass_later(completion->status)));
      continue;
    }
    ++changes_;
    until_ = 0;
    attempts_ = 0;
    if (!completion->receive) {
      --message_of(completion->id).missing;
      continue;
    }
    const auto more = static_cast<int32_t>(completion->immediate - static_cast<uint32_t>(rooms_));
    if (more > 0) rooms_ += static_cast<uint64_t>(more);
    RONDE_TRY(line_->receive(completion->queue));
  }
  return {};
}

uint32_t VerbsSender::parts_of(uint64_t bytes) const {
  return settings_.split ? static_cast<uint32_t>(std::clamp<uint64_t>(bytes / kLeastSplit, 1, line_->queues())) : 1;
}

Result<> VerbsSender::push() {
  while (stage_ == Stage::up && pushed_ != posted_ && (pushed_ < rooms_ || message_of(pushed_).missing == 0)) {
    RONDE_TRY(const bool pushed, push_one());
    if (!pushed) return {};
  }
  return {};
}

/// Gives the next message to the adapter; false: its queues are too full.
Result<bool> VerbsSender::push_one() {
  const Message& message = message_of(pushed_);
  if (message.missing == 0) {  // it had come when the queue pairs broke
    ++pushed_;
    return true;
  }
  RoomNote room;
  std::memcpy(&room, line_->block() + room_offset(pushed_), sizeof room);
  if (message.bytes.size() > room.bytes) {
    return fail(Code::internal_error,
                fmt::format("message {} has {} bytes, and the peer room for {}, over {}", pushed_, message.bytes.size(),
                            room.bytes, describe()),
                Scope::connection);
  }
  const uint32_t parts = parts_of(message.bytes.size());
  const auto requests = static_cast<uint32_t>(ceil_div(message.bytes.size(), parts * line_->longest()) + 2);
  for (uint32_t part = 0; part < parts; ++part) {
    if (!line_->has_room(queue_of(pushed_, part, line_->queues()), requests)) return false;
  }
  for (uint32_t part = 0; part < parts; ++part) RONDE_TRY(write_part(pushed_, part, parts));
  ++pushed_;
  return true;
}

Result<> VerbsSender::write_part(uint64_t number, uint32_t part, uint32_t parts) {
  const Message& message = message_of(number);
  const uint32_t queue = queue_of(number, part, line_->queues());
  RoomNote room;
  std::memcpy(&room, line_->block() + room_offset(number), sizeof room);
  const uint64_t total = message.bytes.size();
  const uint64_t share = ceil_div(ceil_div(total, parts), 64) * 64;
  uint64_t begin = std::min(share * part, total);
  const uint64_t end = std::min(begin + share, total);
  const bool noted = parts > 1 || total > line_->longest() || (line_->adaptive() && total > settings_.apart);
  if (!noted) {
    return line_->write(queue,
                        {message.bytes.data(), message.key, total, room.address, room.rkey, immediate_of(number, false), number});
  }
  while (begin != end) {
    const uint64_t bytes = std::min(end - begin, line_->longest());
    RONDE_TRY(line_->write(
        queue, {message.bytes.data() + begin, message.key, bytes, room.address + begin, room.rkey, std::nullopt, number}));
    begin += bytes;
  }
  const PartNote note{number, total, parts, 0};
  std::byte* const own = line_->block() + note_offset(number, part, line_->queues());
  std::memcpy(own, &note, sizeof note);
  return line_->write(queue,
                      {own, line_->block_key(), sizeof note, line_->peer().block + note_offset(number, part, line_->queues()),
                       line_->peer().block_key, immediate_of(number, true), number});
}

/// The queue pairs have failed: new ones, if that may help and it has not been tried for too long.
Result<> VerbsSender::broken(std::string why, bool mendable) {
  RONDE_TRY(wire_->move());  // whether the peer is still there
  if (!mendable || settings_.rebuild_window <= 0) return fail(Code::remote_error, std::move(why), Scope::connection);
  const uint64_t until = now_ns() + static_cast<uint64_t>(settings_.rebuild_window * 1e9);
  if (until_ == 0 || done_ == posted_) {
    // Nothing under way: whatever broke before has been mended long ago.
    until_ = until;
    attempts_ = 0;
  } else if (attempts_ < ports_->size()) {
    until_ = until;  // adapters try long before they give up: each port gets its time
  }
  broken_by_ = std::move(why);
  RONDE_INFO(net, "NET/IB making the queue pairs anew, since {}", broken_by_);
  ++generation_;
  return pause(attempts_++ == 0 ? 0 : kFirstPause << std::min(attempts_, 6u));
}

Result<> VerbsSender::pause(uint64_t nanoseconds) {
  if (stage_ == Stage::asking) ++generation_;
  stage_ = Stage::pausing;
  const uint64_t pause = std::min(nanoseconds, kMostPause);
  next_ = now_ns() + pause;
  if (pause == 0) return ask();
  set_timer(pause);
  return {};
}

Result<> VerbsSender::look_at_window() {
  const uint64_t now = now_ns();
  if (now <= until_) {
    if (stage_ == Stage::asking) set_timer(kPatience);
    return {};
  }
  return fail(Code::remote_error,
              fmt::format("{}; making the queue pairs anew for {:g} s (RONDE_IB_REBUILD_WINDOW) has not helped, and {} is {}",
                          broken_by_, settings_.rebuild_window, port().device.name, port().adapter->port_text(port().number)),
              Scope::connection);
}

void VerbsSender::set_timer(uint64_t nanoseconds) {
  const itimerspec once{{}, {static_cast<time_t>(nanoseconds / kSecond), static_cast<long>(nanoseconds % kSecond)}};
  timerfd_settime(timer_.get(), 0, &once, nullptr);
}

}  // namespace ronde::net
