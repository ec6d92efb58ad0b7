// ronde-fifo: latency and rate of each transport alone, with what limits it beside it.
#include <fmt/core.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "tools/fifo/line.h"

namespace ronde::fifo_tool {

Result<> Board::wait(const std::atomic<uint32_t>& flag) const {
  while (flag.load() == 0) {
    if (failed.load() != 0) return fail(Code::remote_error, error);
    sched_yield();
  }
  return {};
}

Result<> Board::meet() {
  const uint32_t now = round.load();
  if (arrived.fetch_add(1) + 1 == 2) {
    arrived.store(0);
    round.fetch_add(1);
    return {};
  }
  while (round.load() == now) {
    if (failed.load() != 0) return fail(Code::remote_error, error);
    sched_yield();
  }
  return {};
}

void Board::fail_with(const Error& why) {
  if (failed.load() != 0) return;
  std::snprintf(error, sizeof error, "%s", why.what.c_str());
  failed.store(1);
}

namespace {

constexpr const char* kAbout =
    "Latency and rate of each transport alone, between two parties on this host. inproc and shm: slots of a connection between "
    "two ranks, "
    "filled and emptied by copies; net: the same between hosts, so over the network that is chosen, here through this host's own interface; socket: messages of the network Socket over the loopback interface. Beside them what limits "
    "them: plain, a "
    "copy over as many plain sockets; memory, copies by two processes that have nothing to do with each other. us: half of a "
    "round trip (memory: "
    "one copy). GB/s: what each party sends while it receives as much. Medians.\n"
    "Example: ronde-fifo -b 8 -e 4194304 socket plain";

struct Order {
  std::vector<std::string> kinds{"inproc", "shm", "net", "socket", "plain", "memory"};
  size_t least = 8;
  size_t most = 4 << 20;
  size_t factor = 8;
  int sockets = 1;
  int rounds = 5;
};

struct Figure {
  double micros = 0;
  double rate = 0;  ///< GB/s
};

Result<std::unique_ptr<Line>> make_line(const std::string& kind, int party, int sockets, Board& board) {
  if (kind == "socket") return make_net_line(party, sockets, board);
  if (kind == "plain") return make_socket_line(party, sockets, board);
  if (kind == "memory") return make_memory_line();
  return make_fabric_line(party, kind == "net", board);
}

/// Calls `step` until it has done something.
template <class Step>
Result<> insist(Line& line, const Board& board, Step&& step) {
  while (true) {
    RONDE_TRY(const bool moved, step());
    if (moved) return {};
    if (board.failed.load() != 0) return fail(Code::remote_error, board.error);
    RONDE_TRY(line.idle());
  }
}

Result<> ping_pong(Line& line, const Board& board, int party, size_t count) {
  // A large message is not taken at once, and while this party waits for the answer nobody would push the rest.
  const auto send = [&]() -> Result<> {
    RONDE_TRY(insist(line, board, [&] { return line.send(); }));
    return insist(line, board, [&] { return line.flushed(); });
  };
  const auto receive = [&] { return insist(line, board, [&] { return line.receive(); }); };
  for (size_t i = 0; i < count; ++i) {
    if (party == 0) RONDE_TRY(send());
    RONDE_TRY(receive());
    if (party == 1) RONDE_TRY(send());
  }
  return {};
}

Result<> stream(Line& line, const Board& board, size_t count) {
  size_t sent = 0, came = 0;
  while (sent < count || came < count) {
    bool moved = false;
    if (sent < count) {
      RONDE_TRY(const bool accepted, line.send());
      sent += accepted ? 1 : 0;
      moved |= accepted;
    }
    if (came < count) {
      RONDE_TRY(const bool received, line.receive());
      came += received ? 1 : 0;
      moved |= received;
    }
    if (moved) continue;
    if (board.failed.load() != 0) return fail(Code::remote_error, board.error);
    RONDE_TRY(line.flushed());
    RONDE_TRY(line.idle());
  }
  return insist(line, board, [&] { return line.flushed(); });
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// All sizes over one line. What the other party takes is much the same.
Result<std::vector<Figure>> measure(const std::string& kind, int party, const std::vector<size_t>& sizes, const Order& order,
                                    Board& board) {
  RONDE_TRY(const std::unique_ptr<Line> line, make_line(kind, party, order.sockets, board));
  std::vector<Figure> figures;
  for (const size_t bytes : sizes) {
    RONDE_TRY(line->prepare(bytes));
    const size_t trips = std::clamp<size_t>((size_t{32} << 20) / bytes, 8, 2000);
    const size_t count = std::clamp<size_t>((size_t{256} << 20) / bytes, 16, 20000);
    std::vector<double> micros, rates;
    for (int round = -1; round < order.rounds; ++round) {  // the first one warms up
      RONDE_TRY(board.meet());
      uint64_t begin = now_ns();
      RONDE_TRY(ping_pong(*line, board, party, trips));
      const double trip = static_cast<double>(now_ns() - begin) / 1e3 / static_cast<double>(trips);
      RONDE_TRY(board.meet());
      begin = now_ns();
      RONDE_TRY(stream(*line, board, count));
      const double nanos = static_cast<double>(now_ns() - begin);
      if (round < 0) continue;
      micros.push_back(kind == "memory" ? trip : trip / 2);  // there a trip is one copy
      rates.push_back(static_cast<double>(bytes) * static_cast<double>(count) / nanos);
    }
    figures.push_back({median(micros), median(rates)});
  }
  RONDE_TRY(board.meet());  // nobody leaves while the other is still at it
  return figures;
}

/// Runs both parties: as threads, or, since the library must not be used on both sides of a fork, this process and a child before
/// it was.
Result<std::vector<Figure>> run(const std::string& kind, const std::vector<size_t>& sizes, const Order& order) {
  void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_failure(errno, "sharing memory between two parties");
  Board& board = *new (memory) Board;
  const auto other = [&] {
    const auto done = measure(kind, 1, sizes, order, board);
    if (!done.ok()) board.fail_with(done.error());
  };
  const bool threads = kind == "inproc";
  std::thread thread;
  pid_t child = 0;
  if (threads) {
    thread = std::thread(other);
  } else if ((child = fork()) == 0) {
    other();
    _exit(0);
  }
  if (child < 0) return system_failure(errno, "starting a child process");
  Result<std::vector<Figure>> figures = measure(kind, 0, sizes, order, board);
  if (!figures.ok()) board.fail_with(figures.error());
  if (threads) {
    thread.join();
  } else {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  }
  munmap(memory, sizeof(Board));
  return figures;
}

/// A child of its own for each kind: what one leaves in the process is nothing to the next.
Result<std::vector<Figure>> run_apart(const std::string& kind, const std::vector<size_t>& sizes, const Order& order) {
  int ends[2];
  if (pipe(ends) != 0) return system_failure(errno, "a pipe to a child process");
  UniqueFd from(ends[0]), to(ends[1]);
  const pid_t child = fork();
  if (child < 0) return system_failure(errno, "starting a child process");
  if (child == 0) {
    const auto figures = run(kind, sizes, order);
    if (!figures.ok()) std::fprintf(stderr, "ronde-fifo: %s: %s\n", kind.c_str(), figures.error().what.c_str());
    const size_t bytes = sizes.size() * sizeof(Figure);
    _exit(figures.ok() && write(to.get(), figures->data(), bytes) == static_cast<ssize_t>(bytes) ? 0 : 1);
  }
  to.reset();
  std::vector<Figure> figures(sizes.size());
  const ssize_t n = read(from.get(), figures.data(), figures.size() * sizeof(Figure));
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  if (n != static_cast<ssize_t>(figures.size() * sizeof(Figure))) return fail(Code::system_error, kind + ": no figures");
  return figures;
}

int tell(const Order& order) {
  std::vector<size_t> sizes;
  for (size_t bytes = order.least; bytes <= order.most; bytes *= order.factor) sizes.push_back(bytes);
  std::string head = "|     size |";
  std::string rule = "|---|";
  std::vector<std::vector<Figure>> columns;
  for (const std::string& kind : order.kinds) {
    auto figures = run_apart(kind, sizes, order);
    if (!figures.ok()) return 1;
    columns.push_back(*figures);
    head += fmt::format(" {:>9} us | {:>7} GB/s |", kind, kind);
    rule += "---|---|";
  }
  std::printf("%s\n%s\n", head.c_str(), rule.c_str());
  for (size_t row = 0; row < sizes.size(); ++row) {
    std::string line = fmt::format("| {:>8} |", sizes[row]);
    for (const auto& column : columns) line += fmt::format(" {:>12.2f} | {:>12.2f} |", column[row].micros, column[row].rate);
    std::printf("%s\n", line.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace ronde::fifo_tool

int main(int argc, char** argv) {
  using namespace ronde::fifo_tool;
  CLI::App app(kAbout, "ronde-fifo");
  Order order;
  app.add_option("kinds", order.kinds, "what to measure: inproc, shm, net, socket, plain, memory; all where none is named")
      ->check(CLI::IsMember({"inproc", "shm", "net", "socket", "plain", "memory"}));
  app.add_option("-b", order.least, "least size in bytes")->check(CLI::Range(size_t{1}, kMostBytes))->capture_default_str();
  app.add_option("-e", order.most, "largest size in bytes")->check(CLI::Range(size_t{1}, kMostBytes))->capture_default_str();
  app.add_option("-f", order.factor, "from one size to the next")->check(CLI::Range(2, 1024))->capture_default_str();
  app.add_option("-k", order.sockets, "sockets of a connection, of socket and plain")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("-r", order.rounds, "rounds of which the median counts")->check(CLI::Range(1, 1000))->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return tell(order);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ronde-fifo: %s\n", error.what());
    return 1;
  }
}
