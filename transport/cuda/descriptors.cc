#include "transport/cuda/descriptors.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/lists.h"
#include "transport/shm/link.h"

namespace ronde::gpu {
namespace {

using shm::Io;

constexpr int kLook = 20;  // milliseconds between looks at the abort word, and at listeners that had no room

// An abstract name: it lives and dies with the socket, and no file system knows it.
socklen_t make_address(const Id& name, sockaddr_un* address) {
  *address = sockaddr_un{};
  address->sun_family = AF_UNIX;
  const std::string text = fmt::format("ronde-gpu-{:016x}{:016x}", name[0], name[1]);
  memcpy(address->sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_failure(errno, "making a unix socket for descriptors", "raise `ulimit -n` if it is the descriptors");
  return fd;
}

/// A peer that is asked: first connected to, then told who asks, then heard.
struct Question {
  DescriptorPeer peer;
  UniqueFd socket;
  bool connected = false;
  bool asked = false;
  std::vector<UniqueFd> got;
  bool answered() const { return got.size() == peer.gives; }
};

/// Somebody who asks: unknown until he has said the secret.
struct Caller {
  UniqueFd socket;
  int rank = -1;
  size_t given = 0;
};

class Trading {
 public:
  Trading(int listener, const Id& secret, int rank, std::span<const int> mine) : listener_(listener), secret_(secret), rank_(rank), mine_(mine) {}

  Result<> start(std::span<const DescriptorPeer> peers) {
    for (const DescriptorPeer& peer : peers) {
      Question question{peer, {}, false, false, {}};
      RONDE_TRY(question.socket, make_socket());
      questions_.push_back(std::move(question));
      unserved_.push_back(peer.rank);
    }
    return {};
  }

  bool done() const {
    for (const Question& question : questions_) {
      if (!question.answered()) return false;
    }
    return unserved_.empty();
  }

  Result<> step(int patience_ms) {
    for (Question& question : questions_) RONDE_TRY(advance(question));
    accept_callers();
    for (Caller& caller : callers_) serve(caller);
    if (!done()) wait(patience_ms);
    return {};
  }

  /// Who is missing.
  std::vector<int> missing() const {
    std::vector<int> ranks = unserved_;
    for (const Question& question : questions_) {
      if (!question.answered()) ranks.push_back(question.peer.rank);
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

  std::map<int, std::vector<UniqueFd>> take() {
    std::map<int, std::vector<UniqueFd>> all;
    for (Question& question : questions_) all[question.peer.rank] = std::move(question.got);
    return all;
  }

 private:
  Result<> advance(Question& question) {
    if (!question.connected) {
      sockaddr_un address;
      const socklen_t size = make_address(question.peer.name, &address);
      if (connect(question.socket.get(), reinterpret_cast<sockaddr*>(&address), size) == 0) {
        question.connected = true;
      } else if (errno != EAGAIN && errno != EINTR) {  // EAGAIN: its queue of callers is full
        return system_failure(errno, fmt::format("asking rank {} for its memory's descriptor", question.peer.rank));
      }
    }
    if (question.connected && !question.asked) {
      shm::Message hello;
      hello.kind = shm::Kind::hello;
      hello.number = static_cast<uint32_t>(rank_);
      hello.secret = question.peer.secret;
      question.asked = shm::send_message(question.socket.get(), hello, -1) == Io::done;
    }
    while (question.asked && !question.answered()) {
      shm::Incoming incoming;
      const Io io = shm::receive_message(question.socket.get(), &incoming);
      if (io == Io::later) break;
      if (io == Io::ended || !incoming.fd) {
        return fail(Code::remote_error, fmt::format("rank {} does not give its memory's descriptor: it has ended, or this process may have no more descriptors",
                                                    question.peer.rank), Scope::communicator);
      }
      question.got.push_back(std::move(incoming.fd));
    }
    return {};
  }

  void accept_callers() {
    for (;;) {
      UniqueFd socket(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) return;
      callers_.push_back({std::move(socket), -1, 0});
    }
  }

  /// Strangers, and peers that come twice, get nothing.
  void serve(Caller& caller) {
    if (!caller.socket) return;
    if (caller.rank < 0) {
      shm::Incoming hello;
      const Io io = shm::receive_message(caller.socket.get(), &hello);
      if (io == Io::later) return;
      const auto known = std::find(unserved_.begin(), unserved_.end(), static_cast<int>(hello.message.number));
      if (io == Io::ended || hello.message.secret != secret_ || known == unserved_.end()) return caller.socket.reset();
      caller.rank = *known;
    }
    while (caller.given < mine_.size()) {
      shm::Message message;
      message.number = static_cast<uint32_t>(caller.given);
      const Io io = shm::send_message(caller.socket.get(), message, mine_[caller.given]);
      if (io == Io::later) return;
      if (io == Io::ended) return caller.socket.reset();
      ++caller.given;
    }
    std::erase(unserved_, caller.rank);
  }

  void wait(int patience_ms) {
    std::vector<pollfd> all{{listener_, POLLIN, 0}};
    for (const Question& question : questions_) {
      if (question.asked && !question.answered()) all.push_back({question.socket.get(), POLLIN, 0});
    }
    for (const Caller& caller : callers_) {
      if (caller.socket && caller.given < mine_.size()) all.push_back({caller.socket.get(), static_cast<short>(caller.rank < 0 ? POLLIN : POLLOUT), 0});
    }
    poll(all.data(), all.size(), patience_ms);
  }

  int listener_;
  Id secret_;
  int rank_;
  std::span<const int> mine_;
  std::vector<Question> questions_;
  std::vector<Caller> callers_;
  std::vector<int> unserved_;
};

}  // namespace

Result<DescriptorTrade> DescriptorTrade::open() {
  DescriptorTrade trade;
  RONDE_TRY(trade.name_, random_id());
  RONDE_TRY(trade.secret_, random_id());
  RONDE_TRY(trade.listener_, make_socket());
  sockaddr_un address;
  const socklen_t size = make_address(trade.name_, &address);
  if (bind(trade.listener_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(trade.listener_.get(), SOMAXCONN) != 0) {
    return system_failure(errno, "listening on an abstract unix socket for those who ask for descriptors");
  }
  return trade;
}

Result<std::map<int, std::vector<UniqueFd>>> DescriptorTrade::run(int rank, std::span<const DescriptorPeer> peers, std::span<const int> mine,
                                                                  const Deadline& deadline, const AbortWord* abort) {
  Trading trading(listener_.get(), secret_, rank, mine);
  RONDE_TRY(trading.start(peers));
  while (!trading.done()) {
    if (abort != nullptr && abort->raised()) return fail(Code::remote_error, "the communicator was aborted while descriptors were passed", Scope::communicator);
    if (deadline.passed()) {
      return fail(Code::remote_error, fmt::format("passing descriptors of memory: {} did not come in time", rank_list(trading.missing())), Scope::communicator);
    }
    RONDE_TRY(trading.step(deadline.left_ms(kLook)));
  }
  return trading.take();
}

}  // namespace ronde::gpu
