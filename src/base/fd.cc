#include "base/fd.h"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older C libraries lack the name
#endif

namespace ronde {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, size_);
}

Result<Mapping> Mapping::anonymous(size_t size) {
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return system_failure(errno, fmt::format("mapping {} bytes of memory", size), "free memory or raise `ulimit -v`");
  }
  return Mapping(static_cast<std::byte*>(at), size);
}

Result<Mapping> Mapping::shared(int fd, size_t size) {
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (at == MAP_FAILED) {
    return system_failure(errno, fmt::format("mapping {} bytes of shared memory", size),
                          "free memory, or raise `ulimit -v` and vm.max_map_count");
  }
  return Mapping(static_cast<std::byte*>(at), size);
}

Result<UniqueFd> make_memfd(const char* name, size_t size) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) {
    return system_failure(errno, fmt::format("creating shared memory \"{}\" ({})", name, descriptor_use()),
                          "raise `ulimit -n` if it is the descriptors");
  }
  // Beyond the limit ftruncate would also raise SIGXFSZ, which ends the program.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur) {
    return system_failure(EFBIG, fmt::format("sizing shared memory \"{}\" to {} bytes (the limit is {})", name, size, limit.rlim_cur),
                          "raise `ulimit -f`");
  }
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) {
    return system_failure(errno, fmt::format("sizing shared memory \"{}\" to {} bytes", name, size));
  }
  // A peer must not be able to shrink what others have mapped: that would be their SIGBUS.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return fd;
}

Result<> commit_pages(std::byte* at, size_t size) {
  const size_t page = page_size();
  const auto first = reinterpret_cast<uintptr_t>(at) & ~(page - 1);
  const auto last = (reinterpret_cast<uintptr_t>(at) + size + page - 1) & ~(page - 1);
  if (size == 0) return {};
  while (madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    // Kernels before 5.14 do not know the request: there the pages come on first touch.
    if (errno == EINVAL) return {};
    return system_failure(errno, fmt::format("taking {} bytes of memory for a connection", last - first),
                          "free memory, raise the container's memory limit, or lower RONDE_BUFFSIZE");
  }
  return {};
}

Result<> fill_random(std::span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = getrandom(bytes.data() + done, bytes.size() - done, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_failure(errno, "reading random bytes from the kernel");
    done += static_cast<size_t>(n);
  }
  return {};
}

std::string descriptor_use() {
  const int before = errno;  // the caller is about to report it
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::string text = fmt::format("of {} descriptors an unknown number is in use", limit.rlim_cur);
  if (DIR* dir = opendir("/proc/self/fd")) {
    int used = -3;  // ".", ".." and the directory itself
    while (readdir(dir) != nullptr) ++used;
    closedir(dir);
    text = fmt::format("{} of {} descriptors in use", used, limit.rlim_cur);
  } else if (errno == EMFILE) {
    text = fmt::format("all {} descriptors in use", limit.rlim_cur);
  } else if (errno == ENFILE) {
    text = "the system's limit of open files is reached";
  }
  errno = before;
  return text;
}

size_t page_size() {
  static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace ronde
