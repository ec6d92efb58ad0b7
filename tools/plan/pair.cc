#include "tools/plan/pair.h"

#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "kernels/cpu/reduce.h"

namespace ronde::plan::tool {
namespace {

constexpr size_t kPiece = 65536;  // bytes that are moved at once: a slot of the default settings
constexpr uint64_t kSlots = 4;
constexpr int kThrows = 50;       // of the ball, there and back, in one look at how far the cores are apart
constexpr int kLooks = 3;         // of which the quickest counts

/// Ends the calling rank; the other one sees it at its next wait.
struct Stop {};

class Rank {
 public:
  Rank(Board& board, int rank, HopKind kind, size_t most) : board_(board), rank_(rank), kind_(kind), most_(most) {}
  ~Rank() {
    for (const auto& comm : {pair_, sliced_}) {
      if (comm != nullptr) ncclCommAbort(comm);
    }
    for (const int fd : socket_) {
      if (fd >= 0) close(fd);
    }
    for (std::byte* const buffer : {send_, recv_, kept_}) {
      if (buffer != nullptr) munmap(buffer, most_);
    }
  }
  Rank(const Rank&) = delete;

  void run(const std::vector<Task>& tasks, const Samples& samples) {
    prepare();
    double before = latency();
    for (int round = -1; round < samples.rounds() && board_.over.load() == 0; ++round) {
      for (size_t t = 0; t < tasks.size(); ++t) {
        const double nanos = time(tasks[t]);
        const double after = latency();
        if (round >= 0) samples.at(rank_, t, round) = {nanos, moved(before, after) ? -after : after};
        before = after;
      }
      if (rank_ == 0 && samples.enough()) board_.over.store(1);
      meet();  // at the end, too: nobody leaves while the other may still read its memory
    }
  }

  void fail(const std::string& what) {
    uint32_t none = 0;
    if (board_.failed.compare_exchange_strong(none, 1)) {
      const std::string text = fmt::format("rank {}: {}", rank_, what);
      memcpy(board_.what, text.c_str(), std::min(text.size(), sizeof board_.what - 1));
      board_.failed.store(2);
    }
    throw Stop{};
  }

 private:
  void check(ncclResult_t result, const char* what) {
    if (result != ncclSuccess) fail(fmt::format("{}: {}", what, ncclGetLastError(nullptr)));
  }

  std::byte* buffer() {
    void* const at = mmap(nullptr, most_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail(fmt::format("allocating {} bytes: {}", most_, strerror(errno)));
    memset(at, rank_ + 1, most_);
    return static_cast<std::byte*>(at);
  }

  ncclComm_t join(int ranks, int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    check(ncclCommInitRank(&comm, ranks, id, rank), "ncclCommInitRank");
    return comm;
  }

  /// A core of its own for each rank: where others keep the cores busy, both would share one for a while, and nothing would be
  /// handed between cores.
  void pin() {
    cpu_set_t usable, own;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) < kRanks) return;
    int cpu = -1;
    for (int passed = -1; passed < rank_;) passed += CPU_ISSET(++cpu, &usable) ? 1 : 0;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof own, &own);  // a wish: where it is refused, the measurement is only less steady
  }

  void prepare() {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // where ptrace is restricted to ancestors, so would reading memory be
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socket_) != 0)
      fail(fmt::format("making a pair of sockets: {}", strerror(errno)));
    send_ = buffer();
    recv_ = buffer();
    kept_ = buffer();
    const auto table = choose_reduce_table("");
    if (!table.ok()) fail(table.error().what);
    sum_ = (*table)->fn[static_cast<int>(DataType::float32)][static_cast<int>(ReduceOp::sum)];
    board_.pid[rank_] = getpid();
    board_.from[rank_] = send_;
    board_.fresh[rank_] = recv_;
    if (rank_ == 0) {
      for (ncclUniqueId& id : board_.ids) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    }
    meet();
    pair_ = join(kRanks, rank_, board_.ids[0]);
    meet();
    const bool sets = rank_ == 0 || kind_ == HopKind::shm;
    if (sets) {
      setenv("RONDE_SLICE", "64", 1);
      setenv("RONDE_LEND_THRESHOLD", "0", 1);
    }
    meet();
    sliced_ = join(kRanks, rank_, board_.ids[1]);
    meet();
    pin();  // now that the library's own threads are there, which may run anywhere
    if (sets) {
      unsetenv("RONDE_SLICE");
      unsetenv("RONDE_LEND_THRESHOLD");
    }
  }

  /// Both ranks go on at the same time.
  void meet() {
    const uint32_t round = board_.round.load();
    if (board_.arrived.fetch_add(1) == kRanks - 1) {
      board_.arrived.store(0);
      board_.round.store(round + 1);
      return;
    }
    wait([&] { return board_.round.load() != round; });
  }
  template <class Ready>
  void wait(Ready ready) {
    for (uint64_t looks = 0; !ready(); ++looks) {
      if (board_.failed.load() != 0) throw Stop{};
      if (looks > 2000) sched_yield();
    }
  }

  /// ns for a word from one core to the other.
  double latency() {
    uint64_t least = UINT64_MAX;
    meet();
    for (int look = 0; look < kLooks; ++look) {
      const uint64_t start = now_ns();
      for (int i = 0; i < kThrows; ++i, throws_ += 2) {
        if (rank_ == 0) board_.ball.value.store(throws_ + 1);
        wait([&] { return board_.ball.value.load() >= throws_ + 1 + static_cast<uint64_t>(1 - rank_); });
        if (rank_ == 1) board_.ball.value.store(throws_ + 2);
      }
      least = std::min(least, now_ns() - start);
    }
    return static_cast<double>(least) / (2 * kThrows);
  }

  double time(const Task& task) {
    const uint64_t repeats = std::clamp<uint64_t>((8u << 20) / std::max<uint64_t>(1, task.bytes), 1, 100);
    const bool hands = task.subject == Subject::work && (task.work == CpuWork::publish || task.work == CpuWork::take);
    const bool takes_part = task.subject != Subject::work || task.both || rank_ == 0 || hands || by_message(task);
    for (uint64_t i = 0; i < (repeats > 1 ? 2 : 1); ++i) {
      if (takes_part) once(task);
    }
    spent_ = other_ = 0;
    meet();
    const uint64_t start = now_ns();
    for (uint64_t i = 0; i < repeats && takes_part; ++i) once(task);
    const uint64_t end = now_ns();
    meet();
    const double all = static_cast<double>(end - start) / static_cast<double>(repeats);
    if (!hands) return all;
    if (!task.both) return static_cast<double>(spent_) / static_cast<double>(repeats);
    // Waits for each other are part of what handing over takes: shared out between the two parts.
    return all * static_cast<double>(spent_) / static_cast<double>(std::max<uint64_t>(1, spent_ + other_));
  }

  /// What a rank reads of a peer's memory is read by the library itself, a slot at a time and between looks at counters: in one
  /// sweep it would be up to twice as fast.
  static bool by_message(const Task& task) {
    return task.subject == Subject::work && task.work == CpuWork::pull && task.bytes >= kPiece / 2;
  }

  void once(const Task& task) {
    if (by_message(task)) return message(task.bytes / sizeof(float), task.both || rank_ == 1, task.both || rank_ == 0, pair_);
    if (task.work >= CpuWork::publish && task.subject == Subject::work) return hand_over(task);
    if (task.subject == Subject::work) return piecewise(task);
    call(task, task.subject == Subject::slots ? sliced_ : pair_);
  }

  void call(const Task& task, ncclComm_t comm) {
    const size_t count = task.bytes / sizeof(float);
    const size_t half = count / kRanks;
    switch (task.coll) {
      case Coll::all_reduce:
        return check(ncclAllReduce(send_, recv_, count, ncclFloat, ncclSum, comm, nullptr), "ncclAllReduce");
      case Coll::broadcast:
        return check(ncclBroadcast(send_, recv_, count, ncclFloat, 0, comm, nullptr), "ncclBroadcast");
      case Coll::reduce:
        return check(ncclReduce(send_, recv_, count, ncclFloat, ncclSum, 0, comm, nullptr), "ncclReduce");
      case Coll::all_gather:
        return check(ncclAllGather(send_, recv_, half, ncclFloat, comm, nullptr), "ncclAllGather");
      case Coll::reduce_scatter:
        return check(ncclReduceScatter(send_, recv_, half, ncclFloat, ncclSum, comm, nullptr), "ncclReduceScatter");
      case Coll::all_to_all:
        return check(ncclAlltoAll(send_, recv_, half, ncclFloat, comm, nullptr), "ncclAlltoAll");
      case Coll::send:
        return message(count, true, true, comm);
      default:
        fail("that call is not measured");
    }
  }

  void message(size_t count, bool sends, bool receives, ncclComm_t comm) {
    check(ncclGroupStart(), "ncclGroupStart");
    if (sends) check(ncclSend(send_, count, ncclFloat, 1 - rank_, comm, nullptr), "ncclSend");
    if (receives) check(ncclRecv(recv_, count, ncclFloat, 1 - rank_, comm, nullptr), "ncclRecv");
    check(ncclGroupEnd(), "ncclGroupEnd");
  }

  /// Where a rank's share lies in both ranks' buffers: in a call, no two ranks fold the same bytes.
  size_t place_of(size_t at, size_t bytes) const {
    const size_t place = (at + static_cast<size_t>(rank_) * (most_ / kRanks)) % most_;
    return place + bytes <= most_ ? place : 0;
  }

  /// What a rank does with a call's data, without the call. Where both read from each other they keep step as in a call: each
  /// piece takes as long as with the slower one.
  void piecewise(const Task& task) {
    const int other = 1 - rank_;
    for (size_t at = 0; at < task.bytes; at += kPiece) {
      const size_t bytes = std::min<size_t>(kPiece, task.bytes - at);
      const size_t from = place_of(at, bytes);
      if (task.both && task.work != CpuWork::copy) {
        board_.steps[rank_].value.store(++steps_);
        wait([&] { return board_.steps[other].value.load() >= steps_; });
      }
      if (task.work == CpuWork::copy) {
        memcpy(recv_ + at, send_ + from, bytes);
      } else if (task.work == CpuWork::pull) {
        read(board_.from[other] + from, recv_ + at, bytes);
      } else {
        const void* sources[2] = {send_ + from, board_.from[other] + from};
        if (kind_ == HopKind::shm) {
          read(board_.from[other] + from, stage_, bytes);
          sources[1] = stage_;
        }
        sum_(recv_ + at, sources, 2, bytes / sizeof(float), Scale{});
      }
    }
  }

  /// A rank copies pieces (both, or rank 0) that the other reads as soon as they are there, a few slots behind. spent_ and
  /// other_ have no waits in them.
  void hand_over(const Task& task) {
    const int other = 1 - rank_;
    const auto timed = [&](bool counts, const auto& act) {
      const uint64_t start = now_ns();
      act();
      (counts ? spent_ : other_) += now_ns() - start;
    };
    for (size_t at = 0; at < task.bytes; at += kPiece) {
      const size_t bytes = std::min<size_t>(kPiece, task.bytes - at);
      if (task.both || rank_ == 0) {
        wait([&] { return published_ < board_.taken[other].value.load() + kSlots; });
        timed(task.work == CpuWork::publish, [&] { memcpy(recv_ + at, send_ + at, bytes); });
        board_.published[rank_].value.store(++published_);
      }
      if (task.both || rank_ == 1) {
        wait([&] { return board_.published[other].value.load() > taken_; });
        timed(task.work == CpuWork::take, [&] { read(board_.fresh[other] + at, kept_ + at, bytes); });
        board_.taken[rank_].value.store(++taken_);
      }
    }
  }

  /// As the transports do it: another process's memory through the kernel, with a look at its socket to know that it still is
  /// that process.
  void read(std::byte* from, std::byte* to, size_t bytes) {
    if (kind_ == HopKind::process) {
      memcpy(to, from, bytes);
      return;
    }
    iovec local{to, bytes};
    iovec remote{from, bytes};
    if (process_vm_readv(board_.pid[1 - rank_], &local, 1, &remote, 1, 0) != static_cast<ssize_t>(bytes)) {
      fail(fmt::format("reading the other process's memory: {}", strerror(errno)));
    }
    pollfd look{socket_[0], POLLRDHUP, 0};
    if (poll(&look, 1, 0) != 0) fail("looking at a socket");
  }

  Board& board_;
  int rank_;
  HopKind kind_;
  size_t most_;
  std::byte *send_ = nullptr, *recv_ = nullptr, *kept_ = nullptr;
  ncclComm_t pair_ = nullptr, sliced_ = nullptr;
  ReduceFn sum_ = nullptr;
  uint64_t published_ = 0, taken_ = 0, steps_ = 0;  ///< pieces, since the start
  uint64_t throws_ = 0;                             ///< of the ball
  uint64_t spent_ = 0, other_ = 0;                  ///< ns: of the task's part, of the other one
  int socket_[2] = {-1, -1};
  alignas(64) std::byte stage_[kPiece] = {};
};

}  // namespace

void live(Board& board, int rank, HopKind kind, const std::vector<Task>& tasks, Samples samples) {
  size_t most = kPiece;
  for (const Task& task : tasks) most = std::max<size_t>(most, task.bytes);
  const auto it = std::make_unique<Rank>(board, rank, kind, most);
  try {
    it->run(tasks, samples);
  } catch (const Stop&) {
  }
}

}  // namespace ronde::plan::tool
