#include "exec/cuda/flights.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "exec/watch.h"

namespace ronde::gpu {
namespace {

constexpr auto kTick = std::chrono::milliseconds(5);
constexpr uint64_t kLookEvery = kSecond / 10;  ///< between two looks at why a call stands still

uint64_t load(const uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }  // pairs with the kernels' release stores
uint32_t load(const uint32_t& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE); }  // likewise

/// The Works of one launch of one rank.
struct Flight {
  std::vector<std::unique_ptr<Work>> works;
  uint64_t launch = 0;  ///< number of it, as Status::launches counts
};

/// The last Work that ends takes the Completion with it.
struct Landing {
  explicit Landing(int works) : completion(works) {
    completion.on_done = [this] { delete this; };
  }
  Completion completion;
};

/// A rank with Works in flight, in the order of their launches.
struct Airborne {
  GpuRank* rank = nullptr;
  std::shared_ptr<Seat> seat;
  std::deque<Flight> flights;
  uint64_t looked = 0;         ///< when it was last looked at why nothing moves
  std::vector<Stand> stands;   ///< what its teams said then
  bool told = false;           ///< its fault, or the driver's error, has been made an error
  bool stopped = false;        ///< its kernels were told to end
};

std::string text_of(const SlotHeader& header) {
  return describe_call(header.coll_type_op | static_cast<uint64_t>(static_cast<uint32_t>(header.root)) << 32, header.count);
}

/// What a kernel has found wrong with a slot.
Error fault_error(const Seat& seat, const Status& status) {
  const SlotHeader& mine = status.mine;
  const SlotHeader& theirs = status.theirs;
  if (static_cast<Fault>(status.fault) == Fault::bytes) {
    return fail(Code::internal_error, fmt::format("rank {} sent a slot of {} bytes where {} were expected in {}", status.peer, theirs.bytes, mine.bytes, text_of(mine)),
                Scope::communicator);
  }
  std::string text = fmt::format("call number {} does not fit: rank {} called {} and rank {} called {}", mine.sequence, seat.rank(), text_of(mine),
                                 status.peer, text_of(theirs));
  if (theirs.sequence != mine.sequence) text += fmt::format(" (its number {})", theirs.sequence);
  return fail(Code::invalid_usage, text + "; all ranks must issue the same calls in the same order", Scope::communicator);
}

class Watch {
 public:
  /// Never destroyed: it may watch while the process exits.
  static Watch& of_process() {
    static Watch& watch = *new Watch();
    return watch;
  }

  void add(GpuRank* rank, Flight flight) {
    const std::lock_guard lock(mutex_);
    if (!running_) {
      Result<std::thread> thread = start_thread("ronde-gpu", [this] { run(); });
      if (thread.ok()) {
        thread->detach();
        running_ = true;
      } else {
        flight.works.front()->seat->fail_all(thread.error());  // nobody would end the calls
      }
    }
    const auto at = std::find_if(all_.begin(), all_.end(), [&](const Airborne& one) { return one.rank == rank; });
    Airborne& airborne = at != all_.end() ? *at : all_.emplace_back();
    airborne.rank = rank;
    airborne.seat = flight.works.front()->seat;
    airborne.flights.push_back(std::move(flight));
    changed_.notify_all();
  }

  bool wait_landed(const GpuRank* rank, double seconds) {
    std::unique_lock lock(mutex_);
    return landed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
      return std::none_of(all_.begin(), all_.end(), [&](const Airborne& one) { return one.rank == rank; });
    });
  }

 private:
  [[noreturn]] void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return !all_.empty(); });
      for (Airborne& one : all_) watch(one);
      if (std::erase_if(all_, [](const Airborne& one) { return one.flights.empty(); }) != 0) landed_.notify_all();
      if (!all_.empty()) changed_.wait_for(lock, kTick, [] { return false; });
    }
  }

  void watch(Airborne& one) {
    Seat& seat = *one.seat;
    const Status& status = one.rank->status();
    const uint64_t ended = load(status.launches);
    while (!one.flights.empty() && one.flights.front().launch <= ended) end_flight(one, std::nullopt);
    if (one.flights.empty()) return;
    take_mail(seat);
    if (!one.told && load(status.fault) != 0) {
      one.told = true;
      seat.fail_all(fault_error(seat, status));
    }
    const Result<bool> passed = one.rank->last.passed();
    if (!passed.ok() && !one.told) {
      one.told = true;
      seat.fail_all(Error{passed.error().code, Scope::communicator, passed.error().what, passed.error().where});
    }
    if (seat.failed()) {
      if (!one.stopped) one.rank->abort();
      one.stopped = true;
      // Not before its kernels are gone: until then they use what the Works keep.
      while ((!passed.ok() || *passed) && !one.flights.empty()) end_flight(one, seat.error());
      return;
    }
    const uint64_t now = now_ns();
    if (now - one.looked < kLookEvery) return;
    one.looked = now;
    look(one, now);
  }

  void end_flight(Airborne& one, const std::optional<Error>& error) {
    Flight flight = std::move(one.flights.front());
    one.flights.pop_front();
    for (const auto& work : flight.works) one.seat->end_work(*work, error);
  }

  /// Shows the Seat what the kernel of its oldest launch waits for, and has it judged as any other wait.
  void look(Airborne& one, uint64_t now) {
    Flight& flight = one.flights.front();
    const Status& status = one.rank->status();
    const std::vector<Stand> stands(std::begin(status.stands), std::end(status.stands));
    const auto same = [](const Stand& a, const Stand& b) {
      return a.waiting == b.waiting && (a.waiting == 0 || (a.sequence == b.sequence && a.slice == b.slice && a.move == b.move && a.peer == b.peer));
    };
    const bool still = std::equal(stands.begin(), stands.end(), one.stands.begin(), one.stands.end(), same) &&
                       std::any_of(stands.begin(), stands.end(), [](const Stand& s) { return s.waiting != 0; });
    one.stands = stands;
    for (const auto& work : flight.works) {
      if (!still) work->progress_ns = now;
      set_waits(*work, stands);
    }
    if (!still) return;
    Seat& seat = *one.seat;
    {
      const std::lock_guard lock(seat.mutex);
      for (const auto& work : flight.works) seat.active.push_back(work.get());
      look_why(seat, false);
      seat.active.clear();
    }
  }

  static void set_waits(Work& work, const std::vector<Stand>& stands) {
    work.stand.clear();
    for (ronde::Part& part : work.parts) {
      for (ronde::Lane& lane : part.lanes) lane.waits_for = nullptr;
      if (part.lanes.empty()) continue;
      ronde::Lane& lane = part.lanes.front();
      for (const Stand& stand : stands) {
        if (stand.waiting == 0 || stand.sequence != work.call.sequence) continue;
        for (ronde::Port* const port : part.bound->ports) {
          if (port->rank != stand.peer) continue;
          lane.waits_for = port;
          work.stand = fmt::format("channel {} stands before {} rank {} in Move {} of lane {}, pass {}", stand.channel,
                                   stand.outward != 0 ? "a full queue to" : "an empty queue from", stand.peer, stand.move, stand.lane, stand.slice);
        }
      }
    }
  }

  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_, landed_;
  bool running_ = false;
  std::list<Airborne> all_;
};

}  // namespace

void take_off(std::vector<std::unique_ptr<Work>> works, std::vector<GpuRank*> ranks) {
  std::vector<GpuRank*> distinct;
  for (GpuRank* const rank : ranks) {
    if (std::find(distinct.begin(), distinct.end(), rank) == distinct.end()) distinct.push_back(rank);
  }
  for (GpuRank* const rank : distinct) {
    Flight flight;
    flight.launch = rank->launches;
    for (size_t i = 0; i < works.size(); ++i) {
      if (ranks[i] == rank) flight.works.push_back(std::move(works[i]));
    }
    auto* const landing = new Landing(static_cast<int>(flight.works.size()));
    for (const auto& work : flight.works) work->completion = &landing->completion;
    Watch::of_process().add(rank, std::move(flight));
  }
}

bool wait_landed(const GpuRank& rank, double seconds) { return Watch::of_process().wait_landed(&rank, seconds); }

}  // namespace ronde::gpu
