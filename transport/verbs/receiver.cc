#include "transport/verbs/receiver.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"

namespace ronde::net {
namespace {

constexpr uint64_t kSilence = 30 * kSecond;  // for which a sender may be silent beyond the window in which it tries

}  // namespace

Result<std::unique_ptr<Receiver>> VerbsListener::accept() {
  RONDE_TRY(std::vector<BootFd> streams, door_->take(number_));
  if (streams.empty()) return std::unique_ptr<Receiver>();
  RONDE_TRY(std::shared_ptr<Pulse> pulse, Pulse::of_process());
  Gate gate;
  if (!gate.open()) return no_gate(errno);
  return std::unique_ptr<Receiver>(std::make_unique<VerbsReceiver>(ports_, port_, settings_, std::move(streams.front()),
                                                                   std::move(pulse), std::move(gate), interface_));
}

VerbsReceiver::VerbsReceiver(Ports ports, size_t port, const LineSettings& settings, BootFd stream, std::shared_ptr<Pulse> pulse,
                             Gate gate, const std::string& interface)
    : ports_(std::move(ports)),
      at_(port),
      settings_(settings),
      pulse_(std::move(pulse)),
      gate_(std::move(gate)),
      wire_(std::move(stream), interface) {
  gate_.add(wire_.descriptor());
  gate_.add(pulse_->descriptor());
}

void VerbsReceiver::signalled() {
  news_ = true;
  gate_.clear();
}

Result<> VerbsReceiver::use(std::span<std::byte> memory) {
  used_.push_back(memory);
  return line_->use(memory);
}

std::string VerbsReceiver::describe() const {
  if (line_ == nullptr || line_->there().empty()) return fmt::format("connecting over {}", port().device.name);
  return fmt::format("{} to {}, {} queue pair{}", line_->there(), line_->here(), line_->queues(),
                     line_->queues() == 1 ? "" : "s");
}

Result<bool> VerbsReceiver::ready() {
  news_ = true;
  move();
  if (error_.has_value()) return *error_;
  return stage_ == Stage::up;
}

Result<bool> VerbsReceiver::arm() {
  if (line_ == nullptr) return true;
  move();
  if (whole(done_)) return false;
  if (error_.has_value()) return *error_;
  if (broken_since_ != 0) pulse_->ask();
  return line_->arm();
}

Result<bool> VerbsReceiver::post(std::span<std::byte> room) {
  if (error_.has_value() && !whole(done_)) return *error_;
  if (posted_ - done_ == kMaxMessages) return false;
  room_of(posted_) = Room{room};
  RONDE_TRY(note_room(*line_, posted_));
  ++posted_;
  return true;
}

/// Puts a room into the table of a line.
Result<> VerbsReceiver::note_room(Line& line, uint64_t number) {
  const std::span<std::byte> room = room_of(number).memory;
  const Registered* const registered = line.find(room);
  if (registered == nullptr) {
    return fail(Code::internal_error,
                fmt::format("room of {} bytes was given to {} that lies in no memory it was told of", room.size(), describe()),
                Scope::communicator);
  }
  const RoomNote note{reinterpret_cast<uint64_t>(room.data()), room.size(), registered->rkey(), 0};
  std::memcpy(line.block() + room_offset(number), &note, sizeof note);
  return {};
}

Result<std::optional<size_t>> VerbsReceiver::done() {
  move();
  // What has come counts, though the connection ends behind it.
  if (whole(done_)) return std::optional<size_t>(room_of(done_++).total);
  if (error_.has_value()) return *error_;
  return std::optional<size_t>();
}

/// Goes on with all that can go on; keeps what goes wrong.
void VerbsReceiver::move() {
  if (error_.has_value()) return;
  Result<> heard, completed, announced;
  if (news_) {
    news_ = false;
    heard = hear();
    port().adapter->take_events();
    if (std::optional<std::string> fatal = port().adapter->fatal()) heard = fail(Code::system_error, *fatal, Scope::communicator);
  }
  // After the end of the control stream was seen: what came before it is there then.
  if (line_ != nullptr) completed = complete();
  if (heard.ok() && completed.ok() && stage_ == Stage::draining && line_->receiving() == 0) heard = answer();
  if (heard.ok() && broken_since_ != 0) heard = look_at_window();
  if (heard.ok() && completed.ok() && stage_ == Stage::up) announced = announce();
  for (Result<>* one : {&heard, &completed, &announced}) {
    if (!one->ok() && !error_.has_value()) error_ = std::move(*one).error();
  }
}

Result<> VerbsReceiver::hear() {
  while (true) {
    Result<> goes_on = wire_.move();
    const std::optional<Wire::Letter> letter = wire_.take();
    if (!letter.has_value()) return goes_on;
    if (letter->kind == Wire::Kind::card) {
      const std::optional<Card> card = unpack_card(letter->bytes);
      if (!card.has_value()) return foreign("a card that cannot be read");
      RONDE_TRY(on_card(*card));
    } else if (letter->kind == Wire::Kind::up && stage_ == Stage::answered) {
      Reader in(letter->bytes);
      if (in.get<uint32_t>() != asked_.generation) continue;
      stage_ = Stage::up;
      broken_since_ = 0;
    }
  }
}

Result<> VerbsReceiver::on_card(const Card& card) {
  asked_ = card;
  if (line_ == nullptr) {
    RONDE_TRY(move_to(at_));
    return answer();
  }
  if (card.queues.size() != line_->queues()) return foreign("a card with another number of queue pairs");
  // What has come to the old ones is taken from them before they go.
  line_->fail_queues();
  if (broken_since_ == 0) broken_since_ = now_ns();
  stage_ = Stage::draining;
  return {};
}

/// From now on over another port, or over the first one.
Result<> VerbsReceiver::move_to(size_t port) {
  const auto queues = static_cast<uint32_t>(asked_.queues.size());
  RONDE_TRY(std::unique_ptr<Line> line, Line::make((*ports_)[port], settings_, queues, Line::Side::receiver));
  for (const std::span<std::byte> memory : used_) RONDE_TRY(line->use(memory));
  for (uint64_t number = done_; number != posted_; ++number) RONDE_TRY(note_room(*line, number));
  line_ = std::move(line);
  at_ = port;
  gate_.add(line_->descriptor());
  gate_.add(this->port().adapter->events_descriptor());
  return {};
}

/// The active port that suits the sender's best takes over: the present one, unless another one is better.
void VerbsReceiver::change_rail() {
  const auto worth = [&](size_t port) {
    if (!is_active((*ports_)[port])) return -1;
    const auto offered = offered_by((*ports_)[port], settings_.gids);
    const auto pair = offered.ok() ? choose_gids(asked_.gids, *offered) : std::nullopt;
    return pair.has_value() ? pair->worth : -1;
  };
  size_t best = at_;
  int most = worth(at_);
  for (size_t port = 0; port < ports_->size(); ++port) {
    const int its = worth(port);
    if (its <= most) continue;
    most = its;
    best = port;
  }
  if (best == at_) return;
  const Result<> moved = move_to(best);
  if (!moved.ok()) RONDE_INFO(net, "NET/IB {} cannot take over: {}", (*ports_)[best].device.name, moved.error().what);
}

Result<> VerbsReceiver::answer() {
  if (asked_.generation > 0) {
    change_rail();
    RONDE_TRY(line_->make_queues());
  }
  RONDE_TRY(Card card, line_->card(asked_.generation));
  card.whole = done_;
  while (whole(card.whole)) ++card.whole;
  for (uint64_t number = card.whole; number != posted_; ++number) {
    if (whole(number)) {
      card.whole_mask |= uint64_t{1} << (number - card.whole);
    } else {
      Room& room = room_of(number);
      room = Room{room.memory};
    }
  }
  announced_ = card.whole;
  RONDE_TRY(line_->connect(asked_, wire_.ends()));
  wire_.put(Wire::Kind::card, pack(card));
  stage_ = Stage::answered;
  return wire_.move();
}

Result<> VerbsReceiver::complete() {
  while (true) {
    const std::optional<Completion> completion = line_->next();
    if (!completion.has_value()) return {};
    if (completion->status != IBV_WC_SUCCESS) {
      if (stage_ == Stage::up) RONDE_TRY(broken(*completion));
    } else if (completion->receive) {
      RONDE_TRY(came(*completion));
    }
  }
}

Result<> VerbsReceiver::broken(const Completion& completion) {
  const std::string why = failure_text(
      line_->failure(completion, completion.receive ? "receiving" : fmt::format("giving room for message {}", completion.id)));
  if (!may_pass_later(completion.status) || settings_.rebuild_window <= 0)
    return fail(Code::remote_error, why, Scope::connection);
  stage_ = Stage::broken;
  broken_since_ = now_ns();
  const auto* const text = reinterpret_cast<const std::byte*>(why.data());
  wire_.put(Wire::Kind::broken, Bytes(text, text + why.size()));
  return wire_.move();  // where the peer has gone, that is the error
}

/// The sender makes the queue pairs anew, or gives up and closes; a host that is dead does neither.
Result<> VerbsReceiver::look_at_window() {
  if (static_cast<double>(now_ns() - broken_since_) <= settings_.rebuild_window * 1e9 + static_cast<double>(kSilence)) return {};
  return fail(
      Code::remote_error,
      fmt::format(
          "receiving at {} from {}: the queue pairs have failed, and the peer has not made them anew; see whether its host "
          "is up, and the link and what lies between",
          line_->here(), line_->there()),
      Scope::connection);
}

// Nothing that comes may lead outside of what was asked for, whoever sent it.
Result<> VerbsReceiver::came(const Completion& completion) {
  const uint64_t number = number_from(completion.immediate, done_);
  if (number >= posted_) return foreign(fmt::format("message {} came, where one from {} to {} should", number, done_, posted_));
  Room& room = room_of(number);
  if (room.begun && room.missing == 0) return foreign(fmt::format("message {} came twice", number));
  if ((completion.immediate & kNoted) == 0) {
    RONDE_TRY(begin(room, number, completion.bytes, 1));
  } else {
    const uint32_t part = part_on(number, completion.queue, line_->queues());
    PartNote note;
    std::memcpy(&note, line_->block() + note_offset(number, part, line_->queues()), sizeof note);
    if (note.number != number || part >= note.parts || note.parts > line_->queues())
      return foreign(
          fmt::format("part {} of message {} says that it is one of {} of message {}", part, number, note.parts, note.number));
    RONDE_TRY(begin(room, number, note.total, note.parts));
  }
  --room.missing;
  return stage_ == Stage::draining ? Result<>() : line_->receive(completion.queue);
}

Result<> VerbsReceiver::begin(Room& room, uint64_t number, uint64_t total, uint32_t parts) {
  if (total > room.memory.size())
    return foreign(fmt::format("message {} has {} bytes, where at most {} fit", number, total, room.memory.size()));
  if (room.begun && room.total != total)
    return foreign(fmt::format("message {} has {} bytes, and {}", number, room.total, total));
  if (!room.begun) room = Room{room.memory, total, parts, true};
  return {};
}

/// Tells the sender of new rooms: the entries of the table, and with the last of them how many there are.
Result<> VerbsReceiver::announce() {
  while (announced_ != posted_) {
    if (!line_->has_room(0, 1)) return {};
    const uint64_t count = std::min(posted_ - announced_, kMaxMessages - announced_ % kMaxMessages);
    const size_t offset = room_offset(announced_);
    announced_ += count;
    RONDE_TRY(
        line_->write(0, {line_->block() + offset, line_->block_key(), count * sizeof(RoomNote), line_->peer().block + offset,
                         line_->peer().block_key, static_cast<uint32_t>(announced_), announced_}));
  }
  return {};
}

}  // namespace ronde::net
