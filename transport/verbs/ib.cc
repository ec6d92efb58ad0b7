#include "transport/verbs/ib.h"

#include <sys/timerfd.h>
#include <cerrno>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/core.h>

#include "base/fd.h"
#include "base/lists.h"
#include "base/log.h"
#include "transport/socket/dial.h"
#include "transport/socket/locals.h"
#include "transport/verbs/hca.h"
#include "transport/verbs/receiver.h"
#include "transport/verbs/sender.h"

namespace ronde::net {
namespace {

constexpr size_t kMaxPorts = 32;

/// Where control streams come and go: all interfaces of this host that can reach another one, as one.
Local make_control(const Config& config, const topo::HostFiles& files) {
  Local control;
  for (const Local& local : make_locals(usable_interfaces(config), files, config)) {
    if (control.addresses.empty()) control.device = local.device;
    for (const Interface& one : local.addresses) {
      // A link-local address means something on its own interface alone.
      if (local.device.name == control.device.name || !one.address.link_local()) control.addresses.push_back(one);
    }
  }
  return control;
}

class VerbsNet final : public Net {
 public:
  VerbsNet(const Config& config, const LineSettings& settings, std::vector<Port> ports, Local control)
      : config_(config),
        settings_(settings),
        ports_(std::make_shared<const std::vector<Port>>(std::move(ports))),
        control_(std::move(control)),
        retries_{config.integer(Setting::socket_retry_cnt), config.integer(Setting::socket_retry_sleep_msec)} {
    for (const Port& port : *ports_) devices_.push_back(port.device);
  }

  std::string_view name() const override { return "IB"; }
  std::span<const Device> devices() const override { return devices_; }

  Result<std::unique_ptr<Listener>> listen(int device) override {
    RONDE_TRY(std::shared_ptr<Door> door, Door::of(config_));
    Contact contact;
    RONDE_TRY(fill_random(std::as_writable_bytes(std::span(contact.secret))));
    contact.port = door->port();
    for (const Interface& own : control_.addresses) {
      if (door->admits(own.address.family)) contact.addresses.push_back(own.address);
    }
    if (contact.addresses.empty()) {
      return fail(
          Code::system_error,
          fmt::format(
              "listening for control streams of RDMA connections on {}: it has IPv6 addresses alone, and this host opens no IPv6 "
              "sockets; name another interface by NCCL_SOCKET_IFNAME",
              control_.device.name));
    }
    RONDE_TRY(contact.number, door->await(contact.secret, {}));
    return std::unique_ptr<Listener>(std::make_unique<VerbsListener>(ports_, static_cast<size_t>(device), settings_, door,
                                                                     contact.number, to_handle(contact), control_.device.name));
  }

  Result<std::unique_ptr<Sender>> connect(int device, const Handle& handle) override {
    RONDE_TRY(Contact contact, from_handle(handle));
    BootFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!timer) {
      return system_failure(errno, fmt::format("making a timer of an RDMA connection ({})", descriptor_use()),
                            "raise `ulimit -n` if it is the descriptors", Scope::communicator);
    }
    Gate gate;
    if (!gate.open()) return no_gate(errno);
    auto dial = std::make_unique<Dial>(control_, std::move(contact), Buffers{}, retries_);
    return std::unique_ptr<Sender>(std::make_unique<VerbsSender>(ports_, static_cast<size_t>(device), settings_, std::move(dial),
                                                                 std::move(timer), std::move(gate), control_.device.name));
  }

 private:
  const Config config_;
  const LineSettings settings_;
  const Ports ports_;
  const Local control_;
  const Retries retries_;
  std::vector<Device> devices_;
};

Port make_port(const std::shared_ptr<Adapter>& adapter, int number, const ibv_port_attr& attributes,
               const topo::HostFiles& files) {
  Port port;
  port.adapter = adapter;
  port.number = number;
  port.device.name = fmt::format("{}:{}", adapter->name(), number);
  port.device.pci_path = files.resolve("/sys/class/infiniband/" + adapter->name() + "/device");
  port.device.gbps = link_gbps(attributes.active_width, attributes.active_speed);
  port.device.port = number;
  port.device.guid = adapter->guid();
  return port;
}

/// The active ports that `filter` admits; what others lack goes to `passed_over`.
std::vector<Port> find_ports(const Verbs& verbs, const Config& config, const topo::HostFiles& files,
                             std::vector<std::string>* passed_over) {
  const HcaFilter filter(config.text(Setting::ib_hca));
  for (const std::string& wrong : filter.wrong()) {
    log_once(
        fmt::format("{}: \"{}\" names no port; write an adapter as name or name:port", config.source(Setting::ib_hca), wrong));
  }
  std::vector<Port> ports;
  int count = 0;
  ibv_device** const devices = verbs.get_device_list(&count);
  for (int i = 0; devices != nullptr && i < count; ++i) {
    const auto adapter = Adapter::open(verbs, devices[i], config);
    if (!adapter.ok()) {
      passed_over->push_back(adapter.error().what);
      continue;
    }
    for (int number = 1; number <= (*adapter)->ports() && ports.size() < kMaxPorts; ++number) {
      const std::string name = fmt::format("{}:{}", (*adapter)->name(), number);
      const auto attributes = (*adapter)->port(number);
      if (!filter.admits((*adapter)->name(), number)) {
        passed_over->push_back(fmt::format("{} is not in {}", name, config.source(Setting::ib_hca)));
      } else if (!attributes.has_value() || attributes->state != IBV_PORT_ACTIVE) {
        passed_over->push_back(fmt::format("port {} is {}", name, (*adapter)->port_text(number)));
      } else {
        ports.push_back(make_port(*adapter, number, *attributes, files));
      }
    }
  }
  if (devices != nullptr) verbs.free_device_list(devices);
  return ports;
}

}  // namespace

Result<std::shared_ptr<Net>> open_verbs_net(const Config& config, std::string* why) {
  if (config.flag(Setting::ib_disable)) {
    *why = fmt::format("{} is 1", config.source(Setting::ib_disable));
    return std::shared_ptr<Net>();
  }
  const Verbs* const verbs = load_verbs(config.text(Setting::ibverbs_lib), why);
  if (verbs == nullptr) return std::shared_ptr<Net>();
  RONDE_TRY(const LineSettings settings, line_settings(config));
  RONDE_TRY(const topo::HostFiles files, topo::HostFiles::open(""));
  std::vector<std::string> passed_over;
  std::vector<Port> ports = find_ports(*verbs, config, files, &passed_over);
  if (ports.empty()) {
    *why = passed_over.empty() ? "there is no RDMA adapter"
                               : fmt::format("no RDMA adapter can be used: {}", comma_list(passed_over));
    return std::shared_ptr<Net>();
  }
  Local control = make_control(config, files);
  if (control.addresses.empty()) {
    *why = "no interface is up that NCCL_SOCKET_IFNAME and RONDE_SOCKET_FAMILY admit, for control streams";
    return std::shared_ptr<Net>();
  }
  for (const std::string& one : passed_over) RONDE_INFO(net, "NET/IB: {}", one);
  return std::shared_ptr<Net>(std::make_shared<VerbsNet>(config, settings, std::move(ports), std::move(control)));
}

}  // namespace ronde::net
