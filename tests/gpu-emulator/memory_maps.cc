// Memory of the host that devices see, and mappings into reserved addresses.
#include <mutex>

#include "gpu-emulator/memory_parts.h"

namespace emu {

using ronde::Code;

Result<std::byte*> Memory::allocate_host(size_t bytes) {
  void* at = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return ronde::system_failure(errno, fmt::format("mapping {} bytes of host memory", bytes));
  std::unique_lock lock(mutex_);
  auto owned = std::make_unique<Owned>();
  owned->kind = MemoryKind::own_host;
  owned->facts = {address_of(at), bytes, static_cast<std::byte*>(at), kHost, true, kEveryDevice, 0, {}};
  add(std::move(owned));
  return static_cast<std::byte*>(at);
}

bool Memory::release_host(std::byte* at) {
  std::unique_lock lock(mutex_);
  const auto it = living_.find(address_of(at));
  if (it == living_.end() || it->second->kind != MemoryKind::own_host) return false;
  const size_t length = whole_pages(it->second->facts.bytes);
  end(it);
  munmap(at, length);
  return true;
}

bool Memory::enroll_host(std::byte* at, size_t bytes) {
  std::unique_lock lock(mutex_);
  if (taken(address_of(at), bytes)) return false;
  auto owned = std::make_unique<Owned>();
  owned->kind = MemoryKind::enrolled;
  owned->facts = {address_of(at), bytes, at, kHost, true, kEveryDevice, 0, {}};
  add(std::move(owned));
  return true;
}

bool Memory::withdraw_host(std::byte* at) {
  std::unique_lock lock(mutex_);
  const auto it = living_.find(address_of(at));
  if (it == living_.end() || it->second->kind != MemoryKind::enrolled) return false;
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
  owned->kind = MemoryKind::mapped;
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
  owned->kind = MemoryKind::mapped;
  owned->facts = {address, bytes, nullptr, kHost, true, 0, 0, std::move(replicas)};
  add(std::move(owned));
  return {};
}

bool Memory::filled(uint64_t address, size_t bytes) const {
  const uint64_t last = address + bytes;
  for (uint64_t next = address; next < last;) {
    const auto it = living_.find(next);
    if (it == living_.end() || it->second->kind != MemoryKind::mapped) return false;
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

}  // namespace emu
