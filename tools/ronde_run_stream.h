// One stream of one process of a job.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

namespace ronde::run {

/// One stream of one process: takes bytes from a pipe, puts whole lines behind a prefix.
class Stream {
 public:
  Stream(int from, int to, std::string prefix) : from_(from), to_(to), prefix_(std::move(prefix)) {}

  int descriptor() const { return from_; }
  bool open() const { return from_ >= 0; }

  /// Passes on what is there, without waiting; false when the destination does not take it any more.
  bool pump() {
    std::array<char, 65536> bytes;
    while (open()) {
      const ssize_t got = read(from_, bytes.data(), bytes.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return true;
      if (got <= 0) return close_end();
      line_.append(bytes.data(), static_cast<size_t>(got));
      if (!pass_lines()) return false;
    }
    return true;
  }
  /// The last line may lack its end.
  bool close_end() {
    if (open()) close(from_);
    from_ = -1;
    if (line_.empty()) return true;
    line_ += '\n';
    return pass_lines();
  }

 private:
  bool pass_lines() {
    constexpr size_t kLongest = 1 << 20;  // a line without end goes out in pieces
    std::string out;
    size_t start = 0;
    for (size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n', start)) {
      out += prefix_;
      out.append(line_, start, end + 1 - start);
      start = end + 1;
    }
    line_.erase(0, start);
    if (line_.size() > kLongest) {
      out += prefix_ + std::exchange(line_, {}) + '\n';
    }
    return write_out(out);
  }
  bool write_out(const std::string& text) const {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t put = write(to_, text.data() + done, text.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == EAGAIN) {
        pollfd ready{to_, POLLOUT, 0};
        poll(&ready, 1, 1000);
        continue;
      }
      if (put < 0) return false;
      done += static_cast<size_t>(put);
    }
    return true;
  }

  int from_;
  int to_;
  std::string prefix_;
  std::string line_;
};

}  // namespace ronde::run
