// Inits that must fail, with the right code and text on every rank that came, and strangers that must not matter.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <atomic>
#include <cstring>

#include "boot/handshake.h"
#include "boot/listen.h"
#include "boot/unique_id.h"
#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

const Settings kShort = {{"RONDE_INIT_TIMEOUT", "0.3"}};

/// What one caller of join asks for.
struct Caller {
  int rank = 0;
  int ranks = 0;
  std::vector<UniqueId> ids;
  uint32_t protocol = kBootProtocol;
  uint32_t version = RONDE_VERSION_CODE;
};

/// Lets all join at once; each one's error, or an empty one where it succeeded.
std::vector<Error> outcomes(const std::vector<Caller>& callers, Path path, const Settings& more = {}) {
  std::vector<Error> errors(callers.size());
  run_threads(static_cast<int>(callers.size()), [&](int i) {
    const Caller& caller = callers[static_cast<size_t>(i)];
    JoinHooks hooks = hooks_of(path, i);
    hooks.protocol = caller.protocol;
    hooks.version = caller.version;
    Joined joined = join({caller.rank, caller.ranks, caller.ids}, config_of(settings_of(path, i, more)), nullptr, hooks);
    errors[static_cast<size_t>(i)] = joined.ok() ? Error{Code::success, Scope::operation, "", {}} : joined.error();
  });
  return errors;
}

UniqueId id_for(Path path, const Settings& more = {}) {
  return *make_unique_id(*config_of(settings_of(path, 0, more)), hooks_of(path, 0));
}

void check_all(const std::vector<Error>& errors, Code code, const std::vector<std::string>& parts) {
  for (const Error& error : errors) {
    INFO(error.what);
    CHECK(error.code == code);
    for (const std::string& part : parts) CHECK(contains(error.what, part));
  }
}

Path any_path() { return GENERATE(Path::in_process, Path::unix_socket, Path::tcp); }

/// A blocking connection to the first TCP address of an id.
int stranger(const UniqueId& id) {
  const Address address = decode_id(id)->root.addresses.at(0);
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(address, &storage);
  const int fd = socket(address.family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&storage), length) == 0);
  return fd;
}

/// True if the other side ends the connection within `ms`.
bool hung_up(int fd, int ms) {
  const Deadline limit = Deadline::in(ms / 1000.0);
  char bytes[256];
  while (!limit.passed()) {
    pollfd one{fd, POLLIN, 0};
    if (poll(&one, 1, limit.left_ms(100)) <= 0) continue;
    if (recv(fd, bytes, sizeof bytes, 0) <= 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a rank that two callers claim is an error for all", "[boot]") {
  const Path path = any_path();
  const std::vector<UniqueId> ids{id_for(path)};
  const auto errors = outcomes({{0, 3, ids}, {1, 3, ids}, {1, 3, ids}}, path);
  check_all(errors, Code::invalid_usage, {"rank 1 was claimed twice", "process " + std::to_string(getpid())});
}

TEST_CASE("ranks that disagree about their number get an error that says who said what", "[boot]") {
  const Path path = any_path();
  const std::vector<UniqueId> ids{id_for(path)};
  const auto errors = outcomes({{0, 3, ids}, {1, 3, ids}, {2, 4, ids}}, path);
  check_all(errors, Code::invalid_usage, {"disagree about their number", "rank 2", "says 4", "says 3"});
}

TEST_CASE("ranks that pass different lists of unique ids get an error", "[boot]") {
  const Path path = any_path();
  const UniqueId first = id_for(path), second = id_for(path), third = id_for(path);
  check_all(outcomes({{0, 2, {first, second}}, {1, 2, {first}}}, path), Code::invalid_usage,
            {"number of unique ids", "passed 2", "passed 1"});
  check_all(outcomes({{0, 2, {second, first}}, {1, 2, {second, third}}}, path), Code::invalid_usage, {"passed different lists"});
  // What is left over: ids that nobody has used up.
  CHECK(join({0, 1, {third}}, config_of(settings_of(path, 0)), nullptr, hooks_of(path, 0)).ok());
}

TEST_CASE("another library version or protocol is an error for all", "[boot]") {
  const Path path = any_path();
  const std::vector<UniqueId> ids{id_for(path)};
  SECTION("version") {
    check_all(outcomes({{0, 2, ids}, {1, 2, ids, kBootProtocol, 990000}}, path), Code::invalid_usage,
              {"rank 1", "version 990000", "install one version everywhere"});
  }
  SECTION("protocol") {
    check_all(outcomes({{0, 2, ids}, {1, 2, ids, 77}}, path), Code::invalid_usage, {"rank 1", "protocol 77"});
  }
}

TEST_CASE("ranks that do not come are named when the time is over", "[boot]") {
  const Path path = any_path();
  SECTION("one") {
    const std::vector<UniqueId> ids{id_for(path)};
    check_all(outcomes({{0, 4, ids}, {1, 4, ids}, {2, 4, ids}}, path, kShort), Code::remote_error,
              {"rank 3 did not come within 0.3 s", "RONDE_INIT_TIMEOUT"});
  }
  SECTION("many") {
    const std::vector<UniqueId> ids{id_for(path)};
    check_all(outcomes({{0, 40, ids}, {1, 40, ids}, {30, 40, ids}}, path, {{"RONDE_INIT_TIMEOUT", "0.2"}}), Code::remote_error,
              {"ranks 2-29, 31-39 did not come within 0.2 s"});
  }
}

TEST_CASE("a rank that comes too late learns why the others failed", "[boot]") {
  const Path path = any_path();
  const std::vector<UniqueId> ids{id_for(path)};
  const Settings tiny = {{"RONDE_INIT_TIMEOUT", "0.1"}};
  check_all(outcomes({{0, 3, ids}, {1, 3, ids}}, path, tiny), Code::remote_error, {"rank 2 did not come"});
  Joined late = join({2, 3, ids}, config_of(settings_of(path, 2)), nullptr, hooks_of(path, 2));
  REQUIRE_FALSE(late.ok());
  INFO(late.error().what);
  CHECK(contains(late.error().what, "rank 2 did not come"));
}

TEST_CASE("an id serves once", "[boot]") {
  const Path path = any_path();
  const UniqueId id = id_for(path);
  const auto again = [&] {
    Joined joined = join({1, 2, {id}}, config_of(settings_of(path, 1)), nullptr, hooks_of(path, 1));
    REQUIRE_FALSE(joined.ok());
    INFO(joined.error().what);
    CHECK(joined.code() == Code::invalid_usage);
    CHECK(contains(joined.error().what, "each communicator needs an id of its own"));
  };
  std::unique_ptr<Bootstrap> kept[2];
  run_threads(2, [&](int rank) {
    kept[rank] = std::move(*join({rank, 2, {id}}, config_of(settings_of(path, rank)), nullptr, hooks_of(path, rank)));
  });
  again();
  // Another communicator keeps the node, but the id's own are gone.
  if (path == Path::in_process) {
    kept[0].reset();
    kept[1].reset();
    again();
  }
}

TEST_CASE("arguments out of range are refused before anybody is asked", "[boot]") {
  const UniqueId id = id_for(Path::in_process);
  for (const JoinRequest& request :
       {JoinRequest{-1, 2, {id}}, JoinRequest{2, 2, {id}}, JoinRequest{0, 0, {id}}, JoinRequest{0, 1, {}}}) {
    CHECK(join(request, config_of(), nullptr).code() == Code::invalid_argument);
  }
  CHECK(join({0, 1, {id}}, config_of(), nullptr).ok());
}

TEST_CASE("abort ends an init within a moment, and tells the others", "[boot]") {
  const Path path = any_path();
  const UniqueId id = id_for(path);
  AbortWord abort;
  std::atomic<uint64_t> raised{0};
  std::array<uint64_t, 2> returned{};
  std::array<Error, 2> errors;
  run_threads(3, [&](int i) {
    if (i == 2) {
      // Both ranks wait for rank 2, which never comes; until they do there is nothing to end.
      const Deadline start = Deadline::in(0.1);
      while (!start.passed()) std::this_thread::yield();
      raised = now_ns();
      return abort.raise();
    }
    Joined joined = join({i, 3, {id}}, config_of(settings_of(path, i)), i == 0 ? &abort : nullptr, hooks_of(path, i));
    returned[static_cast<size_t>(i)] = now_ns();
    if (!joined.ok()) errors[static_cast<size_t>(i)] = joined.error();
  });
  INFO(errors[0].what << " / " << errors[1].what);
  for (const uint64_t at : returned) CHECK(at - raised < kSecond);
  CHECK(errors[0].code == Code::remote_error);
  CHECK(contains(errors[0].what, "aborted while rank 0 waited"));
  CHECK(errors[1].code == Code::remote_error);
  CHECK(contains(errors[1].what, "rank 0"));
  CHECK(contains(errors[1].what, "gave up"));
}

TEST_CASE("a root that does not exist is an error soon", "[boot]") {
  IdInfo info = *decode_id(id_for(Path::in_process));
  SECTION("its process is gone") {
    const auto listening = listen_tcp("any", {});
    info.root.addresses = (*parse_address("127.0.0.1:" + std::to_string(listening->port)));
  }
  SECTION("it has no address") { info.root.addresses.clear(); }
  info.secret = {1, 2};
  info.root.process = 12345;  // listens nowhere; the TCP port above is closed by now
  const uint64_t start = now_ns();
  const Joined joined = join({0, 2, {*encode_id(info)}}, config_of(kShort), nullptr);
  REQUIRE_FALSE(joined.ok());
  INFO(joined.error().what);
  CHECK(joined.code() == Code::remote_error);
  CHECK(contains(joined.error().what, "Connection refused"));
  CHECK(now_ns() - start < 3 * kSecond);
}

TEST_CASE("who does not know the secret gets nowhere", "[boot]") {
  const Path path = GENERATE(Path::unix_socket, Path::tcp);
  const UniqueId id = id_for(path);
  IdInfo forged = *decode_id(id);
  forged.secret[0] ^= 1;
  // The forger runs into its time limit, and the others never notice.
  const auto errors = outcomes({{0, 2, {id}}, {1, 2, {id}}, {1, 2, {*encode_id(forged)}}}, path, kShort);
  CHECK(errors[0].code == Code::success);
  CHECK(errors[1].code == Code::success);
  CHECK(errors[2].code == Code::remote_error);
  INFO(errors[2].what);
  CHECK(contains(errors[2].what, "could not reach the process that made the unique id"));
}

TEST_CASE("strangers on the port do no harm during an init", "[boot]") {
  const UniqueId id = id_for(Path::tcp);
  const int silent = stranger(id), web = stranger(id), noise = stranger(id), half = stranger(id);
  const char* request = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
  CHECK(send(web, request, strlen(request), MSG_NOSIGNAL) > 0);
  std::vector<char> garbage(100000, '\x5a');
  CHECK(send(noise, garbage.data(), garbage.size(), MSG_NOSIGNAL) > 0);
  const Hello hello = *make_hello(public_id(decode_id(id)->secret), 0, 99);  // knows the public name, not the secret
  CHECK(send(half, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
  Challenge challenge;
  CHECK(recv(half, &challenge, sizeof challenge, MSG_WAITALL) == sizeof challenge);
  const Proof false_proof{{1, 2}};
  CHECK(send(half, &false_proof, sizeof false_proof, MSG_NOSIGNAL) == sizeof false_proof);
  for (int i = 0; i < 20; ++i) {  // port scans, some ended by a reset
    const int scan = stranger(id);
    const linger reset{1, 0};
    if (i % 2 == 0) setsockopt(scan, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(scan);
  }
  CHECK(hung_up(web, 3000));
  CHECK(hung_up(noise, 3000));
  CHECK(hung_up(half, 3000));
  const uint64_t start = now_ns();
  std::atomic<int> good{0};
  run_threads(4, [&](int rank) {
    Joined joined = join({rank, 4, {id}}, config_of(settings_of(Path::tcp, rank)), nullptr, hooks_of(Path::tcp, rank));
    if (joined.ok() && gathers(**joined)) ++good;
  });
  CHECK(good == 4);
  CHECK(now_ns() - start < kSecond);  // nobody waited for the silent one
  for (const int fd : {silent, web, noise, half}) close(fd);
}

TEST_CASE("a process that is not the one that was wanted is not taken for it", "[boot]") {
  // Another process of the same job may listen at an address that means nothing here (a container bridge, say).
  const UniqueId id = id_for(Path::tcp);
  IdInfo info = *decode_id(id);
  const int fd = stranger(id);
  const Hello hello = *make_hello(public_id(info.secret), info.root.process + 1, 99);
  CHECK(send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
  Challenge challenge;
  CHECK(recv(fd, &challenge, sizeof challenge, MSG_WAITALL) == sizeof challenge);
  CHECK(challenge.greeting == Greeting::unknown);
  close(fd);
  CHECK(join({0, 1, {id}}, config_of(settings_of(Path::tcp, 0)), nullptr, hooks_of(Path::tcp, 0)).ok());
}
