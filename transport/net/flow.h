// A flow: one FIFO of slots with a network connection in its middle. On the writer's host a SendFlow reads the FIFO that the writer fills, on the reader's host
// a RecvFlow writes the one that the reader empties; each slot is one message. Both ends' executors see what they always see.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "fifo/fifo.h"
#include "transport/net/net.h"

namespace ronde::net {

/// What a proxy drives. One thread at a time is inside a Flow.
class Flow {
 public:
  virtual ~Flow() = default;
  /// Does what can be done now; true if anything moved. After an error it is not called again.
  virtual Result<bool> pump() = 0;
  /// Something was given to it that has not left yet.
  virtual bool unfinished() const = 0;
  /// The connection is up: descriptors() does not change any more.
  virtual bool settled() const = 0;
  /// As End::descriptors, signalled and arm.
  virtual std::vector<int> descriptors() const = 0;
  virtual void signalled() = 0;
  virtual Result<bool> arm() = 0;
  /// pump() has failed. Called once, without a lock of the proxy's.
  virtual void broken(Error error) = 0;
};

/// What a flow calls, and what it needs.
struct FlowEvents {
  std::function<void()> moved;         ///< a counter of the FIFO has changed: rings whoever executes the rank
  std::function<void(Error)> broken;   ///< see Flow::broken
  std::shared_ptr<const void> net;     ///< outlives the connection
  std::shared_ptr<const void> memory;  ///< of the FIFO: likewise
};

class SendFlow final : public Flow {
 public:
  /// `open` begins the connection; it runs inside the first pump().
  using Open = std::function<Result<std::unique_ptr<Sender>>()>;
  SendFlow(const FifoView& fifo, Open open, FlowEvents events) : fifo_(fifo), open_(std::move(open)), events_(std::move(events)) {}
  ~SendFlow() override { cut(); }

  Result<bool> pump() override;
  bool unfinished() const override { return done_ != fifo_.header->tail.load(std::memory_order_seq_cst); }
  bool settled() const override { return ready_; }
  std::vector<int> descriptors() const override;
  void signalled() override;
  Result<bool> arm() override { return sender_ == nullptr ? Result<bool>(true) : sender_->arm(); }
  void broken(Error error) override { events_.broken(std::move(error)); }

  /// Ends the connection at once; nothing that was lent is read after this. To be called when no pump() runs or will run.
  void cut();

 private:
  Result<bool> post();

  const FifoView fifo_;
  Open open_;
  FlowEvents events_;
  std::unique_ptr<Sender> sender_;
  bool ready_ = false;
  uint64_t posted_ = 0;  // number of the next slot to send
  uint64_t done_ = 0;    // slots given back to the writer
};

class RecvFlow final : public Flow {
 public:
  RecvFlow(const FifoView& fifo, std::unique_ptr<Listener> listener, FlowEvents events) : fifo_(fifo), events_(std::move(events)), listener_(std::move(listener)) {}

  Result<bool> pump() override;
  bool unfinished() const override { return false; }
  bool settled() const override { return ready_; }
  std::vector<int> descriptors() const override;
  void signalled() override;
  Result<bool> arm() override { return receiver_ == nullptr ? Result<bool>(true) : receiver_->arm(); }
  void broken(Error error) override { events_.broken(std::move(error)); }

 private:
  Result<bool> take();
  Result<bool> set_up();

  const FifoView fifo_;
  FlowEvents events_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Receiver> receiver_;
  bool ready_ = false;
  uint64_t posted_ = 0;  // slots for which there is room at the receiver
  uint64_t done_ = 0;    // slots that have come
};

}  // namespace ronde::net
