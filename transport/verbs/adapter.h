// An RDMA adapter that is open: its protection domain, its registered memory, its events.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/result.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/verbs.h"

namespace ronde::net {

/// Thread-safe.
class Adapter {
 public:
  static Result<std::shared_ptr<Adapter>> open(const Verbs& verbs, ibv_device* device, const Config& config);
  ~Adapter();
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  const Verbs& verbs() const { return verbs_; }
  const std::string& name() const { return name_; }
  uint64_t guid() const { return guid_; }
  int ports() const { return attributes_.phys_port_cnt; }
  const ibv_device_attr& attributes() const { return attributes_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  MemoryCache& memory() { return *memory_; }

  std::optional<ibv_port_attr> port(int number) const;
  /// As port_text, of now.
  std::string port_text(int number) const;
  /// The port's GID table, read when it has changed.
  std::vector<Gid> gids(int number);

  /// Shows that events may have come.
  int events_descriptor() const { return context_->async_fd; }
  /// Takes and logs what events have come.
  void take_events();
  /// The event that has ended the use of this adapter, and that NCCL_IB_RETURN_ASYNC_EVENTS wants returned.
  std::optional<std::string> fatal() const;

 private:
  explicit Adapter(const Verbs& verbs) : verbs_(verbs) {}
  void note(const ibv_async_event& event);

  const Verbs& verbs_;
  std::string name_;
  uint64_t guid_ = 0;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_device_attr attributes_{};
  std::unique_ptr<MemoryCache> memory_;
  bool returns_events_ = true;

  std::mutex taking_;  // one event is taken at a time
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards what follows
  std::string fatal_;
  std::map<int, std::vector<Gid>> gids_;  // by port
};

}  // namespace ronde::net
