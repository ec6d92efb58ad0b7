// One connection between two processes, for one unique id: non-blocking, from connect or accept through the handshake to frames.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "boot/fork.h"
#include "boot/handshake.h"
#include "boot/mailbox.h"
#include "boot/wire.h"

namespace ronde {

class Family;
class Link;

/// Wakes a sleeping loop. Outlives it, so that a late caller does no harm.
struct Waker {
  BootFd fd;
  void wake() const;
};

/// What a Link asks while it shakes hands; the loop thread's view of its surroundings.
class LinkHost {
 public:
  virtual ~LinkHost() = default;
  virtual uint64_t process() const = 0;
  /// What to answer; the family where welcome, the secret where welcome or used up.
  struct Knowledge {
    Greeting greeting = Greeting::unknown;
    std::shared_ptr<Family> family;
    Secret secret{};
  };
  virtual Knowledge know(const Hello& hello) = 0;
  /// A dialled link has authenticated: may it go on, or has another address won already?
  virtual bool win(Link& link) = 0;
  /// It can be used now.
  virtual void risen(Link& link) = 0;
};

/// The loop thread drives it; send() is for any thread once it is up.
class Link : public std::enable_shared_from_this<Link> {
 public:
  enum class Stage : uint8_t { connecting, await_challenge, await_hello, await_proof, up, closed };
  /// Why a link has ended, as far as a dialler must know.
  enum class End : uint8_t { none, lost, refused, silent, unknown, used_up, impostor, stranger, not_needed };

  /// An accepted connection from `peer`. Its handshake ends by `deadline` (now_ns).
  Link(LinkHost& host, BootFd fd, std::string peer, std::shared_ptr<Waker> waker, uint64_t deadline);
  /// A connection that is being made, to prove itself as `target` (0: anybody).
  Link(LinkHost& host, BootFd fd, std::string peer, std::shared_ptr<Waker> waker, uint64_t deadline,
       const std::shared_ptr<Family>& family, uint64_t target);

  // The loop thread only:
  int fd() const { return fd_.get(); }
  short interest();
  /// Does what can be done now. False when the link is over; then call close().
  bool on_ready(short events);
  uint64_t deadline() const { return stage_ == Stage::up ? UINT64_MAX : deadline_; }
  void expire() { over(End::silent, "no answer in time"); }
  void close();
  Stage stage() const { return stage_; }
  End end() const { return end_; }
  const std::string& why() const { return why_; }
  std::weak_ptr<Family> family() const { return family_; }
  bool dialled() const { return dialled_; }

  // Any thread, once the link is up:
  /// Hands a frame to the kernel, or keeps what the kernel does not take and lets the loop go on with it. Never blocks.
  /// False if the link is closed. `mark`, if given, is for wait_sent().
  bool send(const FrameHeader& header, std::span<const std::byte> payload, uint64_t* mark = nullptr);
  /// Waits until the kernel has taken everything up to `mark`. False if the link closes or patience ends before.
  bool wait_sent(uint64_t mark, const Patience& patience);
  bool closed();
  /// Waits until everything that the peer of a broken link had sent is delivered, and the link is closed.
  void wait_end(const Patience& patience);
  uint64_t process() const { return process_; }  ///< the peer's
  const std::string& peer() const { return peer_; }
  /// "unix socket", or "TCP over eth0".
  const std::string& route() const { return route_; }

 private:
  bool over(End end, std::string why);
  bool finish_connect();
  bool read_all();
  bool consume();
  bool on_hello();
  bool on_challenge();
  bool on_proof();
  bool on_frames();
  bool rise();
  bool put(const void* message, size_t size);
  void flush();  // mutex_ held
  template <class T>
  bool fetch(T* out);

  LinkHost& host_;
  const std::string peer_;
  const bool dialled_;
  const uint64_t deadline_;
  std::shared_ptr<Waker> waker_;
  std::weak_ptr<Family> family_;
  Secret secret_{};
  Stage stage_;
  End end_ = End::none;
  std::string why_;
  std::string route_ = "unix socket";
  uint64_t process_ = 0;
  bool counted_ = false;  // the family counts this link as one from process_
  Hello hello_;
  Challenge challenge_;
  Bytes in_;

  std::mutex mutex_;  // guards fd_ against closing while sending, and what follows
  std::condition_variable drained_;
  BootFd fd_;
  Bytes out_;
  size_t out_begin_ = 0;
  uint64_t queued_ = 0;
  uint64_t sent_ = 0;
  bool broken_ = false;  // the peer takes nothing more
};

}  // namespace ronde
