// Parts of the network "IB" that need the headers of libibverbs, but neither the library nor adapters.
#include <cerrno>
#include <thread>

#include "support/catch.h"
#include "transport/verbs/layout.h"
#include "transport/verbs/line.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/wire.h"
#include "transport/verbs/words.h"
#include "unit/net_pairs.h"

using namespace ronde;
using namespace ronde::net;
using namespace ronde::test;

namespace {

/// Registers without an adapter, and counts.
struct FakeMemory {
  Verbs verbs;
  static inline int registered = 0, relaxed = 0, gone = 0, refuse = 0;

  FakeMemory() {
    registered = relaxed = gone = refuse = 0;
    verbs.reg_mr = [](ibv_pd*, void* address, size_t length, int) -> ibv_mr* { return enter(address, length); };
    verbs.reg_mr_iova2 = [](ibv_pd*, void* address, size_t length, uint64_t, unsigned access) -> ibv_mr* {
      if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0) ++relaxed;
      return enter(address, length);
    };
    verbs.dereg_mr = [](ibv_mr* region) {
      ++gone;
      delete region;
      return 0;
    };
  }
  static ibv_mr* enter(void* address, size_t length) {
    if (refuse != 0) {
      errno = refuse;
      return nullptr;
    }
    auto* const region = new ibv_mr{};
    region->addr = address;
    region->length = length;
    region->lkey = static_cast<uint32_t>(++registered);
    region->rkey = region->lkey + 1000;
    return region;
  }
};

}  // namespace

TEST_CASE("IB: traffic classes of data and of what tells of free slots", "[unit][net][verbs]") {
  const auto classes = [](const std::map<std::string, std::string>& values) {
    const auto settings = line_settings(*config_of(values));
    REQUIRE(settings.ok());
    return std::pair<int, int>(settings->data_class, settings->control_class);
  };
  CHECK(classes({}) == std::pair(0, 0));
  CHECK(classes({{"NCCL_IB_TC", "106"}}) == std::pair(106, 106));
  CHECK(classes({{"NCCL_IB_TC", "106"}, {"NCCL_IB_FIFO_TC", "0"}}) == std::pair(106, 0));
  CHECK(classes({{"NCCL_IB_TC", "106"}, {"RONDE_TRAFFIC_CLASS", "3"}}) == std::pair(3, 3));  // as the configuration's trafficClass
  CHECK(classes({{"NCCL_IB_TC", "-1"}}) == std::pair(0, 0));
}

TEST_CASE("IB: registered memory is shared while somebody holds it", "[unit][net][verbs]") {
  FakeMemory fake;
  MemoryCache cache(fake.verbs, nullptr, "mlx5_0", 2);
  std::vector<std::byte> memory(10000);
  const std::span<std::byte> all(memory);
  {
    const auto whole = cache.of(all.first(8000));
    REQUIRE(whole.ok());
    CHECK((*whole)->lkey() == 1);
    CHECK((*whole)->rkey() == 1001);
    const auto part = cache.of(all.subspan(100, 50));
    CHECK(part->get() == whole->get());
    const auto beyond = cache.of(all.subspan(7000, 2000));
    CHECK((*beyond)->lkey() == 2);
    CHECK((*beyond)->covers(all.subspan(7000, 2000)));
    CHECK_FALSE((*beyond)->covers(all.subspan(6999, 10)));
    CHECK_FALSE((*beyond)->covers(all.subspan(8999, 2)));
    CHECK(cache.size() == 2);
    CHECK(FakeMemory::gone == 0);
  }
  // The memory may be another's by now: the same addresses are registered anew.
  CHECK(FakeMemory::gone == 2);
  CHECK(cache.size() == 0);
  const auto again = cache.of(all.subspan(100, 50));
  CHECK((*again)->lkey() == 3);
  CHECK(FakeMemory::relaxed == 3);
}

TEST_CASE("IB: registering by several threads", "[unit][net][verbs]") {
  FakeMemory fake;
  MemoryCache cache(fake.verbs, nullptr, "mlx5_0", 0);
  std::vector<std::byte> memory(1000);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto held = cache.of(memory);
        if (!held.ok() || !(*held)->covers(memory)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(FakeMemory::registered == FakeMemory::gone);
  CHECK(FakeMemory::relaxed == 0);
  CHECK(cache.size() == 0);
}

TEST_CASE("IB: relaxed ordering where it is not known", "[unit][net][verbs]") {
  FakeMemory fake;
  std::vector<std::byte> memory(100);
  fake.verbs.reg_mr_iova2 = [](ibv_pd*, void*, size_t, uint64_t, unsigned) -> ibv_mr* {
    errno = EINVAL;
    return nullptr;
  };
  MemoryCache where_possible(fake.verbs, nullptr, "mlx5_0", 2);
  CHECK(where_possible.of(memory).ok());
  MemoryCache always(fake.verbs, nullptr, "mlx5_0", 1);
  CHECK_FALSE(always.of(memory).ok());
}

TEST_CASE("IB: memory that cannot be locked", "[unit][net][verbs]") {
  FakeMemory fake;
  FakeMemory::refuse = ENOMEM;
  MemoryCache cache(fake.verbs, nullptr, "mlx5_0", 0);
  std::vector<std::byte> memory(100);
  const auto refused = cache.of(memory);
  REQUIRE_FALSE(refused.ok());
  const std::string& text = refused.error().what;
  INFO(text);
  CHECK(text.find("registering 100 bytes of memory with the adapter mlx5_0: Cannot allocate memory (errno 12)") == 0);
  CHECK(text.find("`ulimit -l`") != std::string::npos);
  CHECK(text.find("memlock unlimited") != std::string::npos);
  FakeMemory::refuse = 0;
  CHECK(cache.of(memory).ok());
}

TEST_CASE("IB: completions in words", "[unit][net][verbs]") {
  const Failure failure{IBV_WC_RETRY_EXC_ERR,
                        129,
                        "sending message 7",
                        "mlx5_0:1 (GID 3, 10.0.0.1), queue pair 17",
                        "mlx5_1:1 (GID 3, 10.0.0.2) of 10.0.0.2:4000, queue pair 18",
                        "down"};
  const std::string text = failure_text(failure);
  INFO(text);
  for (const char* part : {"sending message 7 from mlx5_0:1 (GID 3, 10.0.0.1), queue pair 17 to mlx5_1:1 (GID 3, 10.0.0.2) of "
                           "10.0.0.2:4000, queue pair 18",
                           "has not acknowledged", "(RETRY_EXC_ERR, status 12, vendor code 129)", "the own port is down",
                           "NCCL_IB_TIMEOUT", "4791"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  // Each status has words, and those of requests that are wrong are not tried again.
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; ++status) {
    Failure other = failure;
    other.status = static_cast<ibv_wc_status>(status);
    CHECK(failure_text(other).find("status " + std::to_string(status)) != std::string::npos);
  }
  CHECK(may_pass_later(IBV_WC_RETRY_EXC_ERR));
  CHECK(may_pass_later(IBV_WC_WR_FLUSH_ERR));
  CHECK_FALSE(may_pass_later(IBV_WC_LOC_PROT_ERR));
  CHECK_FALSE(may_pass_later(IBV_WC_REM_ACCESS_ERR));
}

TEST_CASE("IB: ports in words", "[unit][net][verbs]") {
  ibv_port_attr port{};
  port.state = IBV_PORT_ACTIVE;
  port.active_width = 2;
  port.active_speed = 32;
  port.active_mtu = IBV_MTU_4096;
  port.link_layer = IBV_LINK_LAYER_INFINIBAND;
  CHECK(port_text(port) == "active, 100 Gbit/s, InfiniBand, MTU 4096");
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  port.active_speed = 0;
  CHECK(port_text(port) == "active, Ethernet, MTU 4096");
  port.state = IBV_PORT_DOWN;
  CHECK(port_text(port) == "down");
  CHECK(link_gbps(1, 1) == 2.5);
  CHECK(link_gbps(2, 128) == 400);
  CHECK(link_gbps(16, 64) == 100);
}

TEST_CASE("IB: numbers of messages in immediate data", "[unit][net][verbs]") {
  for (const uint64_t first :
       {uint64_t{0}, uint64_t{63}, uint64_t{0x7fffffe0}, uint64_t{0xffffffe0}, uint64_t{0x12345678abcdef}}) {
    for (uint64_t number = first; number != first + 64; ++number) {
      CHECK(number_from(immediate_of(number, false), first) == number);
      CHECK(number_from(immediate_of(number, true), first) == number);
    }
  }
  CHECK((immediate_of(5, true) & kNoted) != 0);
  CHECK((immediate_of(0x80000005, false) & kNoted) == 0);
  for (uint64_t number = 0; number < 20; ++number) {
    for (uint32_t part = 0; part < 3; ++part) CHECK(part_on(number, queue_of(number, part, 3), 3) == part);
  }
}

TEST_CASE("IB: cards over the control stream", "[unit][net][verbs]") {
  Card card;
  card.generation = 3;
  card.device = "mlx5_0:1";
  card.ethernet = true;
  card.mtu = 5;
  card.lid = 7;
  card.gids.resize(2);
  card.gids[1].bytes[15] = 9;
  card.gids[1].index = 4;
  card.gids[1].prefix = 120;
  card.gids[1].family = true;
  card.queues = {{11, 12}, {13, 14}};
  card.block = 1ull << 40;
  card.block_key = 99;
  card.whole = 5;
  card.whole_mask = 6;
  const Bytes bytes = pack(card);
  const auto read = unpack_card(bytes);
  REQUIRE(read.has_value());
  CHECK(pack(*read) == bytes);
  CHECK(read->gids == card.gids);
  CHECK(read->queues[1].first_packet == 14);
  for (size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(unpack_card(std::span(bytes).first(size)).has_value());

  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Wire far(BootFd(ends[1]), "lo");
  {
    Wire near(BootFd(ends[0]), "lo");
    near.put(Wire::Kind::card, bytes);
    near.put(Wire::Kind::up, {});
    CHECK(near.move().ok());
    CHECK_FALSE(near.take().has_value());
  }
  CHECK(far.move().ok());  // it has ended, but something is to be taken first
  const auto first = far.take();
  REQUIRE(first.has_value());
  CHECK(first->bytes == bytes);
  CHECK(far.move().ok());
  CHECK(far.take()->kind == Wire::Kind::up);
  CHECK_FALSE(far.move().ok());
  CHECK_FALSE(far.take().has_value());

  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Wire other(BootFd(ends[1]), "lo");
  const BootFd stranger(ends[0]);
  REQUIRE(send(stranger.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0) == 18);
  const auto foreign = other.move();
  REQUIRE_FALSE(foreign.ok());
  CHECK(foreign.error().what.find("no message of this library") != std::string::npos);
}
