#include "bench/sweep.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>
#include <tuple>

#include "bench/failure.h"
#include "bench/gpu.h"

namespace ronde::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ncclRedOp_t library_op(Op op, const LocalRank& rank) {
  switch (op) {
    case Op::prod:
      return ncclProd;
    case Op::min:
      return ncclMin;
    case Op::max:
      return ncclMax;
    case Op::avg:
      return ncclAvg;
    case Op::mulsum:
      return rank.mulsum;
    default:
      return ncclSum;
  }
}

/// Rows of one table differ in size alone.
bool same_table(const RowSpec& a, const RowSpec& b) { return a.type == b.type && a.op == b.op && a.root == b.root; }

/// One number for the ranks' times, as -a says.
double combined_time(Average how, const std::vector<std::vector<double>>& all) {
  double sum = 0;
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  for (const auto& of_thread : all) {
    sum += of_thread[0];
    least = std::min(least, of_thread[0]);
    most = std::max(most, of_thread[0]);
  }
  switch (how) {
    case Average::rank0:
      return all[0][0];
    case Average::min:
      return least;
    case Average::max:
      return most;
    default:
      return sum / static_cast<double>(all.size());
  }
}

}  // namespace

std::vector<RowSpec> rows_of_sweep(const Collective& collective, const Options& options, int nranks) {
  std::vector<int> roots = {options.root};
  if (!collective.rooted) roots = {0};
  if (collective.rooted && options.root < 0) {
    roots.clear();
    for (int r = 0; r < nranks; ++r) roots.push_back(r);
  }
  std::vector<RowSpec> rows;
  for (const ncclDataType_t type : options.types) {
    for (const Op op : collective.reduces ? options.ops : std::vector<Op>{Op::none}) {
      for (const int root : roots) {
        for (size_t bytes = options.min_bytes; bytes <= options.max_bytes;) {
          rows.push_back({type, op, root, collective.shape(bytes / type_size(type), type_size(type), nranks)});
          const size_t next = options.next_size(bytes);
          if (next <= bytes) break;  // sizes without end, or a single one of 0
          bytes = next;
        }
      }
    }
  }
  return rows;
}

std::pair<size_t, size_t> bytes_for(const std::vector<RowSpec>& rows, const Options& options) {
  size_t send = 0;
  size_t recv = 0;
  for (const RowSpec& row : rows) {
    send = std::max(send, (row.shape.send + options.unalign) * row.element_bytes());
    recv = std::max(recv, (row.shape.larger() + options.unalign) * row.element_bytes());
  }
  return {std::max<size_t>(send, 1), recv + kGuardBytes};
}

Sweep::Sweep(const Collective& collective, const Options& options, const Placement& placement, Ranks& ranks, Team& team,
             Watchdog& dog, Listener listener)
    : collective_(collective),
      options_(options),
      placement_(placement),
      ranks_(ranks),
      team_(team),
      dog_(dog),
      listener_(std::move(listener)),
      rows_(rows_of_sweep(collective, options, placement.nranks)) {
  std::tie(send_bytes_, recv_bytes_) = bytes_for(rows_, options_);
}

std::byte* Sweep::buffer(void* allocated, const RowSpec& row) const {
  return static_cast<std::byte*>(allocated) + options_.unalign * row.element_bytes();
}

void Sweep::run(int thread) {
  const RowSpec* last = nullptr;
  for (const RowSpec& row : rows_) {
    if (thread == 0 && listener_.before_row) listener_.before_row(row);
    if (last == nullptr || !same_table(*last, row)) table_begins(thread, row);
    last = &row;
    Row result;
    result.out_of_place = measure(thread, row, false);
    result.in_place = measure(thread, row, true);
    if (thread != 0) continue;
    totals_.busbw_sum += result.out_of_place.busbw + result.in_place.busbw;
    totals_.busbw_count += 2;
    result.bytes = row.bytes();
    result.count = row.shape.count;
    result.type = row.type;
    result.op = row.op;
    result.root = collective_.rooted ? row.root : -1;
    result.iterations = options_.iterations;
    result.choice = chosen(row);
    if (listener_.after_row) listener_.after_row(result);
  }
  team_.barrier();
  if (thread == 0 && last != nullptr && last->op == Op::mulsum) ranks_.destroy_mulsum();
}

void Sweep::table_begins(int thread, const RowSpec& row) {
  team_.barrier();
  if (thread == 0) {
    // A table's operation belongs to its type; the one before may have had another.
    const auto at = static_cast<size_t>(&row - rows_.data());
    if (at > 0 && rows_[at - 1].op == Op::mulsum) ranks_.destroy_mulsum();
    if (row.op == Op::mulsum) ranks_.create_mulsum(row.type);
  }
  team_.local_barrier();
  // Every page is touched before anything is timed, with numbers of the type.
  const Inputs numbers(row.type, row.op, placement_.nranks, 0);
  for (int i = first_of(thread); i < end_of(thread); ++i) {
    const LocalRank& rank = ranks_[i];
    numbers.input(rank.rank, 0, send_bytes_ / row.element_bytes(), rank.seen(rank.send));
    numbers.input(rank.rank, 0, recv_bytes_ / row.element_bytes(), rank.seen(rank.recv));
    rank.take(rank.send, send_bytes_);
    rank.take(rank.recv, recv_bytes_);
  }
  const auto this_table = std::find_if(rows_.begin(), rows_.end(), [&](const RowSpec& other) { return &other == &row; });
  const auto table_end = std::find_if(this_table, rows_.end(), [&](const RowSpec& other) { return !same_table(other, row); });
  warm_up(thread, *(table_end - 1));
  warm_up(thread, row);
}

void Sweep::warm_up(int thread, const RowSpec& row) {
  for (int i = 0; i < options_.warmups; ++i) start(thread, row, false, static_cast<size_t>(i), options_.aggregated);
  complete(thread);
}

Half Sweep::measure(int thread, const RowSpec& row, bool in_place) {
  const Timing timing = time(thread, row, in_place);
  std::optional<Checks> checks;
  if (options_.checks > 0 && (!in_place || collective_.checks_in_place)) {
    checks.emplace();
    for (int i = 0; i < options_.checks; ++i) {
      const Checks one = check(thread, row, in_place);
      checks->wrong += one.wrong;
      checks->failed += one.failed;
    }
  }
  return combined(thread, row, timing, checks);
}

Half Sweep::combined(int thread, const RowSpec& row, const Timing& timing, const std::optional<Checks>& checks) {
  const Checks mine = checks.value_or(Checks{});
  std::vector<double> numbers = {timing.seconds, mine.wrong, mine.failed};
  numbers.insert(numbers.end(), timing.iterations.begin(), timing.iterations.end());
  const auto all = team_.all_gather(thread, numbers);
  Half half;
  const double seconds = combined_time(options_.average, all);
  const Traffic traffic = collective_.traffic(row.shape, row.element_bytes(), placement_.nranks);
  half.microseconds = seconds * 1e6;
  half.algbw = seconds > 0 ? traffic.bytes / seconds * 1e-9 : 0;
  half.busbw = half.algbw * traffic.factor;
  double wrong = 0;
  for (const auto& of_thread : all) {
    wrong += of_thread[1];
    if (thread == 0) totals_.failed_checks += static_cast<uint64_t>(of_thread[2]);
  }
  if (checks) half.wrong = static_cast<uint64_t>(wrong);
  if (!timing.iterations.empty()) {
    // An iteration takes as long as its slowest rank.
    std::vector<double> slowest(timing.iterations.size());
    for (const auto& of_thread : all) {
      for (size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], of_thread[3 + i]);
    }
    half.iterations = iteration_times(slowest);
  }
  return half;
}

Sweep::Timing Sweep::time(int thread, const RowSpec& row, bool in_place) {
  start(thread, row, in_place, 0, 1);
  complete(thread);
  team_.barrier();
  Timing timing;
  const auto started = Clock::now();
  double host_only = 0;  // time to enqueue
  for (int i = 0; i < options_.iterations; ++i) {
    const auto one_started = Clock::now();
    host_only += timed_iteration(thread, row, in_place, static_cast<size_t>(i));
    if (options_.per_iteration && i >= options_.per_iteration_skip) timing.iterations.push_back(seconds_since(one_started) * 1e6);
  }
  complete(thread);
  const double whole = options_.cpu_time ? host_only : seconds_since(started);
  timing.seconds = whole / options_.iterations / options_.aggregated;
  team_.barrier();
  return timing;
}

double Sweep::timed_iteration(int thread, const RowSpec& row, bool in_place, size_t number) {
  double host_only = 0;
  const bool each = options_.blocking == 1 || options_.blocking == 2;
  const int groups = each ? options_.aggregated : 1;
  for (int i = 0; i < groups; ++i) {
    const auto started = Clock::now();
    start(thread, row, in_place, number * static_cast<size_t>(options_.aggregated), each ? 1 : options_.aggregated);
    host_only += seconds_since(started);
    if (each) complete(thread);
    if (options_.blocking == 1) team_.barrier();
  }
  if (options_.per_iteration || options_.blocking == 3) complete(thread);
  if (options_.blocking == 3) team_.barrier();
  return host_only;
}

void Sweep::start(int thread, const RowSpec& row, bool in_place, size_t number, int operations) {
  const int steps = collective_.steps(placement_.nranks);
  if (steps == 1) return start_group(thread, row, in_place, number, operations, 0);
  // Each step needs what the one before has brought.
  for (int i = 0; i < operations; ++i) {
    for (int step = 0; step < steps; ++step) start_group(thread, row, in_place, number, 1, step);
  }
}

void Sweep::start_group(int thread, const RowSpec& row, bool in_place, size_t number, int operations, int step) {
  const Watchdog::Step guard(dog_, thread);
  const bool grouped = options_.ranks_per_thread > 1 || operations > 1;
  if (grouped) bench::check(ncclGroupStart(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  ncclComm_t failed = nullptr;
  for (int i = first_of(thread); i < end_of(thread) && result == ncclSuccess; ++i) {
    for (int n = 0; n < operations && result == ncclSuccess; ++n) {
      Call call = call_of(ranks_[i], row, in_place, number + static_cast<size_t>(n));
      call.step = step;
      result = collective_.start(call);
      if (result != ncclSuccess) failed = call.comm;
    }
  }
  const ncclResult_t ended = grouped ? ncclGroupEnd() : ncclSuccess;
  const std::string name(collective_.name);
  bench::check(result, name.c_str(), failed);
  bench::check(ended, (name + " (ncclGroupEnd)").c_str());
}

void Sweep::complete(int thread) {
  const Watchdog::Step guard(dog_, thread);
  for (int i = first_of(thread); i < end_of(thread); ++i) {
    LocalRank& rank = ranks_[i];
    if (rank.device >= 0) {
      wait_for(rank);
    } else if (rank.stream != nullptr) {
      bench::check(rondeStreamSynchronize(rank.stream), "rondeStreamSynchronize", rank.comm);
    }
    ncclResult_t state = ncclSuccess;
    bench::check(ncclCommGetAsyncError(rank.comm, &state), "ncclCommGetAsyncError", rank.comm);
    bench::check(state, "a communicator has failed", rank.comm);
  }
}

void Sweep::wait_for(const LocalRank& rank) {
  while (!gpu::idle(rank.stream)) {
    ncclResult_t state = ncclSuccess;
    bench::check(ncclCommGetAsyncError(rank.comm, &state), "ncclCommGetAsyncError", rank.comm);
    bench::check(state, "a communicator has failed", rank.comm);
    std::this_thread::yield();
  }
}

Call Sweep::call_of(const LocalRank& rank, const RowSpec& row, bool in_place, size_t number) const {
  const size_t size = row.element_bytes();
  const size_t larger = row.shape.larger() * size;
  // Iterations move over the buffers, so that small ones do not find all of their data in the cache.
  const size_t used = options_.unalign * size;
  const size_t places_to_send = (send_bytes_ - used) / std::max<size_t>(1, row.shape.send * size);
  const size_t places_to_recv = (recv_bytes_ - kGuardBytes - used) / std::max<size_t>(1, larger);
  const size_t place = number % std::max<size_t>(1, std::min(places_to_send, places_to_recv));
  std::byte* send = buffer(rank.send, row) + place * row.shape.send * size;
  std::byte* recv = buffer(rank.recv, row) + place * (in_place ? larger : row.shape.recv * size);
  Call call;
  if (in_place) {
    call.send = recv + static_cast<size_t>(rank.rank) * row.shape.send_offset * size;
    call.recv = recv + static_cast<size_t>(rank.rank) * row.shape.recv_offset * size;
  } else {
    call.send = send;
    call.recv = recv;
  }
  call.count = row.shape.count;
  call.type = row.type;
  call.op = library_op(row.op, rank);
  call.root = row.root;
  call.comm = rank.comm;
  call.stream = rank.stream;
  call.rank = rank.rank;
  call.nranks = placement_.nranks;
  return call;
}

Sweep::Checks Sweep::check(int thread, const RowSpec& row, bool in_place) {
  team_.local_barrier();
  if (thread == 0) {
    inputs_ = std::make_unique<Inputs>(row.type, row.op, placement_.nranks, ++seed_);
    std::vector<Checked> local;
    for (const LocalRank& rank : ranks_.all()) {
      const Call call = call_of(rank, row, in_place, 0);
      std::byte* end = buffer(rank.recv, row) + (in_place ? row.shape.larger() : row.shape.recv) * row.element_bytes();
      local.push_back({rank.rank, in_place ? nullptr : rank.seen(call.send), rank.seen(call.recv), rank.seen(end)});
    }
    verifier_ =
        std::make_unique<Verifier>(collective_, row.shape, *inputs_, row.type, placement_.nranks, row.root, std::move(local));
  }
  team_.local_barrier();
  prepare_check(thread, row, in_place);
  team_.barrier();
  start(thread, row, in_place, 0, 1);
  complete(thread);
  team_.barrier();
  bring_results(thread, row, in_place);
  team_.local_barrier();
  verifier_->run(thread, team_.threads());
  team_.local_barrier();
  Checks checks;
  for (int i = first_of(thread); i < end_of(thread); ++i) {
    const uint64_t wrong = verifier_->wrong(static_cast<size_t>(i));
    checks.wrong += static_cast<double>(wrong);
    if (wrong > 0 && listener_.wrong_data) {
      listener_.wrong_data(fmt::format("{} {} {} of {} bytes, {}: {}", collective_.name, type_name(row.type), op_name(row.op),
                                       row.bytes(), in_place ? "in place" : "out of place",
                                       verifier_->first_wrong(static_cast<size_t>(i))));
    }
  }
  checks.failed = checks.wrong > 0 ? 1 : 0;
  return checks;
}

void Sweep::prepare_check(int thread, const RowSpec& row, bool in_place) {
  for (int i = first_of(thread); i < end_of(thread); ++i) {
    const LocalRank& rank = ranks_[i];
    const Call call = call_of(rank, row, in_place, 0);
    const size_t region = (in_place ? row.shape.larger() : row.shape.recv) * row.element_bytes();
    std::memset(rank.seen(buffer(rank.recv, row)), kJunk, region + kGuardBytes);
    inputs_->input(rank.rank, 0, row.shape.send, rank.seen(call.send));
    rank.take(buffer(rank.recv, row), region + kGuardBytes);
    rank.take(const_cast<void*>(call.send), row.shape.send * row.element_bytes());
  }
}

void Sweep::bring_results(int thread, const RowSpec& row, bool in_place) {
  for (int i = first_of(thread); i < end_of(thread); ++i) {
    const LocalRank& rank = ranks_[i];
    const Call call = call_of(rank, row, in_place, 0);
    rank.bring(buffer(rank.recv, row), (in_place ? row.shape.larger() : row.shape.recv) * row.element_bytes() + kGuardBytes);
    if (!in_place) rank.bring(call.send, row.shape.send * row.element_bytes());
  }
}

Choice Sweep::chosen(const RowSpec& row) {
  const LocalRank& rank = ranks_[0];
  int root = row.root;
  if (collective_.call == rondeSend) root = collective_.power_of_two ? rank.rank ^ 1 : (rank.rank + 1) % placement_.nranks;
  if (root >= placement_.nranks) root = 0;
  rondeChoice_t choice{};
  choice.size = sizeof choice;
  const ncclResult_t result =
      rondeExplain(rank.comm, collective_.call, row.shape.count, row.type, library_op(row.op, rank), root, &choice);
  if (result != ncclSuccess) return {"unknown", "unknown", "unknown", 0};
  return {choice.algorithm, choice.protocol, choice.transport, choice.channels};
}

}  // namespace ronde::bench
