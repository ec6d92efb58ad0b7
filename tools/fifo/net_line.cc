// A network alone: messages between two parties, without slots and proxies.
#include <fmt/core.h>
#include <sched.h>
#include <sys/epoll.h>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/fd.h"
#include "tools/fifo/line.h"

namespace ronde::fifo_tool {
namespace {

class NetLine final : public Line {
 public:
  NetLine(std::shared_ptr<net::Net> net, std::unique_ptr<net::Sender> sender, std::unique_ptr<net::Receiver> receiver)
      : net_(std::move(net)), sender_(std::move(sender)), receiver_(std::move(receiver)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    watch(*sender_, 0);
    watch(*receiver_, 1);
  }

  Result<> prepare(size_t bytes) override {
    data_.assign(bytes, std::byte{1});
    return {};
  }
  /// Rooms for messages of at most `bytes` bytes.
  Result<> begin(size_t bytes) {
    rooms_.assign(kUnderWay, std::vector<std::byte>(bytes));
    for (auto& room : rooms_) {
      RONDE_TRY(receiver_->post(room));
    }
    return {};
  }
  Result<bool> send() override {
    RONDE_TRY(reap());
    if (under_way_ == kUnderWay) return false;
    RONDE_TRY(const bool accepted, sender_->post(data_, {}));
    if (accepted) ++under_way_;
    return accepted;
  }
  Result<bool> receive() override {
    RONDE_TRY(const std::optional<size_t> came, receiver_->done());
    if (!came.has_value()) return false;
    RONDE_TRY(receiver_->post(rooms_[next_++ % kUnderWay]));
    return true;
  }
  Result<bool> flushed() override {
    RONDE_TRY(reap());
    return under_way_ == 0;
  }
  Result<> idle() override {
    epoll_event events[64];
    const int n = epoll_wait(epoll_.get(), events, 64, ++looks_ < kLooks ? 0 : 1000);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u32 == 0) sender_->signalled();
      if (events[i].data.u32 == 1) receiver_->signalled();
    }
    if (n == 0) sched_yield();
    if (n > 0) looks_ = 0;
    return {};
  }

 private:
  Result<> reap() {
    while (under_way_ > 0) {
      RONDE_TRY(const bool done, sender_->done());
      if (!done) break;
      --under_way_;
    }
    return {};
  }
  void watch(const net::End& end, uint32_t which) {
    for (const int fd : end.descriptors()) {
      epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.u32 = which}};
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
    }
  }

  const std::shared_ptr<net::Net> net_;  // outlives what was made of it
  const std::unique_ptr<net::Sender> sender_;
  const std::unique_ptr<net::Receiver> receiver_;
  const UniqueFd epoll_;
  std::vector<std::byte> data_;
  std::vector<std::vector<std::byte>> rooms_;
  size_t under_way_ = 0;
  size_t next_ = 0;  // room of the next message
  int looks_ = 0;
};

Result<std::shared_ptr<net::Net>> open_net(int sockets) {
  const std::string number = std::to_string(sockets);
  const Config config = read_config(
      [&](const char* name) -> const char* {
        if (std::string_view(name) == "RONDE_SOCKET_IFNAME") return "=lo";
        return std::string_view(name) == "RONDE_NSOCKS_PERTHREAD" ? number.c_str() : nullptr;
      },
      {}, nullptr);
  for (const net::Provider& provider : net::providers()) {
    if (provider.name != "Socket") continue;
    std::string why;
    RONDE_TRY(std::shared_ptr<net::Net> net, provider.open(config, &why));
    if (net != nullptr) return net;
    return fail(Code::system_error, "the network Socket does not work here: " + why);
  }
  return fail(Code::internal_error, "there is no network Socket");
}

}  // namespace

Result<std::unique_ptr<Line>> make_net_line(int party, int sockets, Board& board) {
  RONDE_TRY(std::shared_ptr<net::Net> net, open_net(sockets));
  RONDE_TRY(const std::unique_ptr<net::Listener> listener, net->listen(0));
  board.handle[party] = listener->handle();
  board.with_handle[party].store(1);
  RONDE_TRY(board.wait(board.with_handle[1 - party]));
  RONDE_TRY(std::unique_ptr<net::Sender> sender, net->connect(0, board.handle[1 - party]));
  std::unique_ptr<net::Receiver> receiver;
  for (bool up = false; !up || receiver == nullptr;) {
    RONDE_TRY(up, sender->ready());
    if (receiver == nullptr) {
      RONDE_TRY(receiver, listener->accept());
    }
    if (board.failed.load() != 0) return fail(Code::remote_error, "the other party has failed");
    sched_yield();
  }
  auto line = std::make_unique<NetLine>(std::move(net), std::move(sender), std::move(receiver));
  RONDE_TRY(line->begin(kMostBytes));
  return std::unique_ptr<Line>(std::move(line));
}

}  // namespace ronde::fifo_tool
