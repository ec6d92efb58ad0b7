#include "transport/fault/fault.h"

#include <algorithm>
#include <deque>

#include <fmt/core.h>

#include "base/clock.h"

namespace ronde::net {
namespace {

constexpr std::array<const char*, static_cast<size_t>(FaultAt::count_)> kNames = {
    "listening", "connecting", "accepting", "setting a connection up", "sending", "sending", "giving room to read", "receiving"};

Error failure(const Fault& fault) {
  return system_failure(fault.errno_value, fmt::format("{}, as ordered by a test", kNames[static_cast<size_t>(fault.at)]), "",
                        Scope::connection);
}

/// What both ends have: the wrapped one, and the fault that holds it up.
template <class Wrapped>
class Faulty : public Wrapped {
 public:
  Faulty(std::unique_ptr<Wrapped> inner, std::shared_ptr<FaultPlan> plan)
      : inner_(std::move(inner)), plan_(std::move(plan)), name_(inner_->describe()) {}

  Result<bool> ready() override {
    RONDE_TRY(usable());
    if (!asked_) {
      asked_ = true;
      RONDE_TRY(strike(plan_->next(FaultAt::ready)));
    }
    if (held()) return false;
    return inner_->ready();
  }
  Result<> use(std::span<std::byte> memory) override {
    RONDE_TRY(usable());
    return inner_->use(memory);
  }
  std::vector<int> descriptors() const override { return inner_ == nullptr ? std::vector<int>{} : inner_->descriptors(); }
  void signalled() override {
    if (inner_ != nullptr) inner_->signalled();
  }
  std::string describe() const override { return inner_ == nullptr ? name_ : inner_->describe(); }

 protected:
  Result<> usable() const {
    if (error_.has_value()) return *error_;
    return {};
  }
  /// Takes up a fault: errors end the connection, delays and stalls hold it up from now on.
  Result<> strike(const std::optional<Fault>& fault) {
    if (!fault.has_value()) return {};
    if (fault->kind == FaultKind::error || fault->kind == FaultKind::cut) {
      if (fault->kind == FaultKind::cut) inner_.reset();
      error_ = failure(*fault);
      return *error_;
    }
    if (fault->kind == FaultKind::delay) until_ = now_ns() + fault->delay_ns;
    if (fault->kind == FaultKind::stall || fault->kind == FaultKind::drop) until_ = UINT64_MAX;
    return {};
  }
  bool held() const { return until_ != 0 && now_ns() < until_; }
  /// Held up for a time: no descriptor shows its end.
  bool must_ask() const { return until_ != UINT64_MAX && held(); }

  std::unique_ptr<Wrapped> inner_;  ///< nullptr: cut
  const std::shared_ptr<FaultPlan> plan_;

 private:
  const std::string name_;
  std::optional<Error> error_;
  uint64_t until_ = 0;  // now_ns
  bool asked_ = false;
};

class FaultySender final : public Faulty<Sender> {
 public:
  using Faulty::Faulty;

  Result<bool> post(std::span<const std::byte> head, std::span<const std::byte> data) override {
    RONDE_TRY(usable());
    if (!decided_) {
      fault_ = plan_->next(FaultAt::send);
      decided_ = true;
      if (!changes(fault_)) RONDE_TRY(strike(fault_));
    }
    if (held()) return false;
    bool accepted = true;
    if (!fault_.has_value() || fault_->kind != FaultKind::drop) {
      if (fault_.has_value() && fault_->kind == FaultKind::shorten) {
        head = head.first(std::min(head.size(), fault_->bytes));
        data = data.first(std::min(data.size(), fault_->bytes - head.size()));
      }
      RONDE_TRY(accepted, inner_->post(head, data));
    }
    if (!accepted) return false;
    under_way_.push_back(fault_.has_value() && fault_->kind == FaultKind::drop);
    decided_ = false;
    return true;
  }

  Result<bool> done() override {
    RONDE_TRY(usable());
    if (under_way_.empty()) return false;
    if (!ended_) {
      ended_ = under_way_.front();
      if (!ended_) {
        RONDE_TRY(ended_, inner_->done());
      }
      if (!ended_) return false;
      RONDE_TRY(strike(plan_->next(FaultAt::sent)));
    }
    if (held()) return false;
    ended_ = false;
    under_way_.pop_front();
    return true;
  }

  Result<bool> arm() override {
    if (inner_ == nullptr || must_ask() || ended_ || (!under_way_.empty() && under_way_.front())) return false;
    return inner_->arm();
  }

 private:
  /// Faults of a message that do not hold up the connection.
  static bool changes(const std::optional<Fault>& fault) {
    return fault.has_value() && (fault->kind == FaultKind::drop || fault->kind == FaultKind::shorten);
  }

  std::optional<Fault> fault_;  // of the next message
  bool decided_ = false;        // fault_ is
  bool ended_ = false;          // the oldest message has, and may be held up
  std::deque<bool> under_way_;  // true: dropped
};

class FaultyReceiver final : public Faulty<Receiver> {
 public:
  using Faulty::Faulty;

  Result<bool> post(std::span<std::byte> room) override {
    RONDE_TRY(usable());
    if (!decided_) {
      decided_ = true;
      RONDE_TRY(strike(plan_->next(FaultAt::room)));
    }
    if (held()) return false;
    RONDE_TRY(const bool accepted, inner_->post(room));
    decided_ = !accepted;
    return accepted;
  }

  Result<std::optional<size_t>> done() override {
    RONDE_TRY(usable());
    if (!came_.has_value()) {
      RONDE_TRY(came_, inner_->done());
      if (!came_.has_value()) return came_;
      const std::optional<Fault> fault = plan_->next(FaultAt::received);
      RONDE_TRY(strike(fault));
      if (fault.has_value() && fault->kind == FaultKind::shorten) came_ = std::min(*came_, fault->bytes);
    }
    if (held()) return std::optional<size_t>();
    return std::exchange(came_, std::nullopt);
  }

  Result<bool> arm() override {
    if (inner_ == nullptr || must_ask() || (came_.has_value() && !held())) return false;
    return inner_->arm();
  }

 private:
  bool decided_ = false;        // about the next room
  std::optional<size_t> came_;  // a message that may be held up
};

class FaultyListener final : public Listener {
 public:
  FaultyListener(std::unique_ptr<Listener> inner, std::shared_ptr<FaultPlan> plan)
      : inner_(std::move(inner)), plan_(std::move(plan)) {}

  const Handle& handle() const override { return inner_->handle(); }
  std::vector<int> descriptors() const override { return inner_->descriptors(); }
  Result<std::unique_ptr<Receiver>> accept() override {
    if (came_ == nullptr) {
      RONDE_TRY(came_, inner_->accept());
      if (came_ == nullptr) return std::unique_ptr<Receiver>();
      const std::optional<Fault> fault = plan_->next(FaultAt::accept);
      if (fault.has_value()) {
        if (fault->kind == FaultKind::cut) came_.reset();
        if (fault->kind == FaultKind::error || fault->kind == FaultKind::cut) return failure(*fault);
        until_ = fault->kind == FaultKind::delay ? now_ns() + fault->delay_ns : UINT64_MAX;
      }
    }
    if (now_ns() < until_) return std::unique_ptr<Receiver>();
    return std::unique_ptr<Receiver>(std::make_unique<FaultyReceiver>(std::move(came_), plan_));
  }

 private:
  const std::unique_ptr<Listener> inner_;
  const std::shared_ptr<FaultPlan> plan_;
  std::unique_ptr<Receiver> came_;
  uint64_t until_ = 0;  // now_ns
};

class FaultyNet final : public Net {
 public:
  FaultyNet(std::shared_ptr<Net> inner, std::shared_ptr<FaultPlan> plan) : inner_(std::move(inner)), plan_(std::move(plan)) {}

  std::string_view name() const override { return inner_->name(); }
  std::span<const Device> devices() const override { return inner_->devices(); }
  bool by_cpu() const override { return inner_->by_cpu(); }
  Result<std::unique_ptr<Listener>> listen(int device) override {
    RONDE_TRY(fails(FaultAt::listen));
    RONDE_TRY(std::unique_ptr<Listener> made, inner_->listen(device));
    return std::unique_ptr<Listener>(std::make_unique<FaultyListener>(std::move(made), plan_));
  }
  Result<std::unique_ptr<Sender>> connect(int device, const Handle& handle) override {
    RONDE_TRY(fails(FaultAt::connect));
    RONDE_TRY(std::unique_ptr<Sender> made, inner_->connect(device, handle));
    return std::unique_ptr<Sender>(std::make_unique<FaultySender>(std::move(made), plan_));
  }

 private:
  /// Nothing but an error can come of a call that may not wait.
  Result<> fails(FaultAt at) {
    const std::optional<Fault> fault = plan_->next(at);
    if (fault.has_value()) return failure(*fault);
    return {};
  }

  const std::shared_ptr<Net> inner_;
  const std::shared_ptr<FaultPlan> plan_;
};

}  // namespace

void FaultPlan::order(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  orders_.push_back(fault);
  orders_.back().after += seen_[static_cast<size_t>(fault.at)];
}

uint64_t FaultPlan::seen(FaultAt at) const {
  const std::lock_guard lock(mutex_);
  return seen_[static_cast<size_t>(at)];
}

uint64_t FaultPlan::struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

std::optional<Fault> FaultPlan::next(FaultAt at) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = seen_[static_cast<size_t>(at)]++;
  for (const Fault& fault : orders_) {
    if (fault.at != at || number < fault.after || number - fault.after >= fault.times) continue;
    ++struck_;
    return fault;
  }
  return std::nullopt;
}

std::shared_ptr<Net> with_faults(std::shared_ptr<Net> inner, std::shared_ptr<FaultPlan> plan) {
  return std::make_shared<FaultyNet>(std::move(inner), std::move(plan));
}

}  // namespace ronde::net
