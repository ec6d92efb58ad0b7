#include "transport/verbs/adapter.h"

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <cerrno>

#include <fmt/core.h>

#include "base/log.h"
#include "transport/verbs/words.h"

namespace ronde::net {

Result<std::shared_ptr<Adapter>> Adapter::open(const Verbs& verbs, ibv_device* device, const Config& config) {
  std::shared_ptr<Adapter> made(new Adapter(verbs));
  made->name_ = verbs.get_device_name(device);
  made->guid_ = be64toh(verbs.get_device_guid(device));
  made->returns_events_ = config.flag(Setting::ib_return_async_events);
  const auto failed = [&](int why, const char* attempted) {
    return system_failure(why, fmt::format("{} the adapter {}", attempted, made->name_),
                          why == ENOMEM ? memlock_advice() : "see whether this user may use /dev/infiniband");
  };
  made->context_ = verbs.open_device(device);
  if (made->context_ == nullptr) return failed(errno, "opening");
  if (const int rc = verbs.query_device(made->context_, &made->attributes_)) return failed(rc, "asking");
  made->domain_ = verbs.alloc_pd(made->context_);
  if (made->domain_ == nullptr) return failed(errno, "making a protection domain of");
  const int flags = fcntl(made->context_->async_fd, F_GETFL);
  if (flags < 0 || fcntl(made->context_->async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return failed(errno, "watching the events of");
  made->memory_ =
      std::make_unique<MemoryCache>(verbs, made->domain_, made->name_, config.integer(Setting::ib_pci_relaxed_ordering));
  return made;
}

Adapter::~Adapter() {
  if (domain_ != nullptr) verbs_.dealloc_pd(domain_);
  if (context_ != nullptr) verbs_.close_device(context_);
}

std::optional<ibv_port_attr> Adapter::port(int number) const {
  ibv_port_attr attributes;
  if (query_port(verbs_, context_, number, &attributes) != 0) return std::nullopt;
  return attributes;
}

std::string Adapter::port_text(int number) const {
  const auto attributes = port(number);
  return attributes.has_value() ? net::port_text(*attributes) : "not there any more";
}

std::vector<Gid> Adapter::gids(int number) {
  take_events();
  const std::lock_guard lock(mutex_);
  const auto known = gids_.find(number);
  if (known != gids_.end()) return known->second;
  const auto files = topo::HostFiles::open("");
  std::vector<Gid> table;
  if (files.ok()) table = read_gids(*files, name_, number, list_interfaces());
  if (!table.empty()) gids_[number] = table;
  return table;
}

void Adapter::take_events() {
  const std::lock_guard lock(taking_);
  ibv_async_event event;
  while (verbs_.get_async_event(context_, &event) == 0) {
    note(event);
    verbs_.ack_async_event(&event);
  }
}

void Adapter::note(const ibv_async_event& event) {
  const char* const name = verbs_.event_type_str(event.event_type);
  if (event.event_type == IBV_EVENT_GID_CHANGE) {
    const std::lock_guard lock(mutex_);
    gids_.clear();
  }
  switch (event.event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      RONDE_INFO(net, "{}:{}: {}; the port is {}", name_, event.element.port_num, name, port_text(event.element.port_num));
      return;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR: {
      const std::string text = fmt::format("the adapter {} reports \"{}\"; see the kernel's log", name_, name);
      log_once(text);
      const std::lock_guard lock(mutex_);
      if (fatal_.empty()) fatal_ = text;
      failed_.store(true, std::memory_order_release);
      return;
    }
    default:
      RONDE_INFO(net, "{}: {}", name_, name);
      return;  // what it means for a connection, its completions say
  }
}

std::optional<std::string> Adapter::fatal() const {
  if (!returns_events_ || !failed_.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return fatal_;
}

}  // namespace ronde::net
