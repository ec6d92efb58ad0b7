// The memory that kernels see: of the emulated devices, and of the host as far as it was given to them. Device addresses are
// reserved and may not be touched by the host, as on hardware; the interpreter reaches the same bytes by a second mapping.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace emu {

using ronde::Result;

constexpr int kMaxDevices = 64;
constexpr int kHost = -1;
/// Peers of what every device may reach.
constexpr uint64_t kEveryDevice = ~uint64_t{0};

/// A stretch of device memory, or of host memory that devices were given: registered, pinned, managed.
struct Allocation {
  uint64_t address = 0;
  size_t bytes = 0;
  std::byte* host = nullptr;  ///< the interpreter's mapping of it; nullptr for a multicast address
  int device = kHost;         ///< whose memory it is; kHost: the host's
  bool alive = true;          ///< false once it is freed or unmapped
  uint64_t peers = 0;         ///< bit d: device d may reach it
  uint64_t id = 0;            ///< of no other allocation of the process
  /// For a multicast address: the interpreter's mapping of each device's copy. Only multimem instructions may touch such.
  std::vector<std::byte*> replicas;
};

/// Descriptor, offset and owner of memory that another process can map.
struct Share {
  int fd = -1;  ///< owned by the Memory
  uint64_t offset = 0;
  size_t bytes = 0;
  int device = kHost;
};

/// All memory of the process's emulated devices. Thread safe. Devices are numbered as the machine has them, whatever the process
/// shows.
class Memory {
 public:
  /// Devices with `bytes` of memory each; pages are taken when they are first touched.
  static Result<std::unique_ptr<Memory>> make(int devices, size_t bytes);
  ~Memory();

  /// The allocation that holds [address, address + bytes) for a kernel on `device`. nullptr, and why in `why` (may be nullptr):
  /// outside of any allocation, past the end of one, freed, no peer access. What is returned stays readable for good; `alive`
  /// turns false when it is freed.
  const Allocation* find(int device, uint64_t address, size_t bytes, std::string* why) const;
  /// The living allocation that holds `address`, whoever may reach it, as it is now.
  std::optional<Allocation> at(uint64_t address) const;
  /// Changes with every free and every change of access: lookups that a warp remembers are void then.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // Plain memory.

  /// Memory of a device, of whole pages, not soon where other memory was freed. The error's text says what is short.
  Result<uint64_t> allocate(int device, size_t bytes);
  /// False: nothing of allocate() begins there.
  bool release(uint64_t address);
  /// Bytes of the device's memory that are in use: plain ones, and what count() was told.
  size_t used(int device) const;
  /// Adds bytes that others made for the device, or takes them back. False: it has no more.
  bool count(int device, int64_t bytes);
  size_t capacity() const { return capacity_; }

  /// Lets a device reach all plain memory of `owner`, now and later (peer access), or not.
  void set_peer(int owner, int device, bool allowed);
  /// How another process can map the allocation of allocate() that holds `address`.
  Result<Share> share(uint64_t address) const;
  /// Maps what another process shares, for the owner, its peers and `peers`; the descriptor stays the caller's.
  Result<uint64_t> share_in(const Share& share, uint64_t peers);
  /// False: nothing of share_in() begins there.
  bool unshare(uint64_t address);

  // Memory of the host.

  /// Page-locked host memory, for all devices; its address is the same everywhere.
  Result<std::byte*> allocate_host(size_t bytes);
  /// False: allocate_host() gave nothing that begins there.
  bool release_host(std::byte* at);
  /// Gives devices memory that the program has. False: it overlaps what they have already.
  bool enroll_host(std::byte* at, size_t bytes);
  /// False: nothing was enrolled there.
  bool withdraw_host(std::byte* at);

  // Addresses apart from memory (VMM).

  /// Reserves addresses; `alignment` 0 or a power of two, `hint` 0: anywhere.
  Result<uint64_t> reserve(size_t bytes, size_t alignment, uint64_t hint);
  /// False: no such reservation, or something is mapped there.
  bool unreserve(uint64_t address, size_t bytes);
  /// Maps `bytes` of a memfd into reserved addresses, for nobody yet.
  Result<> map(uint64_t address, size_t bytes, int fd, uint64_t offset, int device);
  /// Maps the copies of a multicast object into reserved addresses.
  Result<> map_multicast(uint64_t address, size_t bytes, std::vector<std::byte*> replicas);
  /// Unmaps whole mappings that fill [address, address + bytes). False: they do not.
  bool unmap(uint64_t address, size_t bytes);
  /// Lets a device (kHost: the host's threads) reach the mappings that fill the range, or not. False: they do not fill it.
  bool set_access(uint64_t address, size_t bytes, int device, bool allowed);

  /// The interpreter's address of each piece of [address, address + bytes), in order, for copies: any living memory, or the
  /// host's own. Empty: a
  /// part of it is a device's address without memory, or that no device may reach.
  std::vector<std::pair<std::byte*, size_t>> pieces(uint64_t address, size_t bytes) const;
  /// True where the address is one of a device, with memory or not.
  bool is_device_address(uint64_t address) const;

 private:
  struct Window;        // the plain memory of a device
  struct Owned;         // an allocation and what must be undone at its end
  struct Reservation {  // addresses for VMM
    size_t bytes = 0;
    std::byte* shadow = nullptr;
  };
  using Living = std::map<uint64_t, std::unique_ptr<Owned>>;

  explicit Memory(size_t capacity);
  Owned* holder(uint64_t address) const;
  void add(std::unique_ptr<Owned> owned);
  void end(Living::iterator it);
  bool taken(uint64_t address, size_t bytes) const;
  bool filled(uint64_t address, size_t bytes) const;
  std::map<uint64_t, Reservation>::const_iterator reserved(uint64_t address, size_t bytes) const;
  Result<> map_shadow(uint64_t address, size_t bytes, int fd, uint64_t offset);
  std::string miss(uint64_t address, size_t bytes) const;

  mutable std::shared_mutex mutex_;
  std::atomic<uint64_t> generation_{1};
  uint64_t last_id_ = 0;
  size_t capacity_ = 0;
  std::vector<std::unique_ptr<Window>> windows_;
  std::map<uint64_t, Reservation> reservations_;
  Living living_;
  std::map<uint64_t, const Owned*> dead_;          ///< by address, the last one there
  std::vector<std::unique_ptr<Owned>> graveyard_;  ///< pointers to dead ones stay good
};

}  // namespace emu
