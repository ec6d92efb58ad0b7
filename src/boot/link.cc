#include "boot/link.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "boot/family.h"
#include "boot/interfaces.h"
#include "boot/listen.h"

namespace ronde {
namespace {

constexpr size_t kReadAtOnce = 64 << 10;
constexpr int kReadsPerTurn = 8;  // then the other links have their turn

std::string words(int errno_value) { return strerror(errno_value); }

/// "TCP over eth0" for a connected TCP socket, "" for another.
std::string tcp_route(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return "";
  Address mine = from_sockaddr(reinterpret_cast<sockaddr*>(&storage));
  if (mine.family == 0) return "";
  for (const Interface& one : list_interfaces()) {
    if (one.address.family == mine.family && one.address.ip == mine.ip) return "TCP over " + one.name;
  }
  return "TCP";
}

}  // namespace

void Waker::wake() const {
  const uint64_t one = 1;
  ssize_t n;
  do {
    n = write(fd.get(), &one, sizeof one);  // EAGAIN: it is full of wake-ups already
  } while (n < 0 && errno == EINTR);
}

Link::Link(LinkHost& host, BootFd fd, std::string peer, std::shared_ptr<Waker> waker, uint64_t deadline)
    : host_(host),
      peer_(std::move(peer)),
      dialled_(false),
      deadline_(deadline),
      waker_(std::move(waker)),
      stage_(Stage::await_hello),
      fd_(std::move(fd)) {}

Link::Link(LinkHost& host, BootFd fd, std::string peer, std::shared_ptr<Waker> waker, uint64_t deadline,
           const std::shared_ptr<Family>& family, uint64_t target)
    : host_(host),
      peer_(std::move(peer)),
      dialled_(true),
      deadline_(deadline),
      waker_(std::move(waker)),
      family_(family),
      secret_(family->secret()),
      stage_(Stage::connecting),
      fd_(std::move(fd)) {
  hello_.target = target;
}

short Link::interest() {
  if (stage_ == Stage::connecting) return POLLOUT;
  const std::lock_guard lock(mutex_);
  return static_cast<short>(POLLIN | (out_begin_ < out_.size() ? POLLOUT : 0));
}

bool Link::over(End end, std::string why) {
  if (end_ == End::none) {
    end_ = end;
    why_ = std::move(why);
  }
  return false;
}

bool Link::on_ready(short events) {
  if (stage_ == Stage::connecting) return finish_connect();
  if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && !read_all()) return false;
  if ((events & POLLOUT) != 0) {
    {
      const std::lock_guard lock(mutex_);
      flush();
    }
    drained_.notify_all();
  }
  return true;
}

bool Link::finish_connect() {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return over(is_refusal(error) ? End::refused : End::lost, words(error));
  const auto family = family_.lock();
  if (!family) return over(End::not_needed, "");
  Result<Hello> hello = make_hello(family->id(), hello_.target, host_.process());
  if (!hello.ok()) return over(End::lost, hello.error().what);
  hello_ = *hello;
  stage_ = Stage::await_challenge;
  return put(&hello_, sizeof hello_);
}

/// Handshake messages fit into the empty buffer of a fresh socket: what does not is a dead connection.
bool Link::put(const void* message, size_t size) {
  ssize_t n;
  do {
    n = ::send(fd_.get(), message, size, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n == static_cast<ssize_t>(size) ? true : over(End::lost, n < 0 ? words(errno) : "the connection takes no data");
}

bool Link::read_all() {
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const size_t before = in_.size();
    in_.resize(before + kReadAtOnce);
    const ssize_t n = recv(fd_.get(), in_.data() + before, kReadAtOnce, MSG_DONTWAIT);
    const int error = errno;
    in_.resize(before + static_cast<size_t>(n > 0 ? n : 0));
    if (n < 0 && error == EINTR) continue;
    if (n < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return true;
    if (n < 0) return over(stage_ == Stage::await_hello ? End::stranger : End::lost, words(error));
    if (n == 0) return over(stage_ == Stage::await_hello ? End::stranger : End::lost, "closed by the peer");
    if (!consume()) return false;
  }
  return true;
}

template <class T>
bool Link::fetch(T* out) {
  if (in_.size() < sizeof *out) return false;
  std::memcpy(out, in_.data(), sizeof *out);
  in_.erase(in_.begin(), in_.begin() + sizeof *out);
  return true;
}

bool Link::consume() {
  if (stage_ == Stage::await_hello && !on_hello()) return false;
  if (stage_ == Stage::await_challenge && !on_challenge()) return false;
  if (stage_ == Stage::await_proof && !on_proof()) return false;
  return stage_ != Stage::up || on_frames();
}

bool Link::on_hello() {
  if (!fetch(&hello_)) {
    // The first bytes of an HTTP request need not wait for the deadline.
    return begins_hello(in_) ? true : over(End::stranger, "it does not speak our language");
  }
  if (!is_hello(hello_)) return over(End::stranger, "it does not speak our language");
  const LinkHost::Knowledge known = host_.know(hello_);
  const Secret* secret = known.greeting == Greeting::unknown ? nullptr : &known.secret;
  Result<Challenge> challenge = make_challenge(hello_, known.greeting, host_.process(), secret);
  if (!challenge.ok()) return over(End::lost, challenge.error().what);
  challenge_ = *challenge;
  if (!put(&challenge_, sizeof challenge_)) return false;
  if (known.greeting != Greeting::welcome) return over(End::unknown, "it asked for a unique id that is not served here");
  family_ = known.family;
  secret_ = known.secret;
  process_ = hello_.process;
  known.family->link_begun(process_);
  counted_ = true;
  stage_ = Stage::await_proof;
  return true;
}

bool Link::on_challenge() {
  if (!fetch(&challenge_)) return true;
  if (challenge_.magic != hello_.magic) return over(End::impostor, "another program listens there");
  if (challenge_.greeting == Greeting::unknown) return over(End::unknown, "the process there does not serve this unique id");
  if (!proves(challenge_, hello_, secret_)) return over(End::impostor, "it could not prove that it knows the unique id");
  if (challenge_.greeting == Greeting::used_up) return over(End::used_up, "the unique id was used before");
  process_ = challenge_.process;
  if (!host_.win(*this)) return over(End::not_needed, "");
  const Proof proof = make_proof(challenge_, hello_, secret_);
  if (!put(&proof, sizeof proof)) return false;
  return rise();
}

bool Link::on_proof() {
  Proof proof;
  if (!fetch(&proof)) return true;
  if (!proves(proof, challenge_, hello_, secret_)) return over(End::stranger, "it could not prove that it knows the unique id");
  return rise();
}

bool Link::rise() {
  const auto family = family_.lock();
  if (!family) return over(End::not_needed, "");
  const std::string tcp = tcp_route(fd_.get());
  if (!tcp.empty()) route_ = tcp;
  if (!tcp.empty()) tune_tcp(fd_.get());
  if (!counted_) family->link_begun(process_);
  counted_ = true;
  stage_ = Stage::up;
  family->link_up(shared_from_this());
  if (dialled_) host_.risen(*this);
  return true;
}

bool Link::on_frames() {
  const auto family = family_.lock();
  if (!family) return over(End::not_needed, "");
  size_t at = 0;
  FrameHeader header;
  while (in_.size() - at >= sizeof header) {
    std::memcpy(&header, in_.data() + at, sizeof header);
    if (header.length > kMaxFrame)
      return over(End::lost, fmt::format("a message of {} bytes came, more than is possible", header.length));
    if (in_.size() - at - sizeof header < header.length) break;
    at += sizeof header;
    const std::span<const std::byte> payload(in_.data() + at, header.length);
    family->deliver(header, payload, shared_from_this());
    at += header.length;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(at));
  return true;
}

void Link::flush() {
  while (out_begin_ < out_.size()) {
    const ssize_t n = ::send(fd_.get(), out_.data() + out_begin_, out_.size() - out_begin_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n < 0) {
      // What the peer had sent before it went still counts: the link ends when reading finds its end.
      broken_ = true;
      break;
    }
    out_begin_ += static_cast<size_t>(n);
    sent_ += static_cast<uint64_t>(n);
  }
  out_.clear();
  out_begin_ = 0;
}

bool Link::send(const FrameHeader& header, std::span<const std::byte> payload, uint64_t* mark) {
  bool left_over = false;
  {
    const std::lock_guard lock(mutex_);
    if (!fd_ || broken_) return false;
    const auto* head = reinterpret_cast<const std::byte*>(&header);
    out_.insert(out_.end(), head, head + sizeof header);
    out_.insert(out_.end(), payload.begin(), payload.end());
    queued_ += sizeof header + payload.size();
    if (mark != nullptr) *mark = queued_;
    flush();
    left_over = !out_.empty();
  }
  if (left_over) waker_->wake();
  return true;
}

bool Link::wait_sent(uint64_t mark, const Patience& patience) {
  std::unique_lock lock(mutex_);
  while (sent_ < mark && fd_ && !broken_ && !patience.aborted() && !patience.deadline.passed()) {
    drained_.wait_for(lock, std::chrono::milliseconds(std::max(1, patience.deadline.left_ms(kSliceMs))));
  }
  return sent_ >= mark;
}

void Link::wait_end(const Patience& patience) {
  std::unique_lock lock(mutex_);
  while (broken_ && fd_ && !patience.aborted() && !patience.deadline.passed()) {
    drained_.wait_for(lock, std::chrono::milliseconds(std::max(1, patience.deadline.left_ms(kSliceMs))));
  }
}

bool Link::closed() {
  const std::lock_guard lock(mutex_);
  return !fd_ || broken_;
}

void Link::close() {
  const bool was_up = stage_ == Stage::up;
  stage_ = Stage::closed;
  {
    const std::lock_guard lock(mutex_);
    if (was_up && fd_) {
      // Closing a TCP socket with unread bytes resets the connection, and what we sent last would be lost with it.
      shutdown(fd_.get(), SHUT_WR);
      char unread[4096];
      while (recv(fd_.get(), unread, sizeof unread, MSG_DONTWAIT) > 0) continue;
    }
    fd_.reset();
  }
  drained_.notify_all();
  if (!counted_) return;
  counted_ = false;
  if (const auto family = family_.lock()) family->link_closed(*this, was_up);
}

}  // namespace ronde
