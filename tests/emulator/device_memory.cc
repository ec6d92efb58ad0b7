// The memory that kernels see, without a driver.
#include "gpu-emulator/memory.h"

#include <csetjmp>
#include <csignal>
#include <cstring>

#include "support/catch.h"

using namespace emu;
using ronde::test::contains;

namespace {

std::unique_ptr<Memory> two_devices() {
  auto memory = Memory::make(2, size_t{64} << 20);
  REQUIRE(memory);
  return std::move(*memory);
}

uint64_t take(Memory& memory, int device, size_t bytes) {
  const auto address = memory.allocate(device, bytes);
  REQUIRE(address);
  return *address;
}

std::string miss(const Memory& memory, int device, uint64_t address, size_t bytes) {
  std::string why;
  REQUIRE(memory.find(device, address, bytes, &why) == nullptr);
  return why;
}

sigjmp_buf after_fault;
void on_fault(int) { siglongjmp(after_fault, 1); }

/// True when a host's load there raises SIGSEGV.
bool faults(uint64_t address) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = on_fault;
  sigaction(SIGSEGV, &action, &before);
  volatile bool raised = true;
  if (sigsetjmp(after_fault, 1) == 0) {
    *reinterpret_cast<volatile char*>(address);
    raised = false;
  }
  sigaction(SIGSEGV, &before, nullptr);
  return raised;
}

}  // namespace

TEST_CASE("a kernel finds what it may reach, and is told why not", "[emulator][memory]") {
  const auto memory = two_devices();
  const uint64_t address = take(*memory, 0, 1000);
  const Allocation* found = memory->find(0, address + 10, 990, nullptr);
  REQUIRE(found != nullptr);
  CHECK(found->address == address);
  CHECK(found->bytes == 1000);
  CHECK(found->device == 0);
  found->host[999] = std::byte{42};
  CHECK(contains(miss(*memory, 0, address + 10, 991), "past the end: bytes 10 to 1001 of 1000"));
  CHECK(contains(miss(*memory, 0, address + 1000, 1), "0 bytes past the end of the 1000 bytes"));
  CHECK(contains(miss(*memory, 0, 16, 4), "outside of any allocation"));
  CHECK(contains(miss(*memory, 1, address, 4), "device 1 may not reach this memory of device 0"));
  memory->set_peer(0, 1, true);
  CHECK(memory->find(1, address, 4, nullptr) != nullptr);
  const uint64_t later = take(*memory, 0, 8);
  CHECK(memory->find(1, later, 8, nullptr) != nullptr);
  memory->set_peer(0, 1, false);
  CHECK(memory->find(1, later, 8, nullptr) == nullptr);
  CHECK(memory->find(0, later, 8, nullptr) != nullptr);
}

TEST_CASE("freed memory is known as such and not soon given out again", "[emulator][memory]") {
  const auto memory = two_devices();
  const uint64_t address = take(*memory, 0, 4096);
  const uint64_t generation = memory->generation();
  const Allocation* found = memory->find(0, address, 1, nullptr);
  std::memset(found->host, 1, 4096);
  REQUIRE(memory->release(address));
  CHECK(memory->generation() != generation);
  CHECK_FALSE(found->alive);
  CHECK_FALSE(memory->release(address));
  CHECK(contains(miss(*memory, 0, address + 8, 4), "freed: it was byte 8 of 4096"));
  CHECK(memory->used(0) == 0);
  for (int i = 0; i < 8; ++i) CHECK(take(*memory, 0, 4096) != address);
  CHECK(memory->used(0) == 8 * 4096);
}

TEST_CASE("a device has so much memory and no more, all of it again after it is freed", "[emulator][memory]") {
  const auto memory = two_devices();
  for (int round = 0; round < 5; ++round) {
    const uint64_t first = take(*memory, 1, size_t{40} << 20);
    const auto second = memory->allocate(1, size_t{40} << 20);
    REQUIRE_FALSE(second);
    CHECK(contains(second.error().what, "device 1 has 25165824 of 67108864 bytes free"));
    // New memory is zeros, whatever was there.
    const Allocation* found = memory->find(1, first, 1, nullptr);
    CHECK(found->host[12345] == std::byte{0});
    std::memset(found->host, 0xff, 20000);
    REQUIRE(memory->release(first));
  }
  CHECK(memory->count(1, 60 << 20));
  CHECK_FALSE(memory->allocate(1, 5 << 20));
  CHECK_FALSE(memory->count(1, 5 << 20));
  CHECK(memory->count(1, -(60 << 20)));
  CHECK(memory->allocate(1, 5 << 20));
}

TEST_CASE("the host may not touch a device's addresses", "[emulator][memory]") {
  const auto memory = two_devices();
  const uint64_t address = take(*memory, 0, 4096);
  CHECK(faults(address));
  const auto host = memory->allocate_host(4096);
  REQUIRE(host);
  CHECK_FALSE(faults(reinterpret_cast<uint64_t>(*host)));
}

TEST_CASE("host memory is every device's under its own address", "[emulator][memory]") {
  const auto memory = two_devices();
  std::vector<std::byte> own(100);
  CHECK(memory->enroll_host(own.data(), 100));
  CHECK_FALSE(memory->enroll_host(own.data() + 50, 100));
  const auto address = reinterpret_cast<uint64_t>(own.data());
  const Allocation* found = memory->find(1, address + 4, 96, nullptr);
  REQUIRE(found != nullptr);
  CHECK(found->host == own.data());
  CHECK(found->device == kHost);
  CHECK(memory->withdraw_host(own.data()));
  CHECK_FALSE(memory->withdraw_host(own.data()));
  CHECK(contains(miss(*memory, 1, address, 4), "freed"));
}

TEST_CASE("mappings of descriptors lie side by side in reserved addresses", "[emulator][memory]") {
  const auto memory = two_devices();
  const auto fd = ronde::make_memfd("test", 8192);
  REQUIRE(fd);
  const auto reserved = memory->reserve(16384, 1 << 16, 0);
  REQUIRE(reserved);
  const uint64_t address = *reserved;
  CHECK(address % (1 << 16) == 0);
  CHECK_FALSE(memory->map(address + 12288, 8192, fd->get(), 0, 0));
  REQUIRE(memory->map(address, 8192, fd->get(), 0, 0));
  CHECK_FALSE(memory->map(address + 4096, 4096, fd->get(), 0, 0));
  REQUIRE(memory->map(address + 8192, 8192, fd->get(), 0, 0));
  CHECK(memory->find(0, address, 4, nullptr) == nullptr);
  CHECK_FALSE(memory->set_access(address, 12288, 0, true));
  CHECK(memory->set_access(address, 16384, 0, true));
  const Allocation* first = memory->find(0, address, 4, nullptr);
  const Allocation* second = memory->find(0, address + 8192, 4, nullptr);
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  first->host[5] = std::byte{9};
  CHECK(second->host[5] == std::byte{9});
  const auto pieces = memory->pieces(address + 8000, 400);
  REQUIRE(pieces.size() == 2);
  CHECK(pieces[0] == std::pair<std::byte*, size_t>(first->host + 8000, 192));
  CHECK(pieces[1] == std::pair<std::byte*, size_t>(second->host, 208));
  CHECK_FALSE(memory->unreserve(address, 16384));
  CHECK_FALSE(memory->unmap(address, 4096));
  CHECK(memory->unmap(address, 16384));
  // A kernel that still holds the mapping harms nobody.
  first->host[5] = std::byte{1};
  CHECK(contains(miss(*memory, 0, address, 4), "freed"));
  CHECK(memory->unreserve(address, 16384));
  CHECK_FALSE(memory->is_device_address(address));
}

TEST_CASE("what one process shares another maps under an address of its own", "[emulator][memory]") {
  // Both in this process: two machines.
  const auto one = two_devices();
  const auto other = two_devices();
  const uint64_t address = take(*one, 1, 5000);
  const auto share = one->share(address + 100);
  REQUIRE(share);
  CHECK(share->device == 1);
  CHECK(share->bytes == 5000);
  const auto there = other->share_in(*share, uint64_t{1});
  REQUIRE(there);
  const Allocation* mine = one->find(1, address, 4, nullptr);
  const Allocation* theirs = other->find(0, *there, 5000, nullptr);
  REQUIRE(theirs != nullptr);
  CHECK(theirs->device == 1);
  mine->host[4999] = std::byte{77};
  CHECK(theirs->host[4999] == std::byte{77});
  CHECK(other->find(1, *there, 4, nullptr) != nullptr);
  CHECK(faults(*there));
  CHECK_FALSE(other->release(*there));
  CHECK_FALSE(other->share(*there));
  CHECK(other->unshare(*there));
  CHECK(contains(miss(*other, 0, *there, 4), "freed"));
}
