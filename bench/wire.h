// How the processes of a benchmark talk: sockets, bytes with a deadline, frames.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "bench/launch_env.h"

namespace ronde::bench {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// Thrown when a wait ran out of time or a peer is gone; who that is, the caller knows.
struct Gone {
  bool timed_out;
  std::string why;
};

using Deadline = std::chrono::steady_clock::time_point;

/// Milliseconds from now to `deadline`, for poll().
int poll_left(Deadline deadline);

/// Moves exactly `bytes`. Throws Gone.
void read_all(int fd, void* data, size_t bytes, Deadline deadline);
void write_all(int fd, const void* data, size_t bytes, Deadline deadline);

/// A frame carries a text: data, or the reason why the hub has given up, with 'T' (timeout) or 'I' in front.
enum class Kind : unsigned { data = 0x44415441, error = 0x4552524f };
/// Throws Gone.
void write_frame(int fd, Kind kind, const std::string& text, Deadline deadline);
/// The text of a data frame. Throws Gone, and TestFailure with the hub's words for an error frame.
std::string read_frame(int fd, Deadline deadline);

/// A listening, non-blocking socket at `place`, and a connection to it; nothing where that fails (errno says why). A local name
/// is an abstract unix address, which leaves nothing behind; whoever answers there must belong to the same user. Throws
/// TestFailure for a host without address.
std::optional<Descriptor> try_listen(const MeetingPlace& place, int backlog);
std::optional<Descriptor> try_connect(const MeetingPlace& place);
/// Whether the other end of a local connection belongs to this user: anybody could take a local name.
bool same_user(int fd);
/// "the local name x", "host port 1234".
std::string place_text(const MeetingPlace& place);

/// Says that no more will come and reads until the other end closes, or `deadline`.
void drain(int fd, Deadline deadline);

}  // namespace ronde::bench
