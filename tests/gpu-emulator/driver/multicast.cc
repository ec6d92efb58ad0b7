#include "gpu-emulator/driver/multicast.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <new>
#include <utility>

namespace emu::driver {
namespace {

static_assert(sizeof(MulticastTable) <= kGranularity);

std::mutex all_mutex;
std::vector<std::weak_ptr<Multicast>>& all() {
  static auto* objects = new std::vector<std::weak_ptr<Multicast>>;
  return *objects;
}

CUresult attach(Chunk& chunk, bool made, int devices) {
  auto object = std::make_shared<Multicast>();
  auto file = ronde::Mapping::shared(chunk.fd.get(), chunk.bytes);
  if (!file) return CUDA_ERROR_OUT_OF_MEMORY;
  object->file = std::move(*file);
  object->bytes = chunk.bytes;
  // A new memfd is zeros, and so is a new table.
  object->table = made ? new (object->file.data()) MulticastTable{} : reinterpret_cast<MulticastTable*>(object->file.data());
  if (made) object->table->devices = devices;
  std::lock_guard lock(all_mutex);
  std::erase_if(all(), [](const auto& weak) { return weak.expired(); });
  all().push_back(object);
  chunk.multicast = std::move(object);
  return CUDA_SUCCESS;
}

CUresult map_binding(const MulticastTable::Binding& binding, ronde::Mapping& copy) {
  const ronde::UniqueFd fd(open(fmt::format("/proc/{}/fd/{}", binding.pid, binding.fd).c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) return CUDA_ERROR_OPERATING_SYSTEM;
  void* at = mmap(copy.data() + binding.offset, binding.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(),
                  static_cast<off_t>(binding.memory_offset));
  return at == MAP_FAILED ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

bool complete(const MulticastTable& table) { return std::popcount(table.added.load()) == table.devices; }

CUresult bind_memory(const std::shared_ptr<Multicast>& object, size_t offset, const std::shared_ptr<Chunk>& memory,
                     size_t memory_offset, size_t bytes) {
  MulticastTable& table = *object->table;
  if (memory->multicast != nullptr || offset % kGranularity != 0 || memory_offset % kGranularity != 0 ||
      bytes % kGranularity != 0 || bytes == 0 || offset > object->bytes || bytes > object->bytes - offset ||
      memory_offset > memory->bytes || bytes > memory->bytes - memory_offset)
    return CUDA_ERROR_INVALID_VALUE;
  if (memory->device == kHost || (table.added.load() >> memory->device & 1) == 0) return CUDA_ERROR_INVALID_DEVICE;
  if (!complete(table)) return CUDA_ERROR_ILLEGAL_STATE;
  const uint32_t number = table.bindings.fetch_add(1);
  if (number >= MulticastTable::kBindings) return CUDA_ERROR_OUT_OF_MEMORY;
  MulticastTable::Binding& binding = table.binding[number];
  binding.device = memory->device;
  binding.pid = getpid();
  binding.fd = memory->fd.get();
  binding.memory_offset = memory_offset;
  binding.offset = offset;
  binding.bytes = bytes;
  binding.bound.store(1, std::memory_order_release);
  std::lock_guard lock(object->mutex);
  object->held.emplace_back(memory->device, memory);
  return CUDA_SUCCESS;
}

/// Does `body` with the object of a handle.
template <class Body>
CUresult with_object(CUmemGenericAllocationHandle handle, Body body) {
  return call([&](Driver& driver) {
    const auto chunk = driver.chunks.get(handle);
    return chunk == nullptr || chunk->multicast == nullptr ? CUDA_ERROR_INVALID_VALUE : body(driver, chunk->multicast);
  });
}

bool valid(const Driver& driver, const CUmulticastObjectProp* wanted) {
  return wanted != nullptr && wanted->numDevices > 0 && wanted->flags == 0 &&
         wanted->numDevices <= static_cast<unsigned>(driver.settings().devices) &&
         (wanted->handleTypes & ~static_cast<unsigned long long>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) == 0;
}

template <class Body>
CUresult with_multicast(Body body) {
  return call([&](Driver& driver) {
    const Settings& settings = driver.settings();
    return settings.vmm && settings.multicast ? body(driver) : CUDA_ERROR_NOT_SUPPORTED;
  });
}

}  // namespace

CUresult Multicast::update() {
  std::lock_guard lock(mutex);
  for (; mapped < table->bindings.load() && mapped < MulticastTable::kBindings; ++mapped) {
    const MulticastTable::Binding& binding = table->binding[mapped];
    if (binding.bound.load(std::memory_order_acquire) == 0) break;
    const auto copy = copies.find(binding.device);
    if (copy == copies.end()) break;
    if (const CUresult result = map_binding(binding, copy->second); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult open_multicast(Driver& driver, Chunk& chunk) {
  return driver.settings().multicast ? attach(chunk, false, 0) : CUDA_ERROR_NOT_SUPPORTED;
}

ronde::Result<> map_multicast(Driver& driver, Chunk& chunk, uint64_t address, size_t bytes) {
  Multicast& object = *chunk.multicast;
  if (!complete(*object.table)) return ronde::fail(ronde::Code::invalid_usage, "devices of the multicast object are missing");
  std::vector<std::byte*> replicas;
  {
    std::lock_guard lock(object.mutex);
    const uint64_t added = object.table->added.load();
    for (int device = 0; device < kMaxDevices; ++device) {
      if ((added >> device & 1) == 0) continue;
      auto& copy = object.copies[device];
      if (copy.data() == nullptr) {
        RONDE_TRY(copy, ronde::Mapping::anonymous(object.bytes));
      }
      replicas.push_back(copy.data());
    }
  }
  if (object.update() != CUDA_SUCCESS) return ronde::fail(ronde::Code::system_error, "memory that was bound cannot be mapped");
  return driver.memory().map_multicast(address, bytes, std::move(replicas));
}

CUresult update_multicasts() {
  std::vector<std::shared_ptr<Multicast>> objects;
  {
    std::lock_guard lock(all_mutex);
    for (const auto& weak : all()) {
      if (auto object = weak.lock()) objects.push_back(std::move(object));
    }
  }
  for (const auto& object : objects) {
    if (const CUresult result = object->update(); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

extern "C" {

CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* wanted, CUmulticastGranularity_flags) {
  return with_multicast([&](Driver& driver) {
    if (granularity == nullptr || !valid(driver, wanted)) return CUDA_ERROR_INVALID_VALUE;
    *granularity = kGranularity;
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* wanted) {
  return with_multicast([&](Driver& driver) {
    if (handle == nullptr || !valid(driver, wanted) || wanted->size == 0 || wanted->size % kGranularity != 0)
      return CUDA_ERROR_INVALID_VALUE;
    auto chunk = std::make_shared<Chunk>();
    chunk->bytes = wanted->size;
    chunk->handle_types = wanted->handleTypes;
    auto fd = ronde::make_memfd(fmt::format("emulated-gpu-vmm:{}:1", kHost).c_str(), wanted->size);
    if (!fd) return CUDA_ERROR_OUT_OF_MEMORY;
    chunk->fd = std::move(*fd);
    if (const CUresult result = attach(*chunk, true, static_cast<int>(wanted->numDevices)); result != CUDA_SUCCESS) return result;
    *handle = driver.chunks.put(std::move(chunk));
    return CUDA_SUCCESS;
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return with_object(handle, [&](Driver& driver, const std::shared_ptr<Multicast>& object) {
    const int index = driver.index_of(device);
    if (index < 0) return CUDA_ERROR_INVALID_DEVICE;
    const uint64_t bit = uint64_t{1} << index;
    for (uint64_t added = object->table->added.load();;) {
      if ((added & bit) != 0 || std::popcount(added) == object->table->devices) return CUDA_ERROR_INVALID_VALUE;
      if (object->table->added.compare_exchange_weak(added, added | bit)) return CUDA_SUCCESS;
    }
  });
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory_handle,
                            size_t memory_offset, size_t bytes, unsigned long long flags) {
  return with_object(handle, [&](Driver& driver, const std::shared_ptr<Multicast>& object) {
    const auto memory = driver.chunks.get(memory_handle);
    return memory == nullptr || flags != 0 ? CUDA_ERROR_INVALID_VALUE : bind_memory(object, offset, memory, memory_offset, bytes);
  });
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address, size_t bytes,
                             unsigned long long flags) {
  return with_object(handle, [&](Driver& driver, const std::shared_ptr<Multicast>& object) {
    const auto memory = mapped_chunk(address);
    const auto allocation = driver.memory().at(address);
    if (memory == nullptr || !allocation || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return bind_memory(object, offset, memory, address - allocation->address, bytes);
  });
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes) {
  return with_object(handle, [&](Driver& driver, const std::shared_ptr<Multicast>& object) {
    const int index = driver.index_of(device);
    if (index < 0) return CUDA_ERROR_INVALID_DEVICE;
    if (offset > object->bytes || bytes > object->bytes - offset) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(object->mutex);
    const auto copy = object->copies.find(index);
    if (copy != object->copies.end())
      mmap(copy->second.data() + offset, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
           -1, 0);
    std::erase_if(object->held, [&](const auto& one) { return one.first == index; });
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace emu::driver
