// Makes the streams of a connection: one address of the peer after the other, and again, until one answers and proves itself;
// then the other streams to the same address. Never blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "boot/fork.h"
#include "transport/socket/ends.h"
#include "transport/socket/greeting.h"
#include "transport/socket/locals.h"

namespace ronde::net {

/// How patient a Dial is.
struct Retries {
  int64_t rounds = 34;     ///< attempts after the first, while what failed may be better later
  int64_t pause_ms = 100;  ///< before the first of them; times n before the nth
};

class Dial {
 public:
  Dial(const Local& local, Contact contact, const Buffers& buffers, const Retries& retries);

  /// Goes on. True: all streams are there. An error says what was tried; it is final.
  Result<bool> step();
  std::vector<int> descriptors() const;
  std::vector<BootFd> take();
  std::string describe() const;

 private:
  enum class Stage : uint8_t { connecting, greeted, up };
  struct Call {
    BootFd fd;
    Stage stage = Stage::connecting;
    Hello hello;
    Welcome welcome;
    size_t got = 0;
  };

  const Way& way() const { return ways_[way_]; }
  std::optional<int> begin(uint32_t stream);
  std::optional<int> go_on(Call& call, uint32_t stream);
  std::optional<int> step_calls();
  Result<bool> failed(int errno_value);
  std::string trouble() const;

  const std::string interface_;
  const uint32_t streams_;
  const Contact contact_;
  const Buffers buffers_;
  const Retries retries_;
  const std::vector<Way> ways_;

  std::vector<Call> calls_;  // the first stream alone, until it is up
  std::vector<int> last_;    // errno of the last attempt, by way; kImpostor, kClosed
  size_t way_ = 0;
  int64_t round_ = 0;
  bool hopeful_ = false;  // something in this round may be better later
  uint64_t next_ = 0;     // now_ns of the next attempt
  uint64_t until_ = 0;    // of this attempt
};

}  // namespace ronde::net
