#include "transport/socket/socket.h"

#include <memory>
#include <vector>

#include <fmt/core.h>

#include "base/fd.h"
#include "transport/socket/dial.h"
#include "transport/socket/locals.h"
#include "transport/socket/receiver.h"
#include "transport/socket/sender.h"

namespace ronde::net {
namespace {

class SocketNet final : public Net {
 public:
  SocketNet(const Config& config, std::vector<Local> locals)
      : config_(config),
        locals_(std::move(locals)),
        buffers_{static_cast<int>(config.integer(Setting::socket_sndbuf)),
                 static_cast<int>(config.integer(Setting::socket_rcvbuf))},
        retries_{config.integer(Setting::socket_retry_cnt), config.integer(Setting::socket_retry_sleep_msec)} {
    for (const Local& local : locals_) devices_.push_back(local.device);
  }

  std::string_view name() const override { return "Socket"; }
  std::span<const Device> devices() const override { return devices_; }
  bool by_cpu() const override { return true; }

  Result<std::unique_ptr<Listener>> listen(int device) override {
    const Local& local = locals_.at(static_cast<size_t>(device));
    RONDE_TRY(std::shared_ptr<Door> door, Door::of(config_));
    Contact contact;
    RONDE_TRY(fill_random(std::as_writable_bytes(std::span(contact.secret))));
    contact.port = door->port();
    for (const Interface& own : local.addresses) {
      if (door->admits(own.address.family)) contact.addresses.push_back(own.address);
    }
    if (contact.addresses.empty()) {
      return fail(
          Code::system_error,
          fmt::format("listening on {}: it has IPv6 addresses alone, and this host opens no IPv6 sockets; name another interface "
                      "by NCCL_SOCKET_IFNAME",
                      local.device.name));
    }
    RONDE_TRY(contact.number, door->await(contact.secret, buffers_));
    return std::unique_ptr<Listener>(
        std::make_unique<SocketListener>(door, contact.number, to_handle(contact), local.device.name));
  }

  Result<std::unique_ptr<Sender>> connect(int device, const Handle& handle) override {
    const Local& local = locals_.at(static_cast<size_t>(device));
    RONDE_TRY(Contact contact, from_handle(handle));
    auto dial = std::make_unique<Dial>(local, std::move(contact), buffers_, retries_);
    RONDE_TRY(std::shared_ptr<Pulse> pulse, Pulse::of_process());
    return std::unique_ptr<Sender>(std::make_unique<SocketSender>(std::move(dial), std::move(pulse), local.device.name));
  }

 private:
  const Config config_;
  const std::vector<Local> locals_;
  const Buffers buffers_;
  const Retries retries_;
  std::vector<Device> devices_;
};

}  // namespace

Result<std::shared_ptr<Net>> open_socket_net(const Config& config, std::string* why) {
  RONDE_TRY(const topo::HostFiles files, topo::HostFiles::open(""));
  std::vector<Local> locals = make_locals(usable_interfaces(config), files, config);
  if (locals.empty()) {
    *why = "no interface is up that NCCL_SOCKET_IFNAME and RONDE_SOCKET_FAMILY admit";
    return std::shared_ptr<Net>();
  }
  return std::shared_ptr<Net>(std::make_shared<SocketNet>(config, std::move(locals)));
}

}  // namespace ronde::net
