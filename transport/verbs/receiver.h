// The receiving end of a connection over RDMA.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/net/net.h"
#include "transport/socket/door.h"
#include "transport/socket/pulse.h"
#include "transport/verbs/gate.h"
#include "transport/verbs/line.h"

namespace ronde::net {

class VerbsReceiver final : public Receiver {
 public:
  VerbsReceiver(Ports ports, size_t port, const LineSettings& settings, BootFd stream, std::shared_ptr<Pulse> pulse, Gate gate,
                const std::string& interface);

  Result<bool> ready() override;
  Result<> use(std::span<std::byte> memory) override;
  std::vector<int> descriptors() const override { return {gate_.descriptor()}; }
  void signalled() override;
  Result<bool> arm() override;
  std::string describe() const override;
  Result<bool> post(std::span<std::byte> room) override;
  Result<std::optional<size_t>> done() override;

  /// For tests.
  Line& line() { return *line_; }

 private:
  enum class Stage : uint8_t { waiting, draining, answered, up, broken };
  struct Room {
    std::span<std::byte> memory;
    uint64_t total = 0;
    uint32_t missing = 1;  // parts
    bool begun = false;
  };

  Room& room_of(uint64_t number) { return rooms_[number % kMaxMessages]; }
  bool whole(uint64_t number) { return number != posted_ && room_of(number).missing == 0; }
  void move();
  Result<> hear();
  Result<> on_card(const Card& card);
  Result<> answer();
  void change_rail();
  Result<> move_to(size_t port);
  Result<> note_room(Line& line, uint64_t number);
  const Port& port() const { return (*ports_)[at_]; }
  Result<> complete();
  Result<> came(const Completion& completion);
  Result<> begin(Room& room, uint64_t number, uint64_t total, uint32_t parts);
  Result<> announce();
  Result<> broken(const Completion& completion);
  Result<> look_at_window();
  Error foreign(const std::string& what) const { return foreign_stream(wire_.ends(), what); }

  const Ports ports_;
  size_t at_;  // the port in use
  const LineSettings settings_;
  const std::shared_ptr<Pulse> pulse_;
  const Gate gate_;
  Wire wire_;
  std::unique_ptr<Line> line_;
  std::vector<std::span<std::byte>> used_;  // memory that use() has named

  Stage stage_ = Stage::waiting;
  Card asked_;  // the sender's last
  std::array<Room, kMaxMessages> rooms_;
  uint64_t posted_ = 0;
  uint64_t announced_ = 0;
  uint64_t done_ = 0;
  bool news_ = true;           // a descriptor has shown something
  uint64_t broken_since_ = 0;  // now_ns; 0: it is not
  std::optional<Error> error_;
};

class VerbsListener final : public Listener {
 public:
  VerbsListener(Ports ports, size_t port, const LineSettings& settings, std::shared_ptr<Door> door, uint64_t number,
                const Handle& handle, std::string interface)
      : ports_(std::move(ports)),
        port_(port),
        settings_(settings),
        door_(std::move(door)),
        number_(number),
        handle_(handle),
        interface_(std::move(interface)) {}
  ~VerbsListener() override { door_->forget(number_); }

  const Handle& handle() const override { return handle_; }
  Result<std::unique_ptr<Receiver>> accept() override;
  std::vector<int> descriptors() const override { return door_->descriptors(number_); }

 private:
  const Ports ports_;
  const size_t port_;
  const LineSettings settings_;
  const std::shared_ptr<Door> door_;
  const uint64_t number_;
  const Handle handle_;
  const std::string interface_;
};

}  // namespace ronde::net
