#include "tools/info/pairs.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "base/config.h"
#include "base/fd.h"
#include "boot/unique_id.h"
#include "ronde.h"
#include "transport/fabric.h"

namespace ronde::info {
namespace {

constexpr int kThreads = 2;  // of each of two processes
constexpr int kMostRanks = 4096;

/// A Pair as it travels.
struct Line {
  char transport[16];
  char why[240];
};

void put(char* to, size_t size, std::string_view text) {
  const size_t n = std::min(size - 1, text.size());
  std::memcpy(to, text.data(), n);
  to[n] = 0;
}

/// What one rank finds, and from it what all find.
Result<std::vector<Pair>> ask(const Party& party, int rank, const std::shared_ptr<const Config>& config) {
  AbortWord abort;
  RONDE_TRY(const std::unique_ptr<Bootstrap> bootstrap, join(JoinRequest{rank, party.ranks, {party.id}}, config, &abort));
  FabricRequest request;
  request.bootstrap = bootstrap.get();
  request.config = config;
  request.abort = &abort;
  request.on_death = [](int, const std::string&) {};
  RONDE_TRY(const std::unique_ptr<Fabric> fabric, Fabric::make(std::move(request)));
  const auto n = static_cast<size_t>(party.ranks);
  std::vector<Line> lines(n * n);
  for (size_t to = 0; to < n; ++to) {
    Line& line = lines[static_cast<size_t>(rank) * n + to];
    const std::string_view transport = fabric->transport(static_cast<int>(to));
    std::string why = fabric->describe(static_cast<int>(to));
    if (why.rfind(transport, 0) == 0 && why.size() > transport.size() + 2) why.erase(0, transport.size() + 2);  // "shm: "
    put(line.transport, sizeof line.transport, transport);
    put(line.why, sizeof line.why, why);
  }
  RONDE_TRY(bootstrap->all_gather(std::as_writable_bytes(std::span(lines))));
  fabric->close();
  std::vector<Pair> pairs;
  for (size_t i = 0; i < lines.size(); ++i) {
    pairs.push_back({static_cast<int>(i / n), static_cast<int>(i % n), lines[i].transport, lines[i].why});
  }
  return pairs;
}

/// A variable as a number within bounds; nothing where it is not set.
Result<std::optional<int>> number(const char* name, int low, int high) {
  const char* text = process_variable(name);
  if (text == nullptr) return std::optional<int>();
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error == std::errc() && stop == end && value >= low && value <= high) return std::optional(value);
  return fail(Code::invalid_usage, fmt::format("{}=\"{}\": expected a whole number from {} to {}", name, text, low, high));
}

Result<> write_all(int fd, const UniqueId& id) {
  const ssize_t n = write(fd, id.bytes.data(), id.bytes.size());
  if (n == static_cast<ssize_t>(id.bytes.size())) return {};
  return fail(Code::system_error, fmt::format("handing the unique id to a child process: {}", std::strerror(errno)));
}

/// The child: takes the id, joins, says nothing. What goes wrong the parent finds as well.
[[noreturn]] void be_child(UniqueFd from) {
  Party party{{}, kThreads, kThreads, 2 * kThreads};
  const ssize_t n = read(from.get(), party.id.bytes.data(), party.id.bytes.size());
  if (n == static_cast<ssize_t>(party.id.bytes.size())) (void)connect_all(party, current_config()).ok();
  _exit(0);
}

}  // namespace

Result<std::vector<Pair>> connect_all(const Party& party, std::shared_ptr<const Config> config) {
  std::vector<Result<std::vector<Pair>>> found(static_cast<size_t>(party.here), std::vector<Pair>());
  std::vector<std::thread> threads;
  for (int i = 0; i < party.here; ++i) {
    threads.emplace_back([&, i] { found[static_cast<size_t>(i)] = ask(party, party.first + i, config); });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& one : found) {
    if (!one.ok()) return std::move(one);
  }
  return std::move(found.front());
}

Result<std::vector<Pair>> connect_two_processes() {
  int ends[2];
  if (pipe(ends) != 0) return fail(Code::system_error, fmt::format("a pipe to a child process: {}", std::strerror(errno)));
  UniqueFd from(ends[0]), to(ends[1]);
  const pid_t child = fork();
  if (child < 0) return fail(Code::system_error, fmt::format("starting a child process: {}", std::strerror(errno)));
  if (child == 0) {
    to.reset();
    be_child(std::move(from));
  }
  from.reset();
  const auto config = current_config();
  const auto job = [&]() -> Result<std::vector<Pair>> {
    RONDE_TRY(const UniqueId id, make_unique_id(*config));
    RONDE_TRY(write_all(to.get(), id));
    return connect_all({id, 0, kThreads, 2 * kThreads}, config);
  };
  Result<std::vector<Pair>> pairs = job();
  to.reset();
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return pairs;
}

Result<Party> launched() {
  Party party;
  RONDE_TRY(const std::optional<int> size, number("WORLD_SIZE", 1, kMostRanks));
  RONDE_TRY(const std::optional<int> rank, number("RANK", 0, kMostRanks - 1));
  RONDE_TRY(const std::optional<int> port, number("MASTER_PORT", 1, 65535));
  const char* host = process_variable("MASTER_ADDR");
  if (!size && !rank) return party;
  if (!size || !rank || !port || host == nullptr || *rank >= *size) {
    return fail(
        Code::invalid_usage,
        "RANK (below WORLD_SIZE), WORLD_SIZE, MASTER_ADDR and MASTER_PORT make a process one of many: set all, as ronde-run "
        "does, or none");
  }
  party.first = *rank;
  party.ranks = *size;
  IdInfo info;
  info.fixed = fmt::format("{}:{}", host, *port);
  info.version = RONDE_VERSION_CODE;
  info.protocol = kBootProtocol;
  RONDE_TRY(party.id, encode_id(info));
  return party;
}

}  // namespace ronde::info
