// Owned descriptors, memory mappings and random bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace ronde {

/// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// A range of mapped memory that unmaps itself.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  /// Private zeroed memory. Pages are taken when first touched.
  static Result<Mapping> anonymous(size_t size);
  /// Maps the first `size` bytes of `fd`, shared and writable.
  static Result<Mapping> shared(int fd, size_t size);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A sealed-against-shrinking memfd of `size` bytes; no pages are taken yet.
Result<UniqueFd> make_memfd(const char* name, size_t size);

/// Makes sure that the pages of [at, at + size) exist, so that touching them later cannot raise SIGBUS or be refused.
/// system_error where memory or the limit of its file system is exhausted.
Result<> commit_pages(std::byte* at, size_t size);

/// Fills `bytes` from the kernel's random source.
Result<> fill_random(std::span<std::byte> bytes);

/// "N of M descriptors in use" for texts about EMFILE; leaves errno as it is.
std::string descriptor_use();

/// The system's page size in bytes.
size_t page_size();

}  // namespace ronde
