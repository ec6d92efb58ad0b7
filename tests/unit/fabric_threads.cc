// The Fabric between threads of one process, and what every Fabric promises whatever transport stands behind it.
#include <dirent.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "base/fd.h"
#include "base/thread.h"
#include "support/catch.h"
#include "support/fabric_world.h"
#include "transport/arena.h"

using namespace ronde;
using namespace ronde::test;

namespace {

struct Variant {
  const char* name;
  bool pretend;
};
const Variant kVariants[] = {{"inproc", false}, {"shm", true}};

long resident_bytes() {
  long pages = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "re");
  REQUIRE(fscanf(file, "%ld %ld", &pages, &resident) == 2);
  fclose(file);
  return resident * static_cast<long>(page_size());
}

int open_descriptors() {
  int count = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count - 3;
}

// Names, without the leading zero, of the abstract sockets on which this process listens for peers.
std::vector<std::string> own_sockets() {
  std::vector<std::string> names;
  DIR* dir = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(dir)) {
    sockaddr_un address{};
    socklen_t size = sizeof address;
    int listening = 0;
    socklen_t length = sizeof listening;
    const int fd = atoi(entry->d_name);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 || listening == 0) continue;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sun_family != AF_UNIX) continue;
    names.emplace_back(address.sun_path + 1, size - offsetof(sockaddr_un, sun_path) - 1);
  }
  closedir(dir);
  return names;
}

// Sends `count` numbered slots from a to b, and checks each.
void pass_slots(Fabric& a, Fabric& b, int link, uint64_t count) {
  auto writer = a.writer(b.rank(), link);
  INFO((writer ? std::string() : writer.error().what));
  REQUIRE(writer);
  const FifoView reader = b.reader(a.rank(), link);
  REQUIRE(reader);
  REQUIRE(reader.slots == a.slots());
  REQUIRE(reader.slot_capacity == a.slot_capacity());
  std::thread sender([&] {
    for (uint64_t k = 0; k < count; ++k) {
      while (k - writer->header->head.load() >= writer->slots) std::this_thread::yield();
      std::memset(writer->data_of(k), static_cast<int>(k % 251), writer->slot_capacity);
      writer->slot_of(k).bytes = writer->slot_capacity;
      writer->slot_of(k).sequence = k;
      writer->header->tail.store(k + 1);
    }
  });
  uint64_t wrong = 0;
  for (uint64_t k = 0; k < count; ++k) {
    while (reader.header->tail.load() <= k) std::this_thread::yield();
    wrong += reader.slot_of(k).sequence != k;
    const std::byte* data = reader.data_of(k);
    for (uint32_t i = 0; i < reader.slot_capacity; i += 64) wrong += data[i] != std::byte{static_cast<uint8_t>(k % 251)};
    wrong += data[reader.slot_capacity - 1] != std::byte{static_cast<uint8_t>(k % 251)};
    reader.header->head.store(k + 1);
  }
  sender.join();
  REQUIRE(wrong == 0);
}

}  // namespace

TEST_CASE("every pair of ranks passes slots, itself included", "[fabric]") {
  for (const Variant& variant : kVariants) {
    INFO(variant.name);
    FabricWorld world = make_fabrics({.ranks = 3, .links = 2, .pretend_processes = variant.pretend, .settings = {}});
    REQUIRE(world.error() == "");
    for (int a = 0; a < 3; ++a) {
      REQUIRE(world[a].rank() == a);
      REQUIRE(world[a].size() == 3);
      for (int b = 0; b < 3; ++b) {
        REQUIRE(world[a].transport(b) == (a == b ? "self" : variant.name));
        REQUIRE_FALSE(world[b].reader(a, 1));
        pass_slots(world[a], world[b], 0, 20);
        pass_slots(world[a], world[b], 1, 20);
        REQUIRE(world[a].alive(b));
      }
    }
  }
}

TEST_CASE("the smallest slots work", "[fabric]") {
  for (const Variant& variant : kVariants) {
    FabricWorld world = make_fabrics(
        {.ranks = 2, .pretend_processes = variant.pretend, .settings = {{"RONDE_SLOTS", "64"}, {"RONDE_BUFFSIZE", "4096"}}});
    REQUIRE(world.error() == "");
    REQUIRE(world[0].slots() == 64);
    REQUIRE(world[0].slot_capacity() == 64);
    pass_slots(world[0], world[1], 0, 1000);
  }
}

TEST_CASE("a control block is zeroed, shared and has room for the wait set", "[fabric]") {
  for (const Variant& variant : kVariants) {
    const int ranks = 70;
    FabricWorld world = make_fabrics({.ranks = ranks, .pretend_processes = false, .settings = {}});
    if (variant.pretend) world = make_fabrics({.ranks = 5, .pretend_processes = true, .settings = {}});
    REQUIRE(world.error() == "");
    const int n = world[0].size();
    const auto* raw = reinterpret_cast<const std::byte*>(&world[0].control(1));
    for (size_t i = 0; i < control_bytes(n); ++i) REQUIRE(raw[i] == std::byte{0});
    wait_set(world[1].control(1))[(n + 63) / 64 - 1].store(~uint64_t{0});
    world[1].control(1).issued.store(77);
    REQUIRE(wait_set(world[0].control(1))[(n + 63) / 64 - 1].load() == ~uint64_t{0});
    REQUIRE(world[0].control(1).issued.load() == 77);
    REQUIRE(world[0].control(0).issued.load() == 0);
    REQUIRE_FALSE(world[1].reader(0, 0));
  }
}

TEST_CASE("ring reaches the Bell that a rank has published", "[fabric]") {
  for (const Variant& variant : kVariants) {
    FabricWorld world = make_fabrics({.ranks = 2, .pretend_processes = variant.pretend, .settings = {}});
    REQUIRE(world.error() == "");
    auto first = lease_bell();
    auto second = lease_bell();
    REQUIRE(first);
    REQUIRE(second);
    REQUIRE(first->index() != second->index());
    world[1].control(1).bell.store(second->index());
    const uint32_t before = prepare(second->bell());
    prepare(first->bell());
    const uint32_t untouched = first->bell().word.load();
    world[0].ring(1);
    REQUIRE(second->bell().word.load() != before);
    REQUIRE(first->bell().word.load() == untouched);
    REQUIRE(sleep(second->bell(), before, 5 * uint64_t{1'000'000'000}));
  }
}

TEST_CASE("Bells run out with an error and come back", "[fabric]") {
  std::vector<BellLease> all;
  std::set<uint32_t> indices;
  for (;;) {
    auto lease = lease_bell();
    if (!lease) {
      REQUIRE(lease.code() == Code::system_error);
      REQUIRE(contains(lease.error().what, "4096"));
      break;
    }
    indices.insert(lease->index());
    all.push_back(std::move(lease).value());
    REQUIRE(all.size() <= 4096);
  }
  REQUIRE(indices.size() == all.size());
  all.pop_back();
  REQUIRE(lease_bell());
}

TEST_CASE("an idle connection takes at most 256 KiB, and 64 ranks stay far under 1 GiB", "[fabric]") {
  for (const int ranks : {1, 2, 8, 64, 256}) {
    for (const int links : {1, 2, 4}) {
      const ArenaShape shape = arena_shape(*config_of({}), ranks, links);
      CAPTURE(ranks, links, shape.slots, shape.slot_capacity);
      REQUIRE(fifo_bytes(shape.slots, shape.slot_capacity) <= 256 * 1024);
      REQUIRE(shape.slot_capacity >= 4096);
      REQUIRE(shape.slot_capacity % 64 == 0);
      const size_t all = fifo_bytes(shape.slots, shape.slot_capacity) * static_cast<size_t>(ranks * ranks * links);
      if (ranks <= 64) REQUIRE(all <= size_t{64} * kArenaRoom);
    }
  }
  // What a user sets is taken at its word as long as the room allows.
  REQUIRE(arena_shape(*config_of({{"RONDE_BUFFSIZE", "65536"}, {"RONDE_SLOTS", "2"}}), 2, 1).slot_capacity == 32768);
  REQUIRE(arena_shape(*config_of({{"RONDE_BUFFSIZE", "2097152"}, {"RONDE_SLOTS", "2"}}), 2, 1).slot_capacity == 1048576);
}

TEST_CASE("64 ranks that all talk to all take well under 1 GiB, and next to nothing before they talk", "[fabric]") {
  const int ranks = 64;
  const long before = resident_bytes();
  FabricWorld world = make_fabrics({.ranks = ranks, .links = 2, .settings = {}});
  REQUIRE(world.error() == "");
  REQUIRE(resident_bytes() - before < 32 << 20);
  for (int a = 0; a < ranks; ++a) {
    for (int b = 0; b < ranks; ++b) REQUIRE(world[a].writer(b, (a + b) % 2));
  }
  REQUIRE(resident_bytes() - before < 400 << 20);
}

TEST_CASE("a process has one descriptor for each peer process, and leaves none behind", "[fabric]") {
  const int fds = open_descriptors(), threads = process_threads();
  for (int round = 0; round < 2; ++round) {
    FabricWorld world = make_fabrics({.ranks = 16, .pretend_processes = true, .settings = {}});
    REQUIRE(world.error() == "");
    // A socket's two ends for each pair, and listener, epoll and event descriptor for each rank; no arena is still open.
    REQUIRE(open_descriptors() - fds <= 16 * 15 + 3 * 16 + 1);
  }
  REQUIRE(open_descriptors() == fds);
  REQUIRE(process_threads() == threads);
}

TEST_CASE("200 communicators of threads leave neither descriptors nor threads", "[fabric]") {
  const int fds = open_descriptors(), threads = process_threads();
  for (int round = 0; round < 200; ++round) {
    FabricWorld world = make_fabrics({.ranks = 4, .pretend_processes = round % 4 == 0, .settings = {{"RONDE_BUFFSIZE", "4096"}}});
    REQUIRE(world.error() == "");
    REQUIRE(world[3].writer(0, 0));
  }
  REQUIRE(open_descriptors() == fds);
  REQUIRE(process_threads() == threads);
}

TEST_CASE("a stranger at the socket gets nowhere and disturbs nobody", "[fabric]") {
  FabricWorld world = make_fabrics({.ranks = 2, .pretend_processes = true, .settings = {}});
  REQUIRE(world.error() == "");
  const std::vector<std::string> names = own_sockets();
  REQUIRE(names.size() == 2);
  for (const std::string& name : names) {
    for (int i = 0; i < 100; ++i) {  // more than may wait to be heard
      UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      std::memcpy(address.sun_path + 1, name.data(), name.size());
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
      REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
      const std::vector<char> garbage(i % 2 == 0 ? 56 : 7);  // once of the right size: a hello without the secret
      REQUIRE(send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0);
      char answer = 0;
      REQUIRE(recv(fd.get(), &answer, 1, 0) <= 0);  // closed
    }
  }
  pass_slots(world[0], world[1], 0, 10);
  REQUIRE(world[0].alive(1));
}

TEST_CASE("ranks whose settings give other slots are told so", "[fabric]") {
  FabricWorld world = make_fabrics({.ranks = 3, .settings_of = {{2, {{"RONDE_SLOTS", "8"}}}}});
  for (const std::string& error : world.errors) {
    INFO(error);
    REQUIRE(contains(error, "ranks 0 and 2"));
    REQUIRE(contains(error, "RONDE_SLOTS"));
  }
}

TEST_CASE("a connection for which there is no memory is an error, not a signal, and may be tried again", "[fabric]") {
  for (const Variant& variant : kVariants) {
    FabricWorld world = make_fabrics({.ranks = 2, .pretend_processes = variant.pretend, .settings = {}});
    REQUIRE(world.error() == "");
    // The pages behind the control block and the table of connections are moved away, as the writer sees them, and in their place
    // comes a file that ends too early: to touch that is the SIGBUS of memory that has run out.
    auto* control = reinterpret_cast<std::byte*>(&world[0].control(1));
    const size_t page = page_size(), size = 64 * 1024;
    void* heap = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(control) + control_bytes(2) + 16 + page - 1) / page * page);
    void* aside = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mremap(heap, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, aside) == aside);
    auto empty = make_memfd("test-empty", 0);
    REQUIRE(empty);
    REQUIRE(mmap(heap, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty->get(), 0) == heap);
    auto made = world[0].writer(1, 0);
    REQUIRE_FALSE(made);
    REQUIRE(made.code() == Code::system_error);
    REQUIRE(contains(made.error().what, "memory"));
    REQUIRE(contains(made.error().what, "rank 1"));
    REQUIRE_FALSE(world[1].reader(0, 0));
    REQUIRE(mremap(aside, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, heap) == heap);
    pass_slots(world[0], world[1], 0, 10);
  }
}

TEST_CASE("writers of one reader that connect at once get queues of their own", "[fabric]") {
  const int ranks = 8;
  FabricWorld world = make_fabrics({.ranks = ranks, .links = 4, .settings = {{"RONDE_BUFFSIZE", "4096"}}});
  REQUIRE(world.error() == "");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      for (int link = 0; link < 4; ++link) static_cast<void>(world[rank].writer(0, link));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<FifoHeader*> headers;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int link = 0; link < 4; ++link) headers.insert(world[0].reader(rank, link).header);
  }
  REQUIRE(headers.count(nullptr) == 0);
  REQUIRE(headers.size() == 32);
  auto it = headers.begin();
  const size_t bytes = fifo_bytes(world[0].slots(), world[0].slot_capacity());
  for (auto next = std::next(it); next != headers.end(); ++it, ++next) {
    REQUIRE(reinterpret_cast<std::byte*>(*next) - reinterpret_cast<std::byte*>(*it) >= static_cast<ptrdiff_t>(bytes));
  }
}
