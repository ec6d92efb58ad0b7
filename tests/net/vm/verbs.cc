// The network "IB" over real libibverbs and Soft-RoCE. Runs inside the virtual machine of tests/net/vm/run.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstring>

#include "net/vm/traffic.h"

using namespace ronde;
using namespace ronde::net;
using namespace ronde::test;

namespace {

std::vector<size_t> some_sizes(size_t count) {
  static const std::vector<size_t> kSizes = {0,    1,    63,   64,   255,   256,   257,   4095, 4096,
                                             4097, 8191, 8192, 8193, 12288, 33333, 65536, 5,    100};
  std::vector<size_t> sizes;
  for (size_t i = 0; i < count; ++i) sizes.push_back(kSizes[i % kSizes.size()]);
  return sizes;
}

void shell(const std::string& command) {
  INFO(command);
  REQUIRE(std::system(command.c_str()) == 0);
}

/// Until the port of an adapter is up or down.
void await_port(const std::string& state, const std::string& adapter = "rxe0") {
  const Deadline limit = Deadline::in(kPatience);
  const auto files = topo::HostFiles::open("");
  while (files->text("/sys/class/infiniband/" + adapter + "/ports/1/state").value_or("").find(state) == std::string::npos)
    REQUIRE_FALSE(limit.passed());
}

}  // namespace

TEST_CASE("IB: devices and what a connection says of itself", "[vm]") {
  const auto net = open_ib();
  REQUIRE(net->devices().size() == 4);
  CHECK(net->devices()[1].name == "rxe1:1");
  CHECK(net->devices()[1].gbps > 0);
  CHECK(net->devices()[0].guid != net->devices()[1].guid);
  CHECK(open_ib({{"NCCL_IB_HCA", "=rxe2,rxe3:1"}})->devices().size() == 2);
  Traffic traffic(*net, *net, 4, 100);
  // The table has its link-local entry first.
  CHECK(contains(traffic.sender().describe(), "rxe0:1 (GID 1, 10.2.0.1) to rxe1:1 (GID 1, 10.2.0.2)"));
  CHECK(contains(traffic.receiver().describe(), "rxe0:1 (GID 1, 10.2.0.1) of 127.0.0.1"));
  for (const Settings& none :
       {Settings{{"NCCL_IB_DISABLE", "1"}}, Settings{{"NCCL_IB_HCA", "mlx5"}}, Settings{{"NCCL_IBVERBS_LIB", "libnothing.so"}}}) {
    std::string why;
    const auto opened = providers().front().open(*config_of(none), &why);
    REQUIRE(opened.ok());
    CHECK(*opened == nullptr);
    CHECK(contains(why, none.begin()->first == "NCCL_IBVERBS_LIB" ? "libnothing.so" : none.begin()->first));
  }
}

TEST_CASE("IB: messages come as they were sent", "[vm]") {
  const std::vector<Settings> kinds = {
      {},
      {{"NCCL_IB_QPS_PER_CONNECTION", "3"}},
      {{"NCCL_IB_QPS_PER_CONNECTION", "4"}, {"NCCL_IB_SPLIT_DATA_ON_QPS", "1"}},
      {{"NCCL_IB_USE_INLINE", "0"}, {"NCCL_IB_PCI_RELAXED_ORDERING", "0"}},
      {{"NCCL_IB_ADAPTIVE_ROUTING", "1"}, {"NCCL_IB_AR_THRESHOLD", "1000"}, {"RONDE_IB_MTU", "1024"}},
      {{"NCCL_IB_GID_INDEX", "0"}, {"RONDE_IB_PARTITION", "0x7fff"}},
  };
  for (const Settings& kind : kinds) {
    std::string text;
    for (const auto& [name, value] : kind) text += name + "=" + value + " ";
    INFO(text);
    const auto net = open_ib(kind);
    for (const size_t rooms : {size_t{1}, size_t{4}, size_t{64}}) {
      INFO("rooms: " << rooms);
      Traffic traffic(*net, *net, rooms, 70000);
      CHECK(traffic.carry(some_sizes(rooms == 64 ? 200 : 40)) == "");
    }
  }
  const auto net = open_ib();
  Traffic same(*net, *net, 4, 70000, 0, 0);
  CHECK(same.carry(some_sizes(40)) == "");
}

TEST_CASE("IB: who waits is woken", "[vm]") {
  const auto net = open_ib();
  std::vector<std::byte> memory(1000);
  auto listener = net->listen(1);
  auto sender = net->connect(0, (*listener)->handle());
  Pair pair{std::move(*sender), nullptr};
  REQUIRE(until([&] { return pair.step(**listener); }));
  REQUIRE(pair.sender->use(memory).ok());
  REQUIRE(pair.receiver->use(memory).ok());
  const BootFd epoll(epoll_create1(EPOLL_CLOEXEC));
  const auto watch = [&](End& end) {
    for (const int fd : end.descriptors()) {
      epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.ptr = &end}};
      epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event);
    }
  };
  watch(*pair.sender);
  watch(*pair.receiver);
  // Asleep until something shows; false where nothing does.
  const auto sleep = [&] {
    epoll_event events[8];
    const int n = epoll_wait(epoll.get(), events, 8, 20000);
    pair.signal();
    return n > 0;
  };
  const auto quiet = [&](End& end) {
    const auto armed = end.arm();
    REQUIRE(armed.ok());
    return *armed;
  };
  // What arm() takes by itself is not slept over.
  REQUIRE_FALSE(*pair.sender->post(std::span(memory).subspan(500, 50), {}));
  while (!quiet(*pair.sender)) {
  }
  REQUIRE(*pair.receiver->post(std::span(memory).first(100)));
  REQUIRE_FALSE((*pair.receiver->done()).has_value());
  pollfd room{static_cast<VerbsSender&>(*pair.sender).line().descriptor(), POLLIN, 0};
  REQUIRE(poll(&room, 1, 20000) == 1);
  CHECK_FALSE(quiet(*pair.sender));
  REQUIRE(*pair.sender->post(std::span(memory).subspan(500, 50), {}));
  REQUIRE(until([&] { return *pair.sender->done(); }));
  REQUIRE(until([&] { return (*pair.receiver->done()).has_value(); }));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(*pair.receiver->post(std::span(memory).first(100)));
    bool came = false, ended = false;
    while (!came && !(*pair.receiver->done()).has_value()) {
      came = false;
      if (!quiet(*pair.receiver)) continue;
      bool posted = false;
      while (!posted) {
        posted = *pair.sender->post(std::span(memory).subspan(500, 50), {});
        if (!posted && quiet(*pair.sender)) REQUIRE(sleep());
      }
      came = true;
    }
    while (!ended || came) {
      if (!ended) ended = *pair.sender->done();
      if (came && (*pair.receiver->done()).has_value()) came = false;
      if ((!ended || came) && quiet(*pair.sender) && quiet(*pair.receiver)) REQUIRE(sleep());
    }
  }
}

TEST_CASE("IB: broken queue pairs are made anew, and each message comes once", "[vm]") {
  for (const Settings& kind : {Settings{}, Settings{{"NCCL_IB_QPS_PER_CONNECTION", "3"}, {"NCCL_IB_SPLIT_DATA_ON_QPS", "1"}}}) {
    const auto net = open_ib(kind);
    Traffic traffic(*net, *net, 8, 70000);
    const uint32_t queues = traffic.sender().line().queues();
    int breaks = 0;
    CHECK(traffic.carry(some_sizes(120), [&](size_t came) {
      if (came % 10 != 5 || breaks == 8) return;
      const auto queue = static_cast<uint32_t>(breaks) % queues;
      if (breaks % 2 == 0) traffic.sender().line().break_queue(queue);
      if (breaks % 2 == 1) traffic.receiver().line().break_queue(queue);
      ++breaks;
    }) == "");
    CHECK(breaks == 8);
    CHECK(traffic.sender().generation() >= 4);
    // Broken while nothing is under way, it is noticed at the next message at the latest.
    traffic.sender().line().break_queue(0);
    CHECK(traffic.carry(some_sizes(20)) == "");
    traffic.receiver().line().break_queue(0);
    CHECK(traffic.carry(some_sizes(20)) == "");
  }
}

TEST_CASE("IB: without a window a broken queue pair is an error", "[vm]") {
  const auto net = open_ib({{"RONDE_IB_REBUILD_WINDOW", "0"}});
  Traffic traffic(*net, *net, 8, 70000);
  const std::string text = traffic.carry(some_sizes(50), [&](size_t came) {
    if (came == 9) traffic.sender().line().break_queue(0);
  });
  INFO(text);
  CHECK(contains(text, "rxe0:1 (GID 1, 10.2.0.1), queue pair "));
  CHECK(contains(text, "rxe1:1 (GID 1, 10.2.0.2) of 127.0.0.1:"));
  CHECK(contains(text, "the own port is active"));
  CHECK(traffic.sender().generation() == 0);
}

TEST_CASE("IB: a link that fails and comes back", "[vm]") {
  const auto from = open_ib({{"NCCL_IB_HCA", "=rxe0"}}), to = open_ib({{"NCCL_IB_HCA", "=rxe1"}});
  Traffic traffic(*from, *to, 8, 70000, 0, 0);
  CHECK(traffic.carry(some_sizes(60), [&](size_t came) {
    if (came != 20) return;
    shell("ip link set p0 down");
    await_port("DOWN");
    // As long as retries last, and longer.
    const Deadline pause = Deadline::in(1);
    while (!pause.passed()) {
      traffic.sender().signalled();
      REQUIRE(traffic.sender().arm().ok());
    }
    shell("ip link set p0 up");
    await_port("ACTIVE");
  }) == "");
}

TEST_CASE("IB: a link that fails for good", "[vm]") {
  const auto from = open_ib({{"NCCL_IB_HCA", "=rxe0"}, {"RONDE_IB_REBUILD_WINDOW", "2"}});
  const auto to = open_ib({{"NCCL_IB_HCA", "=rxe1"}});
  Traffic traffic(*from, *to, 8, 70000, 0, 0);
  const uint64_t begin = now_ns();
  const std::string text = traffic.carry(some_sizes(60), [&](size_t came) {
    if (came == 20) shell("ip link set p0 down");
  });
  const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
  shell("ip link set p0 up");
  await_port("ACTIVE");
  INFO(text << " after " << seconds << " s");
  CHECK(contains(text, "for 2 s (RONDE_IB_REBUILD_WINDOW) has not helped, and rxe0:1 is down"));
  CHECK(seconds >= 2);
  CHECK(seconds < 30);
}

TEST_CASE("IB: where a link fails for good another one takes over", "[vm]") {
  struct Case {
    const char* cut;
    const char* mend;
    const char* adapter;
    const char* after;
    Settings settings;
  };
  // The sender's; the receiver's that it was connected to; one whose port stays active, where an adapter tries for longer than
  // the window is.
  const Case which = GENERATE(Case{"p0 down", "p0 up", "rxe0", "rxe1:1 (GID 1, 10.2.0.2) to rxe", {}},
                              Case{"p2 down", "p2 up", "rxe2", "to rxe3:1 (GID 1, 10.2.0.4)", {}},
                              Case{"p0 nomaster",
                                   "p0 master sw",
                                   "rxe0",
                                   "rxe1:1 (GID 1, 10.2.0.2) to rxe",
                                   {{"RONDE_IB_REBUILD_WINDOW", "2"}, {"RONDE_IB_TIMEOUT", "17"}}});
  INFO(which.cut);
  const auto open = [&](const char* adapters) {
    Settings settings = which.settings;
    settings.insert({"NCCL_IB_HCA", adapters});
    return open_ib(settings);
  };
  const auto from = open("=rxe0,rxe1"), to = open("=rxe2,rxe3");
  Traffic traffic(*from, *to, 8, 70000, 0, 0);
  CHECK(contains(traffic.sender().describe(), "rxe0:1 (GID 1, 10.2.0.1) to rxe2:1 (GID 1, 10.2.0.3)"));
  const std::string link = "ip link set ";
  CHECK(traffic.carry(some_sizes(90), [&](size_t came) {
    if (came == 20) shell(link + which.cut);
  }) == "");
  const std::string after = traffic.sender().describe();
  INFO(after);
  CHECK(contains(after, which.after));
  shell(link + which.mend);
  await_port("ACTIVE", which.adapter);
}

TEST_CASE("IB: a peer that is killed", "[vm]") {
  int handles[2];
  REQUIRE(pipe(handles) == 0);
  const pid_t child = fork();
  if (child == 0) {
    // Receives, and gives room for two messages more than will come.
    const auto net = open_ib();
    auto listener = net->listen(1);
    if (write(handles[1], &(*listener)->handle(), sizeof(Handle)) != static_cast<ssize_t>(sizeof(Handle))) _exit(1);
    std::unique_ptr<Receiver> receiver;
    while (receiver == nullptr) receiver = *(*listener)->accept();
    while (!*receiver->ready()) {
    }
    std::vector<std::byte> room(1000);
    if (!receiver->use(room).ok() || !*receiver->post(room) || !*receiver->post(room) || !*receiver->post(room)) _exit(1);
    while (!(*receiver->done()).has_value()) receiver->signalled();
    kill(getpid(), SIGKILL);
  }
  Handle handle;
  REQUIRE(read(handles[0], &handle, sizeof handle) == static_cast<ssize_t>(sizeof handle));
  const auto net = open_ib();
  auto sender = net->connect(0, handle);
  const auto step = [&] {
    auto up = (*sender)->ready();
    if (!up.ok()) FAIL(up.error().what);
    return *up;
  };
  REQUIRE(until(step));
  std::vector<std::byte> memory(1000);
  REQUIRE((*sender)->use(memory).ok());
  REQUIRE(until([&] { return *(*sender)->post(memory, {}); }));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  std::string text;
  CHECK(until([&] {
    (*sender)->signalled();
    const auto posted = (*sender)->post(memory, {});
    if (!posted.ok()) text = posted.error().what;
    const auto ended = (*sender)->done();
    if (!ended.ok()) text = ended.error().what;
    return !text.empty();
  }));
  INFO(text);
  CHECK(contains(text, "the peer has closed the connection"));
  close(handles[0]);
  close(handles[1]);
}

TEST_CASE("IB: too little memory may be locked", "[vm]") {
  int answer[2];
  REQUIRE(pipe(answer) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{64 * 1024, 64 * 1024};
    std::string text = "no error";
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    std::string why;
    const auto opened = providers().front().open(*config_of({{"RONDE_SOCKET_IFNAME", "=lo"}}), &why);
    if (!opened.ok() || *opened == nullptr) {
      text = "not opened: " + why;
    } else {
      auto listener = (*opened)->listen(1);
      auto sender = (*opened)->connect(0, (*listener)->handle());
      Pair pair{std::move(*sender), nullptr};
      std::vector<std::byte> memory(1 << 20);
      until([&] {
        if (pair.receiver == nullptr) pair.receiver = std::move(*(*listener)->accept());
        const auto up = pair.sender->ready();
        if (!up.ok()) text = up.error().what;
        if (pair.receiver != nullptr) (void)pair.receiver->ready();
        if (!up.ok() || !*up) return !up.ok();
        const auto used = pair.sender->use(memory);
        if (!used.ok()) text = used.error().what;
        return true;
      });
    }
    _exit(write(answer[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(answer[1]);
  std::string text(4000, '\0');
  const ssize_t n = read(answer[0], text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  close(answer[0]);
  INFO(text);
  CHECK(contains(text, "registering 1048576 bytes of memory with the adapter rxe0: Cannot allocate memory (errno 12)"));
  CHECK(contains(text, "(`ulimit -l`) is 64 KiB"));
}
