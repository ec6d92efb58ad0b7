#include "gpu-emulator/memory.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

namespace emu {
namespace {

using ronde::Code;

enum class Kind : uint8_t { plain, shared_in, own_host, enrolled, mapped };

size_t whole_pages(size_t bytes) { return (bytes + ronde::page_size() - 1) & ~(ronde::page_size() - 1); }

void* pointer_to(uint64_t address) { return reinterpret_cast<void*>(address); }
uint64_t address_of(const void* at) { return reinterpret_cast<uint64_t>(at); }

/// Addresses that nobody may touch.
Result<uint64_t> reserve_addresses(size_t bytes, void* hint = nullptr) {
  void* at = mmap(hint, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return ronde::system_failure(errno, fmt::format("reserving {} bytes of addresses for emulated GPUs", bytes),
                                 "raise `ulimit -v`, or lower RONDE_EMU_MEMORY");
  }
  return address_of(at);
}

/// Memory that was taken from kernels keeps its second address, as pages of nobody: a kernel that is just touching it shall be
/// found by its next lookup, not end the process.
void retire(std::byte* shadow, size_t bytes) {
  mmap(shadow, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void forbid(uint64_t address, size_t bytes) {
  mmap(pointer_to(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

struct Memory::Owned {
  Allocation facts;
  Kind kind = Kind::plain;
  int fd = -1;          // mapped: borrowed, for the host's own access
  uint64_t offset = 0;  // plain: in the window; mapped: in the descriptor
};

/// Offsets into one memfd that is mapped once for the interpreter. Twice the capacity, so that freed memory is not soon given out
/// again.
struct Memory::Window {
  ronde::UniqueFd fd;
  ronde::Mapping shadow;
  uint64_t base = 0;
  size_t bytes = 0;
  std::map<uint64_t, size_t> gaps;  // offset and bytes of what is free
  uint64_t cursor = 0;
  size_t used = 0;
  uint64_t peers = 0;

  ~Window() {
    if (base != 0) munmap(pointer_to(base), bytes);
  }

  /// First fit from the cursor on, then from the start; `bytes`: there is no room.
  uint64_t take(size_t length) {
    for (const uint64_t least : {cursor, uint64_t{0}}) {
      for (auto it = gaps.begin(); it != gaps.end(); ++it) {
        const uint64_t first = it->first;
        const uint64_t last = first + it->second;
        const uint64_t offset = std::max(first, least);
        if (offset > last || last - offset < length) continue;
        gaps.erase(it);
        if (offset > first) gaps[first] = offset - first;
        if (last > offset + length) gaps[offset + length] = last - offset - length;
        cursor = offset + length;
        return offset;
      }
    }
    return bytes;
  }

  void give(uint64_t offset, size_t length) {
    auto next = gaps.lower_bound(offset);
    if (next != gaps.end() && next->first == offset + length) {
      length += next->second;
      next = gaps.erase(next);
    }
    if (next != gaps.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += length;
        return;
      }
    }
    gaps[offset] = length;
  }
};

Memory::Memory(size_t capacity) : capacity_(capacity) {}
Memory::~Memory() = default;

Result<std::unique_ptr<Memory>> Memory::make(int devices, size_t bytes) {
  std::unique_ptr<Memory> memory(new Memory(whole_pages(bytes)));
  for (int device = 0; device < devices; ++device) {
    auto window = std::make_unique<Window>();
    window->bytes = 2 * memory->capacity_;
    RONDE_TRY(window->fd, ronde::make_memfd(fmt::format("emulated-gpu-{}", device).c_str(), window->bytes));
    RONDE_TRY(window->shadow, ronde::Mapping::shared(window->fd.get(), window->bytes));
    RONDE_TRY(window->base, reserve_addresses(window->bytes));
    window->gaps[0] = window->bytes;
    memory->windows_.push_back(std::move(window));
  }
  return memory;
}

Memory::Owned* Memory::holder(uint64_t address) const {
  auto it = living_.upper_bound(address);
  if (it == living_.begin()) return nullptr;
  --it;
  return address - it->first < it->second->facts.bytes ? it->second.get() : nullptr;
}

std::string Memory::miss(uint64_t address, size_t bytes) const {
  if (const auto it = dead_.upper_bound(address); it != dead_.begin()) {
    const Allocation& dead = std::prev(it)->second->facts;
    if (address - dead.address < dead.bytes)
      return fmt::format("freed: it was byte {} of {} at {:#x}", address - dead.address, dead.bytes, dead.address);
  }
  const auto it = living_.upper_bound(address);
  if (it == living_.begin()) return fmt::format("outside of any allocation ({} bytes)", bytes);
  const Allocation& before = std::prev(it)->second->facts;
  return fmt::format("outside of any allocation: {} bytes past the end of the {} bytes at {:#x}",
                     address - before.address - before.bytes, before.bytes, before.address);
}

const Allocation* Memory::find(int device, uint64_t address, size_t bytes, std::string* why) const {
  std::shared_lock lock(mutex_);
  std::string reason;
  const Owned* owned = holder(address);
  if (owned == nullptr) {
    reason = miss(address, bytes);
  } else if (const Allocation& facts = owned->facts; bytes > facts.bytes - (address - facts.address)) {
    reason = fmt::format("past the end: bytes {} to {} of {} at {:#x}", address - facts.address, address - facts.address + bytes,
                         facts.bytes, facts.address);
  } else if ((facts.peers >> device & 1) == 0) {
    reason = fmt::format("no access: device {} may not reach this memory of device {}", device, facts.device);
  } else {
    return &facts;
  }
  if (why != nullptr) *why = reason;
  return nullptr;
}

std::optional<Allocation> Memory::at(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const Owned* owned = holder(address);
  return owned == nullptr ? std::nullopt : std::optional(owned->facts);
}

bool Memory::taken(uint64_t address, size_t bytes) const {
  const auto it = living_.lower_bound(address);
  return holder(address) != nullptr || (it != living_.end() && it->first < address + bytes);
}

void Memory::add(std::unique_ptr<Owned> owned) {
  const uint64_t address = owned->facts.address;
  // What died there is forgotten.
  auto it = dead_.lower_bound(address);
  if (it != dead_.begin() && std::prev(it)->first + std::prev(it)->second->facts.bytes > address) --it;
  while (it != dead_.end() && it->first < address + owned->facts.bytes) it = dead_.erase(it);
  owned->facts.id = ++last_id_;
  living_[address] = std::move(owned);
}

void Memory::end(Living::iterator it) {
  it->second->facts.alive = false;
  dead_[it->first] = it->second.get();
  graveyard_.push_back(std::move(it->second));
  living_.erase(it);
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

Result<uint64_t> Memory::allocate(int device, size_t bytes) {
  std::unique_lock lock(mutex_);
  Window& window = *windows_[static_cast<size_t>(device)];
  const size_t length = whole_pages(bytes);
  if (length < bytes || length > capacity_ - window.used) {
    return ronde::fail(Code::cuda_error, fmt::format("device {} has {} of {} bytes free, not {}", device, capacity_ - window.used,
                                                     capacity_, bytes));
  }
  // A page beyond, so that small overruns hit nobody.
  const uint64_t offset = window.take(length + ronde::page_size());
  if (offset == window.bytes)
    return ronde::fail(Code::cuda_error, fmt::format("no {} bytes of device {} lie together", bytes, device));
  window.used += length;
  auto owned = std::make_unique<Owned>();
  owned->facts = {
      window.base + offset, bytes, window.shadow.data() + offset, device, true, window.peers | uint64_t{1} << device, 0, {}};
  owned->offset = offset;
  add(std::move(owned));
  return window.base + offset;
}

bool Memory::release(uint64_t address) {
  std::unique_lock lock(mutex_);
  const auto it = living_.find(address);
  if (it == living_.end() || it->second->kind != Kind::plain) return false;
  const Owned& owned = *it->second;
  const size_t length = whole_pages(owned.facts.bytes);
  Window& window = *windows_[static_cast<size_t>(owned.facts.device)];
  fallocate(window.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(owned.offset),
            static_cast<off_t>(length));
  window.used -= length;
  window.give(owned.offset, length + ronde::page_size());
  end(it);
  return true;
}

bool Memory::unshare(uint64_t address) {
  std::unique_lock lock(mutex_);
  const auto it = living_.find(address);
  if (it == living_.end() || it->second->kind != Kind::shared_in) return false;
  const size_t length = whole_pages(it->second->facts.bytes);
  retire(it->second->facts.host, length);
  end(it);
  munmap(pointer_to(address), length);
  return true;
}

size_t Memory::used(int device) const {
  std::shared_lock lock(mutex_);
  return windows_[static_cast<size_t>(device)]->used;
}

bool Memory::count(int device, int64_t bytes) {
  std::unique_lock lock(mutex_);
  size_t& used = windows_[static_cast<size_t>(device)]->used;
  if (bytes > 0 && static_cast<size_t>(bytes) > capacity_ - used) return false;
  used += static_cast<size_t>(bytes);
  return true;
}

void Memory::set_peer(int owner, int device, bool allowed) {
  std::unique_lock lock(mutex_);
  const uint64_t bit = uint64_t{1} << device;
  const auto change = [&](uint64_t& peers) { peers = allowed ? peers | bit : peers & ~bit; };
  change(windows_[static_cast<size_t>(owner)]->peers);
  for (auto& [address, owned] : living_) {
    if (owned->facts.device == owner && owned->kind == Kind::plain) change(owned->facts.peers);
  }
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

Result<Share> Memory::share(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const Owned* owned = holder(address);
  if (owned == nullptr || owned->kind != Kind::plain)
    return ronde::fail(Code::invalid_argument, fmt::format("{:#x} is no plain memory of a device", address));
  const int device = owned->facts.device;
  return Share{windows_[static_cast<size_t>(device)]->fd.get(), owned->offset, owned->facts.bytes, device};
}

Result<uint64_t> Memory::share_in(const Share& share, uint64_t peers) {
  const size_t length = whole_pages(share.bytes);
  void* shadow = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, share.fd, static_cast<off_t>(share.offset));
  if (shadow == MAP_FAILED)
    return ronde::system_failure(errno, fmt::format("mapping {} bytes of another process's GPU memory", length));
  const Result<uint64_t> address = reserve_addresses(length);
  if (!address) {
    munmap(shadow, length);
    return address;
  }
  std::unique_lock lock(mutex_);
  const uint64_t all = peers | windows_[static_cast<size_t>(share.device)]->peers | uint64_t{1} << share.device;
  auto owned = std::make_unique<Owned>();
  owned->kind = Kind::shared_in;
  owned->facts = {*address, share.bytes, static_cast<std::byte*>(shadow), share.device, true, all, 0, {}};
  add(std::move(owned));
  return address;
}

Result<std::byte*> Memory::allocate_host(size_t bytes) {
  void* at = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return ronde::system_failure(errno, fmt::format("mapping {} bytes of host memory", bytes));
  std::unique_lock lock(mutex_);
  auto owned = std::make_unique<Owned>();
  owned->kind = Kind::own_host;
  owned->facts = {address_of(at), bytes, static_cast<std::byte*>(at), kHost, true, kEveryDevice, 0, {}};
  add(std::move(owned));
  return static_cast<std::byte*>(at);
}

bool Memory::release_host(std::byte* at) {
  std::unique_lock lock(mutex_);
  const auto it = living_.find(address_of(at));
  if (it == living_.end() || it->second->kind != Kind::own_host) return false;
  const size_t length = whole_pages(it->second->facts.bytes);
  end(it);
  munmap(at, length);
  return true;
}

bool Memory::enroll_host(std::byte* at, size_t bytes) {
  std::unique_lock lock(mutex_);
  if (taken(address_of(at), bytes)) return false;
  auto owned = std::make_unique<Owned>();
  owned->kind = Kind::enrolled;
  owned->facts = {address_of(at), bytes, at, kHost, true, kEveryDevice, 0, {}};
  add(std::move(owned));
  return true;
}

bool Memory::withdraw_host(std::byte* at) {
  std::unique_lock lock(mutex_);
  const auto it = living_.find(address_of(at));
  if (it == living_.end() || it->second->kind != Kind::enrolled) return false;
  end(it);
  return true;
}

Result<uint64_t> Memory::reserve(size_t bytes, size_t alignment, uint64_t hint) {
  // More than is asked for, cut down to what is aligned.
  const size_t align = std::max(alignment, ronde::page_size());
  RONDE_TRY(const uint64_t raw, reserve_addresses(bytes + align, pointer_to(hint)));
  const uint64_t address = (raw + align - 1) & ~(align - 1);
  if (address > raw) munmap(pointer_to(raw), address - raw);
  if (raw + align > address) munmap(pointer_to(address + bytes), raw + align - address);
  RONDE_TRY(const uint64_t shadow, reserve_addresses(bytes));
  std::unique_lock lock(mutex_);
  reservations_[address] = {bytes, static_cast<std::byte*>(pointer_to(shadow))};
  return address;
}

bool Memory::unreserve(uint64_t address, size_t bytes) {
  std::unique_lock lock(mutex_);
  const auto it = reservations_.find(address);
  if (it == reservations_.end() || it->second.bytes != bytes || taken(address, bytes)) return false;
  retire(it->second.shadow, bytes);
  munmap(pointer_to(address), bytes);
  reservations_.erase(it);
  return true;
}

std::map<uint64_t, Memory::Reservation>::const_iterator Memory::reserved(uint64_t address, size_t bytes) const {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return reservations_.end();
  --it;
  const uint64_t offset = address - it->first;
  return offset < it->second.bytes && bytes <= it->second.bytes - offset ? it : reservations_.end();
}

Result<> Memory::map(uint64_t address, size_t bytes, int fd, uint64_t offset, int device) {
  std::unique_lock lock(mutex_);
  const auto it = reserved(address, bytes);
  if (it == reservations_.end()) return ronde::fail(Code::invalid_argument, fmt::format("{:#x} is not reserved", address));
  if (taken(address, bytes)) return ronde::fail(Code::invalid_usage, fmt::format("{:#x} is mapped already", address));
  std::byte* at = it->second.shadow + (address - it->first);
  if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, static_cast<off_t>(offset)) == MAP_FAILED)
    return ronde::system_failure(errno, fmt::format("mapping {} bytes of GPU memory", bytes));
  auto owned = std::make_unique<Owned>();
  owned->kind = Kind::mapped;
  owned->fd = fd;
  owned->offset = offset;
  owned->facts = {address, bytes, at, device, true, 0, 0, {}};
  add(std::move(owned));
  return {};
}

Result<> Memory::map_multicast(uint64_t address, size_t bytes, std::vector<std::byte*> replicas) {
  std::unique_lock lock(mutex_);
  if (reserved(address, bytes) == reservations_.end())
    return ronde::fail(Code::invalid_argument, fmt::format("{:#x} is not reserved", address));
  if (taken(address, bytes)) return ronde::fail(Code::invalid_usage, fmt::format("{:#x} is mapped already", address));
  auto owned = std::make_unique<Owned>();
  owned->kind = Kind::mapped;
  owned->facts = {address, bytes, nullptr, kHost, true, 0, 0, std::move(replicas)};
  add(std::move(owned));
  return {};
}

bool Memory::filled(uint64_t address, size_t bytes) const {
  const uint64_t last = address + bytes;
  for (uint64_t next = address; next < last;) {
    const auto it = living_.find(next);
    if (it == living_.end() || it->second->kind != Kind::mapped) return false;
    next += it->second->facts.bytes;
    if (next > last) return false;
  }
  return bytes > 0;
}

bool Memory::unmap(uint64_t address, size_t bytes) {
  std::unique_lock lock(mutex_);
  if (!filled(address, bytes)) return false;
  for (auto it = living_.find(address); it != living_.end() && it->first < address + bytes; it = living_.lower_bound(address)) {
    const Allocation& facts = it->second->facts;
    forbid(facts.address, facts.bytes);
    if (facts.host != nullptr) retire(facts.host, facts.bytes);
    end(it);
  }
  return true;
}

bool Memory::set_access(uint64_t address, size_t bytes, int device, bool allowed) {
  std::unique_lock lock(mutex_);
  if (!filled(address, bytes)) return false;
  for (auto it = living_.find(address); it != living_.end() && it->first < address + bytes; ++it) {
    Owned& owned = *it->second;
    if (device != kHost) {
      const uint64_t bit = uint64_t{1} << device;
      owned.facts.peers = allowed ? owned.facts.peers | bit : owned.facts.peers & ~bit;
    } else if (allowed && owned.fd >= 0) {
      mmap(pointer_to(it->first), owned.facts.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, owned.fd,
           static_cast<off_t>(owned.offset));
    } else {
      forbid(it->first, owned.facts.bytes);
    }
  }
  generation_.fetch_add(1, std::memory_order_acq_rel);
  return true;
}

std::pair<uint64_t, size_t> Memory::reservation(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const auto it = reserved(address, 1);
  return it == reservations_.end() ? std::pair<uint64_t, size_t>{0, 0} : std::pair{it->first, it->second.bytes};
}

bool Memory::is_device_address(uint64_t address) const {
  std::shared_lock lock(mutex_);
  for (const auto& window : windows_) {
    if (address - window->base < window->bytes) return true;
  }
  if (reserved(address, 1) != reservations_.end()) return true;
  const Owned* owned = holder(address);
  return owned != nullptr && owned->facts.device != kHost;
}

std::vector<std::pair<std::byte*, size_t>> Memory::pieces(uint64_t address, size_t bytes) const {
  std::vector<std::pair<std::byte*, size_t>> all;
  while (bytes > 0) {
    const std::optional<Allocation> allocation = at(address);
    if (!allocation && is_device_address(address)) return {};
    if (!allocation || (allocation->device == kHost && allocation->host == pointer_to(allocation->address))) {
      all.emplace_back(static_cast<std::byte*>(pointer_to(address)), bytes);
      return all;
    }
    if (allocation->host == nullptr || allocation->peers == 0) return {};
    const size_t offset = address - allocation->address;
    const size_t part = std::min(bytes, allocation->bytes - offset);
    all.emplace_back(allocation->host + offset, part);
    address += part;
    bytes -= part;
  }
  return all;
}

}  // namespace emu
