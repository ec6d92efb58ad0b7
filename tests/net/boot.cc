// The bootstrap between hosts: decoys among the interfaces, links that lose packets, ports that are refused, strangers.
#include <atomic>

#include "net/hosts.h"
#include "net/strangers.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Texts = std::vector<std::string>;

Texts good(int n) { return Texts(static_cast<size_t>(n)); }

/// Joins the ranks of a world: rank 0 makes the id.
Joined join_world(HostWorld& world, int rank, Settings settings = {}) {
  settings.insert({"RONDE_HOSTID", "host" + std::to_string(world.host_of(rank))});
  settings.insert({"RONDE_INIT_TIMEOUT", "20"});
  const auto config = config_of(settings);
  UniqueId id;
  if (rank == 0) {
    Result<UniqueId> made = make_unique_id(*config);
    if (!made.ok()) return made.error();
    id = *made;
    world.put(&id, sizeof id);
  } else {
    world.get(&id, sizeof id);
  }
  return join({rank, world.ranks(), {id}}, config, nullptr);
}

/// The whole test of most: joins and gathers; `route` is how it must have gone ("" : any).
std::string join_and_gather(HostWorld& world, int rank, const std::string& route, const Settings& settings = {}) {
  const uint64_t begin = now_ns();
  Joined joined = join_world(world, rank, settings);
  if (!joined.ok()) return joined.error().what;
  if (!gathers(**joined) || !gathers(**joined)) return "wrong data";
  if (now_ns() - begin > 8 * kSecond) return "took long";
  if (!route.empty() && !contains((*joined)->describe(), route)) return "went by " + (*joined)->describe();
  return (*joined)->barrier().ok() ? "" : "barrier failed";
}

}  // namespace

TEST_CASE("bootstrap: any split of ranks over hosts", "[net][boot]") {
  RONDE_NEED_HOSTS();
  const std::string split = GENERATE("2", "3", "0/1-4", "0,2,4/1,3");
  HostWorld world(5, split);
  CHECK(world.run([&](int rank) { return join_and_gather(world, rank, "TCP over eth0"); }) == good(5));
}

TEST_CASE("bootstrap: interfaces that lead nowhere do not matter", "[net][boot]") {
  RONDE_NEED_HOSTS();
  HostWorld world(4, "0,2/1,3");
  for (const int host : {0, 1}) {
    world.add_interface(host, "docker0", {"172.17.0.1/16"});
    world.add_interface(host, "virbr0", {"192.168.122.1/24"});
    world.add_interface(host, "en-local", {});  // link-local alone
    world.add_interface(host, "en-same", {"192.168.7.1/24"});
    world.add_interface(host, "en-down", {"10.99.0." + std::to_string(host + 1) + "/24"});
    world.on_host(host, "ip link set en-down down");
  }
  // On one port everywhere a process that dials the other's docker0 finds itself.
  const Settings settings = GENERATE(Settings{}, Settings{{"RONDE_PORT_RANGE", "7000-7001"}},
                                     Settings{{"RONDE_PORT_RANGE", "7000-7001"}, {"RONDE_SOCKET_IFNAME", "docker,virbr,en,eth"}});
  CHECK(world.run([&](int rank) { return join_and_gather(world, rank, "TCP over eth0", settings); }) == good(4));
}

TEST_CASE("bootstrap: link-local addresses alone", "[net][boot]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0/1,2");
  for (const int host : {0, 1}) {
    world.on_host(host, "ip address flush dev eth0 scope global");
    world.on_host(host, "ip link set eth0 addrgenmode eui64");
  }
  CHECK(world.run([&](int rank) { return join_and_gather(world, rank, "", {{"RONDE_SOCKET_IFNAME", "eth"}}); }) == good(3));
}

TEST_CASE("bootstrap: a link that loses everything for five seconds", "[net][boot]") {
  RONDE_NEED_HOSTS();
  HostWorld world(2, "2");
  const Texts texts = world.run(
      [&](int rank) -> std::string {
        Joined joined = join_world(world, rank, {{"RONDE_INIT_TIMEOUT", "60"}});
        if (!joined.ok()) return joined.error().what;
        std::atomic<int> posts{0}, deaths{0};
        (*joined)->listen_posts([&](int, std::span<const std::byte>) { ++posts; }, [&](int, const Error&) { ++deaths; });
        if (!(*joined)->barrier().ok()) return "barrier";
        ++world.count(0);
        if (!comes([&] { return world.count(1) == 1; })) return "the link is not cut";
        const uint64_t begin = now_ns();
        if (!(*joined)->post(1 - rank, {}).ok()) return "post";
        if (!gathers(**joined)) return "gather";
        if (now_ns() - begin < 4 * kSecond) return "the link was not cut";
        if (!comes([&] { return posts == 1; })) return "the message was lost";
        return deaths == 0 && (*joined)->barrier().ok() ? "" : "the end";
      },
      [&] {
        CHECK(comes([&] { return world.count(0) == 2; }));
        world.cut(1);
        world.count(1) = 1;
        std::this_thread::sleep_for(std::chrono::seconds(5));  // what is tested
        world.mend(1);
      });
  CHECK(texts == good(2));
}

TEST_CASE("bootstrap: a link that loses everything for good is noticed, whether anything is under way or not", "[net][boot]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0/1/2");
  const Texts texts = world.run(
      [&](int rank) -> std::string {
        Joined joined = join_world(world, rank, {{"RONDE_INIT_TIMEOUT", "200"}});
        if (!joined.ok()) return joined.error().what;
        std::atomic<int> deaths{0}, others{0};
        (*joined)->listen_posts([](int, std::span<const std::byte>) {},
                                [&](int peer, const Error&) { ++(peer == 2 ? deaths : others); });
        for (int peer = 0; peer < 3; ++peer) (void)(*joined)->post(peer, {});
        if (!(*joined)->barrier().ok()) return "barrier";
        ++world.count(0);
        if (!comes([&] { return world.count(1) == 1; })) return "the link is not cut";
        if (rank == 2) return comes([&] { return world.count(2) == 2; }, 60) ? "" : "the others";
        // Rank 0 has something under way, rank 1 has not.
        if (rank == 0) (void)(*joined)->post(2, std::vector<std::byte>(100000));
        const uint64_t begin = now_ns();
        const bool told = comes([&] { return deaths == 1; }, 60);
        ++world.count(2);
        if (!told || others != 0) return "deaths told: " + std::to_string(deaths) + ", of others " + std::to_string(others);
        if (now_ns() - begin > 40 * kSecond) return "took long";
        const Result<> failed = (*joined)->barrier();
        return !failed.ok() && contains(failed.error().what, "rank 2") ? "" : "the exchange does not name rank 2";
      },
      [&] {
        CHECK(comes([&] { return world.count(0) == 3; }));
        world.cut(2);
        world.count(1) = 1;
      },
      100);
  CHECK(texts == good(3));
}

TEST_CASE("bootstrap: ports that are refused are named, and a range that is open serves", "[net][boot]") {
  RONDE_NEED_HOSTS();
  HostWorld world(2, "2");
  for (const int host : {0, 1}) {
    for (const std::string family : {"-4", "-6"})
      world.on_host(host, "ip " + family + " rule add ipproto tcp dport 7100-65534 prohibit");
  }
  SECTION("an open range") {
    for (const int host : {0, 1}) world.set(host, "net/ipv4/ip_local_port_range", "5000 6999");  // the answers' ports
    CHECK(world.run([&](int rank) {
      return join_and_gather(world, rank, "TCP over eth0", {{"RONDE_PORT_RANGE", "7000-7009"}});
    }) == good(2));
  }
  SECTION("any port") {
    const Texts texts = world.run([&](int rank) -> std::string {
      const uint64_t begin = now_ns();
      Joined joined = join_world(world, rank, {{"RONDE_INIT_TIMEOUT", "4"}});
      if (joined.ok()) return "joined";
      const std::string missing = rank == 0 ? "rank 1" : run::HostNet::address(0, 0);
      if (!contains(joined.error().what, missing)) return "does not name " + missing + ": " + joined.error().what;
      return now_ns() - begin < 10 * kSecond ? "" : "took long";
    });
    CHECK(texts == good(2));
  }
}

TEST_CASE("bootstrap: two hundred communicators, one after the other, at one fixed port", "[net][boot]") {
  RONDE_NEED_HOSTS();
  HostWorld world(3, "0,1/2");
  const uint64_t begin = now_ns();
  const Texts texts = world.run([&](int rank) -> std::string {
    for (int round = 0; round < 200; ++round) {
      Joined joined = join_world(world, rank, {{"RONDE_COMM_ID", run::HostNet::address(0, 0) + ":7777"}});
      if (!joined.ok()) return "round " + std::to_string(round) + ": " + joined.error().what;
      if (!gathers(**joined)) return "round " + std::to_string(round) + ": wrong data";
    }
    return "";
  });
  CHECK(texts == good(3));
  CHECK(now_ns() - begin < 50 * kSecond);
}

TEST_CASE("bootstrap: strangers on every port that listens do not matter", "[net][boot]") {
  RONDE_NEED_HOSTS();
  HostWorld world(4, "2");
  world.count(7) = 0;
  for (const int host : {0, 1}) world.accompany(host, [&world] { be_strangers(world.count(7)); });
  for (int round = 0; round < 5; ++round) {
    const Texts texts = world.run([&](int rank) -> std::string {
      Joined joined = join_world(world, rank);
      if (!joined.ok()) return joined.error().what;
      while (true) {
        if (!gathers(**joined)) return "wrong data";
        if (!(*joined)->barrier().ok()) return "barrier";
        // All stop in the same round: what rank 0 sees counts.
        std::vector<int> enough(4);
        enough[static_cast<size_t>(rank)] = world.count(7);
        if (!(*joined)->all_gather(std::as_writable_bytes(std::span(enough))).ok()) return "gather";
        if (enough[0] >= 200) break;
      }
      return (*joined)->barrier().ok() ? "" : "the last barrier";
    });
    CHECK(texts == good(4));
  }
}
