// Loans: every way in which a rank reads another's memory, forced, and the data checked.
#include <sys/mman.h>
#include <sys/resource.h>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "support/catch.h"
#include "support/fabric_world.h"
#include "transport/region.h"

using namespace ronde;
using namespace ronde::test;

namespace {

std::vector<uint32_t> numbers(size_t count, uint32_t first) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), first);
  return all;
}

// Offers until the peer has mapped the region; bounded.
bool lend_region(Fabric& owner, int peer, const void* data, size_t bytes, Loan* loan) {
  const Deadline deadline = Deadline::in(20);
  while (!deadline.passed()) {
    if (owner.lend(peer, data, bytes, loan) && loan->region != 0) return true;
    std::this_thread::yield();
  }
  return false;
}

bool in_region(const void* data, size_t bytes) {
  uint64_t offset = 0;
  return find_region(data, bytes, &offset) != nullptr;
}

}  // namespace

TEST_CASE("threads lend any buffer, and it is read in place", "[fabric][loan]") {
  FabricWorld world = make_fabrics({.ranks = 2, .settings = {}});
  REQUIRE(world.error() == "");
  const std::vector<uint32_t> data = numbers(100000, 7);
  Loan loan;
  REQUIRE(world[0].lend(1, data.data(), data.size() * 4, &loan));
  REQUIRE(loan.region == 0);
  REQUIRE(world[1].reach(0, loan, data.size() * 4) == reinterpret_cast<const std::byte*>(data.data()));
  std::vector<uint32_t> copy(data.size());
  REQUIRE(world[1].fetch(0, loan, copy.data(), copy.size() * 4));
  REQUIRE(copy == data);
}

TEST_CASE("processes lend any buffer through process_vm_readv", "[fabric][loan]") {
  FabricWorld world = make_fabrics({.ranks = 2, .pretend_processes = true, .settings = {}});
  REQUIRE(world.error() == "");
  INFO(world[0].describe(1));
  if (!contains(world[0].describe(1), "and any other through process_vm_readv")) RONDE_SKIP("process_vm_readv is refused here");
  const std::vector<uint32_t> data = numbers(100003, 11);
  Loan loan;
  REQUIRE(world[0].lend(1, data.data() + 1, (data.size() - 1) * 4, &loan));
  REQUIRE(loan.region == 0);
  REQUIRE(world[1].reach(0, loan, 4) == nullptr);
  std::vector<uint32_t> copy(data.size() - 1);
  REQUIRE(world[1].fetch(0, loan, copy.data(), copy.size() * 4));
  REQUIRE(copy == std::vector<uint32_t>(data.begin() + 1, data.end()));
  // Memory that is gone is an error.
  void* page = mmap(nullptr, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(world[0].lend(1, page, 1 << 16, &loan));
  munmap(page, 1 << 16);
  auto failed = world[1].fetch(0, loan, copy.data(), 1 << 16);
  REQUIRE_FALSE(failed);
  INFO(failed.error().what);
  REQUIRE(contains(failed.error().what, "rank 0"));
  REQUIRE(contains(failed.error().what, "process_vm_readv"));
}

TEST_CASE("shareable memory is mapped by the peer and read in place", "[fabric][loan]") {
  for (const char* vm : {"0", "1"}) {
    FabricWorld world = make_fabrics({.ranks = 2, .pretend_processes = true, .settings = {{"RONDE_VM_READV", vm}}});
    REQUIRE(world.error() == "");
    auto memory = alloc_shareable(300000);
    REQUIRE(memory);
    auto* data = static_cast<uint32_t*>(*memory);
    REQUIRE(data[74999] == 0);
    const std::vector<uint32_t> wanted = numbers(75000, 3);
    std::memcpy(data, wanted.data(), 300000);
    REQUIRE(in_region(data, 300000));
    REQUIRE(in_region(data + 10, 4));
    REQUIRE_FALSE(in_region(data, 310000));
    Loan loan;
    REQUIRE(lend_region(world[0], 1, data + 5, 299980, &loan));
    const std::byte* seen = world[1].reach(0, loan, 299980);
    REQUIRE(seen != nullptr);
    REQUIRE(seen != reinterpret_cast<const std::byte*>(data + 5));
    REQUIRE(std::memcmp(seen, wanted.data() + 5, 299980) == 0);
    std::vector<uint32_t> copy(74995);
    REQUIRE(world[1].fetch(0, loan, copy.data(), 299980));
    REQUIRE(std::memcmp(copy.data(), wanted.data() + 5, 299980) == 0);
    // Beyond the region there is nothing to reach.
    REQUIRE(world[1].reach(0, loan, size_t{1} << 30) == nullptr);
    REQUIRE(world[1].reach(0, Loan{0, loan.region + 1}, 4) == nullptr);
    REQUIRE_FALSE(world[1].fetch(0, Loan{0, loan.region + 1}, copy.data(), 4));
    // Freed: the peer's mapping stays valid, the pages are gone, the address is no region any more.
    REQUIRE(free_shareable(data));
    REQUIRE_FALSE(in_region(seen, 4));
    for (size_t i = 0; i < 299980; i += 4096) REQUIRE(seen[i] == std::byte{0});
    REQUIRE(free_shareable(data).code() == Code::invalid_argument);
  }
}

TEST_CASE("until the peer has mapped a region the next way is taken", "[fabric][loan]") {
  FabricWorld world = make_fabrics({.ranks = 2, .pretend_processes = true, .settings = {{"RONDE_VM_READV", "0"}}});
  REQUIRE(world.error() == "");
  auto memory = alloc_shareable(4096);
  REQUIRE(memory);
  Loan loan;
  REQUIRE_FALSE(world[0].lend(1, *memory, 4096, &loan));  // the offer goes out with this call
  REQUIRE(lend_region(world[0], 1, *memory, 4096, &loan));
  std::vector<char> other(4096);
  REQUIRE_FALSE(world[0].lend(1, other.data(), other.size(), &loan));
  REQUIRE(contains(world[0].describe(1), "RONDE_VM_READV=0"));
  REQUIRE(free_shareable(*memory));
}

TEST_CASE("what settings forbid is not lent", "[fabric][loan]") {
  std::vector<char> data(1 << 20);
  Loan loan;
  for (const bool pretend : {false, true}) {
    FabricWorld all = make_fabrics({.ranks = 2, .pretend_processes = pretend, .settings = {{"RONDE_P2P_DISABLE", "1"}}});
    REQUIRE(all.error() == "");
    REQUIRE_FALSE(all[0].lend(1, data.data(), data.size(), &loan));
    REQUIRE(contains(all[0].describe(1), "RONDE_P2P_DISABLE=1"));
    // One side suffices, whichever lends.
    FabricWorld one = make_fabrics({.ranks = 2, .pretend_processes = pretend, .settings_of = {{1, {{"NCCL_P2P_DISABLE", "1"}}}}});
    REQUIRE(one.error() == "");
    REQUIRE_FALSE(one[0].lend(1, data.data(), data.size(), &loan));
    REQUIRE_FALSE(one[1].lend(0, data.data(), data.size(), &loan));
  }
  FabricWorld vm = make_fabrics({.ranks = 2, .pretend_processes = true, .settings_of = {{1, {{"RONDE_VM_READV", "0"}}}}});
  REQUIRE(vm.error() == "");
  REQUIRE_FALSE(vm[0].lend(1, data.data(), data.size(), &loan));
  REQUIRE_FALSE(vm[1].lend(0, data.data(), data.size(), &loan));
}

TEST_CASE("without shared memory two processes meet over a network, or all ranks are told why not", "[fabric]") {
  FabricWorld world = make_fabrics({.ranks = 3, .pretend_processes = true, .settings_of = {{2, {{"RONDE_SHM_DISABLE", "1"}}}}});
  REQUIRE(world.error() == "");
  CHECK(world[0].transport(1) == "shm");
  CHECK(world[0].transport(2) == "NET/Socket");
  CHECK(world[2].transport(1) == "NET/Socket");
  FabricWorld none = make_fabrics({.ranks = 3, .pretend_processes = true, .settings_of = {{2, {{"RONDE_SHM_DISABLE", "1"}, {"NCCL_NET", "void"}}}}});
  for (const std::string& error : none.errors) {
    INFO(error);
    REQUIRE(contains(error, "there is no network \"void\" (NCCL_NET)"));
  }
  // Threads of one process do not need it.
  FabricWorld threads = make_fabrics({.ranks = 2, .settings = {{"RONDE_SHM_DISABLE", "1"}}});
  REQUIRE(threads.error() == "");
}

TEST_CASE("alloc_shareable takes any size and free_shareable only its own addresses", "[fabric][loan]") {
  auto none = alloc_shareable(0);
  REQUIRE(none);
  REQUIRE(free_shareable(*none));
  REQUIRE(alloc_shareable(SIZE_MAX).code() == Code::invalid_argument);
  auto huge = alloc_shareable(size_t{1} << 62);
  REQUIRE(huge.code() == Code::system_error);
  auto memory = alloc_shareable(5000);
  REQUIRE(memory);
  REQUIRE(reinterpret_cast<uintptr_t>(*memory) % 4096 == 0);
  auto inside = free_shareable(static_cast<char*>(*memory) + 64);
  REQUIRE(inside.code() == Code::invalid_argument);
  int local = 0;
  REQUIRE(free_shareable(&local).code() == Code::invalid_argument);
  REQUIRE(free_shareable(*memory));
}

TEST_CASE("limits of the process are errors that name them, not signals", "[fabric][loan]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit small{1 << 20, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  auto memory = alloc_shareable(2 << 20);
  FabricWorld world = make_fabrics({.ranks = 20, .links = 2, .pretend_processes = true, .settings = {}});
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE(memory.code() == Code::system_error);
  REQUIRE(contains(memory.error().what, "ulimit -f"));
  for (const std::string& error : world.errors) {
    INFO(error);
    REQUIRE(contains(error, "ulimit -f"));
  }
}

TEST_CASE("a loan is revoked under a slow reader: the owner waits for its chunk, then may unmap", "[fabric][loan]") {
  FabricWorld world = make_fabrics({.ranks = 2, .settings = {}});
  REQUIRE(world.error() == "");
  const size_t bytes = size_t{8} << 20;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 1, bytes);
  auto writer = world[0].writer(1, 0);
  REQUIRE(writer);
  Loan loan;
  REQUIRE(world[0].lend(1, memory, bytes, &loan));
  writer->slot_of(0).kind = SlotKind::loan;
  writer->slot_of(0).address = loan.address;
  writer->slot_of(0).bytes = bytes;
  writer->header->tail.store(1);

  std::atomic<int> chunks{0};
  std::atomic<bool> revoking{false}, refused{false};
  uint64_t sum = 0, sum_when_refused = 0;
  std::thread reader([&] {
    const FifoView fifo = world[1].reader(0, 0);
    Slot& slot = fifo.slot_of(0);
    const auto* data = reinterpret_cast<const volatile uint8_t*>(world[1].reach(0, Loan{slot.address, slot.region}, slot.bytes));
    for (size_t at = 0; !refused; at = (at + kLoanChunk) % bytes) {
      if (!begin_reading(fifo, slot)) {
        refused = true;
        break;
      }
      ++chunks;
      // Slow: it stays in the third chunk until the owner has begun to revoke, and for a while after.
      if (chunks == 3) {
        while (!revoking) std::this_thread::yield();
        for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      }
      for (size_t i = 0; i < kLoanChunk; ++i) sum += data[at + i];
      if (!end_reading(fifo, slot)) refused = true;
    }
    sum_when_refused = sum;
  });
  while (chunks < 3) std::this_thread::yield();
  revoking = true;
  world[0].revoke_loans();
  REQUIRE_FALSE(loan_readers(*writer));
  munmap(memory, bytes);  // a reader that went on would crash the test
  reader.join();
  REQUIRE(refused);
  REQUIRE(chunks == 3);
  REQUIRE(sum_when_refused == 3 * kLoanChunk);
  // For good, also in queues that are made later.
  auto later = world[0].writer(0, 0);
  REQUIRE(later);
  REQUIRE_FALSE(begin_reading(*later, later->slot_of(0)));
}

TEST_CASE("taking loans back does not wait for a stuck reader in another process for long", "[fabric][loan]") {
  FabricWorld world = make_fabrics({.ranks = 2, .pretend_processes = true, .settings = {}});
  REQUIRE(world.error() == "");
  REQUIRE(world[0].writer(1, 0));
  const FifoView fifo = world[1].reader(0, 0);
  REQUIRE(begin_reading(fifo, fifo.slot_of(1)));
  const uint64_t start = now_ns();
  world[0].revoke_loans();
  REQUIRE(now_ns() - start < 2 * kSecond);
  REQUIRE_FALSE(end_reading(fifo, fifo.slot_of(1)));
}

TEST_CASE("reading and revoking at random moments never reads revoked memory", "[fabric][loan]") {
  for (int round = 0; round < 300; ++round) {
    FabricWorld world = make_fabrics({.ranks = 2, .settings = {{"RONDE_BUFFSIZE", "4096"}}});
    REQUIRE(world.error() == "");
    auto writer = world[0].writer(1, 0);
    REQUIRE(writer);
    // 0 while lent; the owner overwrites it once it has the loan back.
    std::vector<std::atomic<uint32_t>> memory(64);
    std::atomic<bool> reading{false};
    uint64_t bad = 0;
    std::thread reader([&] {
      const FifoView fifo = world[1].reader(0, 0);
      Slot& slot = fifo.slot_of(0);
      for (;;) {
        if (!begin_reading(fifo, slot)) return;
        uint64_t seen = 0;
        for (auto& word : memory) seen += word.load(std::memory_order_relaxed);
        reading = true;
        bad += seen;  // inside the mark nothing may have been overwritten
        if (!end_reading(fifo, slot)) return;
      }
    });
    while (!reading) std::this_thread::yield();
    for (std::atomic<int> i = 0; i < round * 10; ++i) continue;
    world[0].revoke_loans();
    for (auto& word : memory) word.store(1, std::memory_order_relaxed);
    reader.join();
    REQUIRE(bad == 0);
  }
}
