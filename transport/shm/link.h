// A link: the one socket between this process and another, and what has come through it. Messages are packets of one size, some
// with a descriptor.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "boot/fork.h"
#include "transport/process.h"

namespace ronde::shm {

enum class Kind : uint32_t {
  hello,       ///< connector: id = its process, secret = the listener's
  want_arena,  ///< id = name of the arena
  arena,       ///< id; with descriptor
  no_arena,    ///< id
  want_bells,
  bells,      ///< with descriptor
  probe,      ///< read 16 bytes at `address` of my memory by process_vm_readv, and
  proof,      ///< say what was there (id), or which errno there was (number)
  region,     ///< number = its name, size; with descriptor
  region_ok,  ///< number: it is mapped
  region_no,  ///< number: it cannot be mapped
};

struct Message {
  Kind kind = Kind::hello;
  uint32_t number = 0;
  uint64_t size = 0;
  uint64_t address = 0;
  Id id{};
  Id secret{};
};
static_assert(sizeof(Message) == 56);

/// A message that could not be sent yet, with what keeps its descriptor open.
struct Outgoing {
  Message message;
  int fd = -1;
  std::shared_ptr<const void> keep;
};

struct Incoming {
  Message message;
  UniqueFd fd;
};

/// How a send or receive of one message went.
enum class Io { done, later, ended };

Io send_message(int socket, const Message& message, int fd);
/// Wrong sizes count as ended: whoever sends them is no peer of ours.
Io receive_message(int socket, Incoming* incoming);
/// Whether the other end has closed or ended; asks the kernel now.
bool hung_up(int socket);
/// Process at the other end as this process's pid namespace has it; 0 where it is not to be seen.
int peer_pid(int socket);

/// Whether the peer can read this process's memory with process_vm_readv.
enum class Proof : uint32_t { unknown, asked, readable, refused };

struct Link {
  explicit Link(const Id& process) : peer(process) {}
  const Id peer;

  // Guarded by the hub's mutex, except that `socket`, `pid` and `bells` do not change once they are set.
  enum class State { wanted, dialling, connected, ended } state = State::wanted;
  BootFd socket;
  int pid = 0;
  int users = 0;  ///< PeerEnds that hold it
  Mapping bells;  ///< the peer process's
  bool bells_asked = false;
  std::string trouble;  ///< what has gone wrong with what came; empty if nothing
  std::string ending;   ///< how the process ended: "was killed by signal 9 (Killed)"
  std::deque<Outgoing> outbox;

  std::atomic<bool> ended{false};
  std::atomic<Proof> proof{Proof::unknown};
  Id probe_secret{};    ///< what the peer has to find
  int proof_errno = 0;  ///< why it did not

  enum class Offer { pending, mapped, refused };
  std::mutex regions_mutex;             // guards what follows; taken last
  std::map<uint32_t, Offer> offers;     ///< of this process's regions to the peer
  std::map<uint32_t, Mapping> regions;  ///< of the peer's that this process has mapped; they stay until the link goes
};

}  // namespace ronde::shm
