#include "transport/plugin/connections.h"

#include <deque>

#include <fmt/core.h>

#include "base/log.h"

namespace ronde::net {
namespace {

constexpr size_t kMostRequests = 32;  // that a plugin must take of one connection

/// No argument of the caller's is wrong, whatever the plugin calls it.
Code meaning(int code) {
  const auto as = static_cast<Code>(code);
  return as == Code::system_error || as == Code::remote_error ? as : Code::internal_error;
}

const char* advice(int code) {
  switch (static_cast<Code>(code)) {
    case Code::system_error:
    case Code::remote_error:
      return "the peer's process may have ended, or the link be down: see the logs of both hosts, and what the plugin logs with "
             "NCCL_DEBUG=INFO";
    default:
      return "see what the plugin logs with NCCL_DEBUG=INFO";
  }
}

/// What both kinds of End have. `Kind` is Sender or Receiver.
template <class Kind>
class Connection : public Kind {
 public:
  Connection(std::shared_ptr<PluginNet> net, int device, void* comm) : net_(std::move(net)), device_(device), comm_(comm) {}

  Result<> use(std::span<std::byte> memory) override {
    void* registration = nullptr;
    RONDE_TRY(net_->check(abi().register_memory(comm_, memory.data(), memory.size(), &registration), "regMr", device_));
    regions_.push_back({memory, registration});
    return {};
  }
  std::vector<int> descriptors() const override { return {}; }
  std::string describe() const override { return net_->where(device_); }

 protected:
  struct Region {
    std::span<std::byte> memory;
    void* registration = nullptr;
  };

  NetAbi& abi() const { return net_->abi(); }
  bool full() const { return requests_.size() == kMostRequests; }

  /// The registration of a message that begins at `at`.
  Result<void*> registration(const std::byte* at, size_t bytes) const {
    const size_t largest = net_->known(device_).largest;
    if (bytes > largest) {
      return fail(Code::invalid_usage,
                  fmt::format("a message of {} bytes is too long for {}, which takes {}; set RONDE_BUFFSIZE lower", bytes,
                              net_->where(device_), largest),
                  Scope::connection);
    }
    for (const Region& region : regions_) {
      if (at >= region.memory.data() && at + bytes <= region.memory.data() + region.memory.size()) return region.registration;
    }
    return fail(Code::internal_error,
                fmt::format("a message for {} lies in memory that was not registered", net_->where(device_)), Scope::connection);
  }

  /// Ends the oldest request if it is done.
  Result<bool> end_oldest(int* bytes) {
    if (requests_.empty()) return false;
    int done = 0;
    RONDE_TRY(net_->check(abi().test(requests_.front(), &done, bytes), "test", device_));
    if (done == 0) return false;
    requests_.pop_front();
    return true;
  }

  /// Registrations end before the connection that they were made for; with them the adapter lets go of the memory.
  void deregister() {
    for (const Region& region : regions_) {
      if (region.registration != nullptr) net_->note(abi().deregister_memory(comm_, region.registration), "deregMr", device_);
    }
    regions_.clear();
  }

  const std::shared_ptr<PluginNet> net_;
  const int device_;
  void* comm_;
  std::deque<void*> requests_;  // under way, the oldest first

 private:
  std::vector<Region> regions_;
};

class PluginSender final : public Connection<Sender> {
 public:
  PluginSender(std::shared_ptr<PluginNet> net, int device, const Handle& handle)
      : Connection(std::move(net), device, nullptr), handle_(handle) {}
  ~PluginSender() override {
    if (comm_ == nullptr) return;
    deregister();
    net_->note(abi().close_send(comm_), "closeSend", device_);
  }

  Result<bool> ready() override {
    if (comm_ != nullptr) return true;
    RONDE_TRY(net_->check(abi().connect(net_->known(device_).number, handle_.data(), &comm_), "connect", device_));
    return comm_ != nullptr;
  }

  Result<bool> post(std::span<const std::byte> head, std::span<const std::byte> data) override {
    if (full()) return false;
    if (!data.empty() && data.data() != head.data() + head.size()) {
      return fail(Code::internal_error, fmt::format("a message in two pieces for {}, which gathers none", net_->where(device_)),
                  Scope::connection);
    }
    const size_t bytes = head.size() + data.size();
    RONDE_TRY(void* const known, registration(head.data(), bytes));
    void* request = nullptr;
    auto* const from = const_cast<std::byte*>(head.data());  // the interface says void*, and reads
    RONDE_TRY(net_->check(abi().send(comm_, from, bytes, known, &request), "isend", device_));
    if (request == nullptr) return false;
    requests_.push_back(request);
    return true;
  }

  Result<bool> done() override {
    int bytes = 0;
    return end_oldest(&bytes);
  }

 private:
  alignas(16) Handle handle_;  // in which the plugin also keeps how far it is
};

class PluginReceiver final : public Connection<Receiver> {
 public:
  using Connection::Connection;
  ~PluginReceiver() override {
    deregister();
    net_->note(abi().close_receive(comm_), "closeRecv", device_);
  }

  Result<bool> ready() override { return true; }

  Result<bool> post(std::span<std::byte> room) override {
    if (full()) return false;
    RONDE_TRY(void* const known, registration(room.data(), room.size()));
    void* request = nullptr;
    RONDE_TRY(net_->check(abi().receive(comm_, room.data(), room.size(), known, &request), "irecv", device_));
    if (request == nullptr) return false;
    requests_.push_back(request);
    rooms_.push_back(room.size());
    return true;
  }

  Result<std::optional<size_t>> done() override {
    int bytes = 0;
    RONDE_TRY(const bool ended, end_oldest(&bytes));
    if (!ended) return std::optional<size_t>();
    const size_t room = rooms_.front();
    rooms_.pop_front();
    if (bytes < 0 || static_cast<size_t>(bytes) > room) {
      return fail(Code::internal_error,
                  fmt::format("{} says that {} bytes came where there was room for {}", net_->where(device_), bytes, room),
                  Scope::connection);
    }
    return std::optional<size_t>(bytes);
  }

 private:
  std::deque<size_t> rooms_;  // of requests_, in bytes
};

class PluginListener final : public Listener {
 public:
  PluginListener(std::shared_ptr<PluginNet> net, int device) : net_(std::move(net)), device_(device) {}
  ~PluginListener() override {
    if (comm_ != nullptr) net_->note(net_->abi().close_listen(comm_), "closeListen", device_);
  }

  Result<> open() {
    RONDE_TRY(net_->check(net_->abi().listen(net_->known(device_).number, handle_.data(), &comm_), "listen", device_));
    if (comm_ != nullptr) return {};
    return fail(Code::internal_error, fmt::format("{} has made no listener, and gives no reason", net_->where(device_)),
                Scope::connection);
  }
  const Handle& handle() const override { return handle_; }
  Result<std::unique_ptr<Receiver>> accept() override {
    void* comm = nullptr;
    RONDE_TRY(net_->check(net_->abi().accept(comm_, &comm), "accept", device_));
    if (comm == nullptr) return std::unique_ptr<Receiver>();
    return std::unique_ptr<Receiver>(std::make_unique<PluginReceiver>(net_, device_, comm));
  }
  std::vector<int> descriptors() const override { return {}; }

 private:
  const std::shared_ptr<PluginNet> net_;
  const int device_;
  void* comm_ = nullptr;
  alignas(16) Handle handle_{};
};

}  // namespace

std::string code_in_words(int code) {
  constexpr const char* kWords[] = {"success",
                                    "an error of CUDA",
                                    "a call of the system or of another library has failed",
                                    "an internal error of the plugin, or of how it is used",
                                    "an argument is invalid",
                                    "it is used or configured wrongly",
                                    "the peer has failed or its connection is lost",
                                    "in progress"};
  const bool known = code >= 0 && static_cast<size_t>(code) < std::size(kWords);
  return fmt::format("code {} ({})", code, known ? kWords[code] : "which the interface does not have");
}

PluginNet::PluginNet(std::unique_ptr<NetAbi> abi, std::string name, std::string identity, std::mutex& plugin_wide,
                     std::vector<Known> known)
    : abi_(std::move(abi)),
      name_(std::move(name)),
      identity_(std::move(identity)),
      plugin_wide_(plugin_wide),
      known_(std::move(known)) {
  for (const Known& one : known_) devices_.push_back(one.device);
}

PluginNet::~PluginNet() {
  const std::lock_guard lock(plugin_wide_);
  const int code = abi_->finish();
  if (code != 0) RONDE_INFO(net, "{}: finalize returned {}", identity_, code_in_words(code));
}

Result<std::unique_ptr<Listener>> PluginNet::listen(int device) {
  auto made = std::make_unique<PluginListener>(shared_from_this(), device);
  RONDE_TRY(made->open());
  return std::unique_ptr<Listener>(std::move(made));
}

Result<std::unique_ptr<Sender>> PluginNet::connect(int device, const Handle& handle) {
  return std::unique_ptr<Sender>(std::make_unique<PluginSender>(shared_from_this(), device, handle));
}

std::string PluginNet::where(int device) const { return fmt::format("{} of {}", known(device).device.name, identity_); }

Result<> PluginNet::check(int code, const char* function, int device) const {
  if (code == 0) return {};
  return fail(meaning(code), fmt::format("{}: {} returned {}; {}", where(device), function, code_in_words(code), advice(code)),
              Scope::connection);
}

void PluginNet::note(int code, const char* function, int device) const {
  if (code != 0) RONDE_INFO(net, "{}: {} returned {}", where(device), function, code_in_words(code));
}

}  // namespace ronde::net
