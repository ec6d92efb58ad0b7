// The abort word: what every wait of a communicator reads.
#pragma once

#include <atomic>
#include <cstdint>

namespace ronde {

/// Set once, by Abort, by the monitor when a peer died, or by whoever finds the communicator broken. Not cleared.
class AbortWord {
 public:
  bool raised() const { return word_.load(std::memory_order_seq_cst) != 0; }  // pairs with raise(), through the Bell's rule
  void raise() { word_.store(1, std::memory_order_seq_cst); }

 private:
  std::atomic<uint32_t> word_{0};
};

}  // namespace ronde
