#include "gpu-emulator/memory.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <algorithm>
#include <mutex>

#include "gpu-emulator/memory_parts.h"

namespace emu {

using ronde::Code;
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
  if (it == living_.end() || it->second->kind != MemoryKind::plain) return false;
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
  if (it == living_.end() || it->second->kind != MemoryKind::shared_in) return false;
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
    if (owned->facts.device == owner && owned->kind == MemoryKind::plain) change(owned->facts.peers);
  }
  generation_.fetch_add(1, std::memory_order_acq_rel);
}

Result<Share> Memory::share(uint64_t address) const {
  std::shared_lock lock(mutex_);
  const Owned* owned = holder(address);
  if (owned == nullptr || owned->kind != MemoryKind::plain)
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
  owned->kind = MemoryKind::shared_in;
  owned->facts = {*address, share.bytes, static_cast<std::byte*>(shadow), share.device, true, all, 0, {}};
  add(std::move(owned));
  return address;
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
