// The network interface: what a kind of network (sockets, RDMA verbs, a NCCL net plugin) must offer. The proxy (proxy.h) drives it and knows no more of it.
//
// A connection goes one way and carries messages in order. Nothing here blocks: what is not possible yet is said, and asked for again. One thread at a
// time uses a Listener, Sender or Receiver; different ones may be used by different threads at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/result.h"

namespace ronde::net {

/// A network device (a port of an adapter, an interface).
struct Device {
  std::string name;      ///< "eth0", "mlx5_0:1"
  std::string pci_path;  ///< its folder in /sys, "" where it is no PCI device or not known
  double gbps = 0;       ///< gigabits per second in each direction; 0: not known
  int port = 1;
  uint64_t guid = 0;  ///< of the adapter; equal for its ports
  /// A Sender of this device takes any memory of the process, and the two parts of a message from different places.
  bool gathers = false;
};

/// How a Listener is reached. Goes to the peer over the bootstrap, which is authenticated; it may hold a secret.
using Handle = std::array<std::byte, 128>;

/// Common to both ends of a connection. Destruction closes it at once: what is under way is given up and its memory is not touched any more.
class End {
 public:
  virtual ~End() = default;
  /// Takes the set-up further; true once messages may be posted. An error is final.
  virtual Result<bool> ready() = 0;
  /// Names memory in which messages will lie, before the first of them is posted; it stays valid as long as this End. (For adapters that must register it.)
  virtual Result<> use(std::span<std::byte> memory) = 0;
  /// Descriptors on which poll() shows that ready(), post() or done() may do more than before. They are watched edge-triggered for reading and writing, may
  /// change until the End is ready and not afterwards. Empty: it has to be asked.
  virtual std::vector<int> descriptors() const = 0;
  /// One of them has shown something since the last call.
  virtual void signalled() {}
  /// The caller is about to sleep on the descriptors. False: something has come already, ask again first.
  virtual Result<bool> arm() { return true; }
  /// For the log: "10.0.0.1 to 10.0.0.2 over eth0, 2 sockets".
  virtual std::string describe() const = 0;
};

class Sender : public End {
 public:
  /// Begins a message of `head` and then `data` (may be empty). Unless the device gathers, both lie in memory that use() has named, `data` right behind
  /// `head`. False: not now, too much is under way; ask again after a message is done. The memory must stay as it is until then.
  virtual Result<bool> post(std::span<const std::byte> head, std::span<const std::byte> data) = 0;
  /// True: the oldest message under way has ended, its memory may be written again. False: none has.
  virtual Result<bool> done() = 0;
};

class Receiver : public End {
 public:
  /// Gives room for the next message, in memory that use() has named. False: not now.
  virtual Result<bool> post(std::span<std::byte> room) = 0;
  /// The bytes of the oldest message that has come whole; nullopt: none has. A message longer than its room is an error, as is the end of the connection
  /// inside a message or between two: the one who closes says so elsewhere.
  virtual Result<std::optional<size_t>> done() = 0;
};

/// Waits for one connection.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual const Handle& handle() const = 0;
  /// The connection, once; nullptr: nobody has come yet. Strangers are turned away without a word here.
  virtual Result<std::unique_ptr<Receiver>> accept() = 0;
  /// As End::descriptors.
  virtual std::vector<int> descriptors() const = 0;
};

/// A network that works here, with at least one device. Thread-safe; outlives all that was made of it.
class Net {
 public:
  virtual ~Net() = default;
  /// "Socket", "IB", or a plugin's own name.
  virtual std::string_view name() const = 0;
  virtual std::span<const Device> devices() const = 0;
  /// Whether the host's cores copy what is sent and received, as a kernel's sockets do; else adapters move it.
  virtual bool by_cpu() const { return false; }
  virtual Result<std::unique_ptr<Listener>> listen(int device) = 0;
  /// Begins a connection from `device` to where `handle` leads; ready() says when it is up.
  virtual Result<std::unique_ptr<Sender>> connect(int device, const Handle& handle) = 0;
};

/// A kind of network: one folder in transport/, one line in net/registry.cc.
struct Provider {
  std::string_view name;
  /// Opens it with these settings. nullptr in the value: there is none here, for the reason in `*why` (a clause). An error: it was asked for by the settings
  /// and does not work.
  Result<std::shared_ptr<Net>> (*open)(const Config& config, std::string* why);
};

/// All providers, best first. Plugins (plugin/plugin.h) come before them.
std::span<const Provider> providers();

/// The network that RONDE_NET names, or the best that works here; an error that says what was tried where there is none. `comm`
/// names the communicator, for plugins that keep something for each.
Result<std::shared_ptr<Net>> open_net(const Config& config, uint64_t comm);

}  // namespace ronde::net
