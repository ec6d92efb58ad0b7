#include "comm/group.h"

#include <algorithm>
#include <fmt/core.h>
#include <map>

#include "base/thread.h"
#include "comm/gpu.h"
#include "exec/runner.h"
#include "tune/estimate.h"

namespace ronde {
namespace {

/// Holds every communicator of a group, each entered once.
class Entered {
 public:
  Result<> add(const std::shared_ptr<Communicator>& comm) {
    if (std::find(comms_.begin(), comms_.end(), comm) != comms_.end()) return {};
    RONDE_TRY(comm->enter());
    comms_.push_back(comm);
    return {};
  }
  ~Entered() {
    for (const auto& comm : comms_) comm->leave();
  }
  const std::vector<std::shared_ptr<Communicator>>& comms() const { return comms_; }

 private:
  std::vector<std::shared_ptr<Communicator>> comms_;
};

/// A message to oneself needs its other half in the same group.
Result<> check_self_messages(const std::vector<Op>& ops) {
  std::map<const Communicator*, int> balance;
  for (const Op& op : ops) {
    if ((op.coll == Coll::send || op.coll == Coll::recv) && op.root == op.comm->rank()) {
      balance[op.comm.get()] += op.coll == Coll::send ? 1 : -1;
    }
  }
  for (const auto& [comm, sum] : balance) {
    if (sum == 0) continue;
    return fail(Code::invalid_usage, fmt::format("rank {} has {} {} to itself without the matching {} in the same group", comm->rank(), std::abs(sum),
                                                 sum > 0 ? "Send" : "Recv", sum > 0 ? "Recv" : "Send"));
  }
  return {};
}

/// How many calls before ops[at] on the same communicator are of its kind: collectives, or receives from the same rank.
uint64_t earlier(const std::vector<Op>& ops, size_t at) {
  const Op& op = ops[at];
  return static_cast<uint64_t>(std::count_if(ops.begin(), ops.begin() + static_cast<ptrdiff_t>(at), [&](const Op& other) {
    if (other.comm != op.comm) return false;
    if (op.coll == Coll::recv) return other.coll == Coll::recv && other.root == op.root;
    return other.coll != Coll::send && other.coll != Coll::recv;
  }));
}

/// Whether `sibling` has issued already what ops[at] needs from it.
bool has_issued(Communicator& sibling, const std::vector<Op>& ops, size_t at) {
  Seat& mine = ops[at].comm->seat();
  Seat& theirs = sibling.seat();
  if (ops[at].coll != Coll::recv) return theirs.collectives_issued > mine.collectives_issued + earlier(ops, at);
  const int link = sibling.message_link();
  return theirs.sends_issued(mine.rank(), link) > mine.receives_issued(theirs.rank(), link) + earlier(ops, at);
}

/// One thread drives several ranks of a communicator, and calls one of them alone: the call would wait for the others for ever. Certain only when the
/// process has no other thread that could make their calls.
Result<> check_own_ranks(const std::vector<Op>& ops) {
  for (size_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (op.coll == Coll::send || op.stream != nullptr || !op.comm->blocking() || op.count == 0 || op.comm->gpu_rank() != nullptr) continue;
    for (const auto& sibling : op.comm->siblings_of_this_thread()) {
      const bool in_group = std::any_of(ops.begin(), ops.end(), [&](const Op& other) { return other.comm == sibling; });
      if (in_group || (op.coll == Coll::recv && sibling->rank() != op.root)) continue;
      if (op.comm->another_thread_may_help()) break;
      if (has_issued(*sibling, ops, i)) continue;
      return fail(Code::invalid_usage, fmt::format("{} on rank {} would wait for rank {}, which the same thread drives and which is not in the call's group: call "
                                                   "for all of the thread's ranks between ncclGroupStart and ncclGroupEnd", name_of(op.coll),
                                                   op.comm->rank(), sibling->rank()));
    }
  }
  return {};
}

/// Everything about a group's calls that can be known to be wrong without running them. Enters their communicators.
Result<> check_calls(const std::vector<Op>& ops, Entered* entered) {
  for (const Op& op : ops) {
    if (op.comm->blocking() != ops.front().comm->blocking()) {
      return fail(Code::invalid_argument, "a group may not mix blocking and non-blocking communicators");
    }
    RONDE_TRY(entered->add(op.comm));
  }
  for (const auto& comm : entered->comms()) RONDE_TRY(comm->usable());
  RONDE_TRY(check_self_messages(ops));
  return check_own_ranks(ops);
}

/// How long the calls take together, as they are run: a rank's collectives one after another and its messages beside them; ranks and communicators
/// beside each other; but the work of all is done by the one thread that calls.
Result<uint64_t> group_nanos(const std::vector<Op>& ops) {
  std::map<const Communicator*, uint64_t> in_turn;
  uint64_t longest = 0, busy = 0;
  const auto add = [](uint64_t& sum, uint64_t more) { sum = sum > UINT64_MAX - more ? UINT64_MAX : sum + more; };
  for (const Op& op : ops) {
    const TuneInputs& inputs = op.comm->plans().inputs();
    Estimate one;
    if (op.coll == Coll::send || op.coll == Coll::recv) {
      one = estimate_message(bytes_of(op), inputs);
      longest = std::max(longest, one.nanos);
    } else {
      RONDE_TRY(const Evaluation made, op.comm->plans().evaluate(shape_of(op)));
      one = estimate(shape_of(op), made.choice, inputs);
      uint64_t& sum = in_turn[op.comm.get()];
      add(sum, one.nanos);
      longest = std::max(longest, sum);
    }
    add(busy, one.busy);
  }
  return std::max(longest, busy);
}

/// True when every call of the group on this communicator is a Send: then small ones may return before their Recv.
bool only_sends(const std::vector<Op>& ops, const Communicator* comm) {
  return std::all_of(ops.begin(), ops.end(), [comm](const Op& op) { return op.comm.get() != comm || op.coll == Coll::send; });
}

/// One call on its way, by how it runs: on streams, copied and run by the pool or the next call (eager), else by the calling thread.
struct Planned {
  std::unique_ptr<Work> work;
  std::shared_ptr<HostStream> stream;
  bool eager = false;
  gpu::GpuRank* gpu = nullptr;
  uintptr_t cuda_stream = 0;
};

size_t bytes_of(const Work& work) { return work.parts.front().table.total; }

/// An eager Send owns itself: Work and Completion go when it has been taken.
struct EagerSend {
  std::unique_ptr<Work> work;
  Completion completion{1};
};

void launch_eager(std::unique_ptr<Work> work) {
  auto* self = new EagerSend;
  Port* const port = work->parts.front().bound->ports.front();
  const size_t bytes = bytes_of(*work);
  self->work = std::move(work);
  port->eager_bytes.fetch_add(bytes, std::memory_order_relaxed);  // an account, ordered by nothing
  self->work->completion = &self->completion;
  self->completion.on_done = [self, port, bytes] {
    port->eager_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    delete self;  // the Completion's finish() touches nothing of it after this, and the Seat is kept by who ends the Work
  };
  submit(*self->work->seat, {self->work.get()}, nullptr);
}

/// Whether a Send may return before its Recv, given what else of the group already will.
Result<Planned> plan_send(const Op& op, bool alone, const std::vector<Planned>& before) {
  Planned planned;
  RONDE_TRY(planned.work, make_work(op, false));
  const Port& port = *planned.work->parts.front().bound->ports.front();
  size_t copied = port.eager_bytes.load(std::memory_order_relaxed) + bytes_of(*planned.work);
  for (const Planned& other : before) {
    if (other.eager && other.work->parts.front().bound->ports.front() == &port) copied += bytes_of(*other.work);
  }
  const bool at_once = alone && op.comm->seat().sends_at_once(*planned.work);
  planned.eager = !at_once && copied <= op.comm->config().bytes(Setting::eager_limit);
  planned.work->may_lend = !at_once && !planned.eager;
  if (planned.eager) detach(*planned.work);
  return planned;
}

Result<Planned> plan_op(const Op& op, const std::vector<Op>& ops, const std::vector<Planned>& before) {
  if (op.comm->gpu_rank() != nullptr) {
    Planned planned;
    planned.gpu = op.comm->gpu_rank();
    planned.cuda_stream = op.cuda_stream;
    RONDE_TRY(check_stream(*planned.gpu, reinterpret_cast<cu::CUstream>(op.cuda_stream)));
    RONDE_TRY(planned.work, make_work(op));
    return planned;
  }
  const bool on_stream = op.stream != nullptr || !op.comm->blocking();
  const bool may_be_eager = op.coll == Coll::send && !on_stream && op.root != op.comm->rank() && only_sends(ops, op.comm.get());
  if (may_be_eager) return plan_send(op, ops.size() == 1, before);
  Planned planned;
  if (on_stream) planned.stream = op.stream != nullptr ? op.stream : op.comm->own_stream();
  RONDE_TRY(planned.work, make_work(op));
  return planned;
}

/// Runs the calls that block in the calling thread.
Result<> run_own(const std::vector<std::unique_ptr<Work>>& works, Runner& runner) {
  Completion completion(static_cast<int>(works.size()));
  completion.waiter = &runner.bell();
  std::vector<std::pair<Seat*, std::vector<Work*>>> by_seat;
  for (const auto& work : works) {
    work->completion = &completion;
    const auto at = std::find_if(by_seat.begin(), by_seat.end(), [&](const auto& entry) { return entry.first == work->seat.get(); });
    if (at != by_seat.end()) {
      at->second.push_back(work.get());
    } else {
      by_seat.push_back({work->seat.get(), {work.get()}});
    }
  }
  for (auto& [seat, list] : by_seat) submit(*seat, std::move(list), &runner);
  runner.run_until([&] { return completion.done(); }, true);
  return completion.result();
}

void enqueue(std::vector<std::unique_ptr<Work>> works, std::vector<std::shared_ptr<HostStream>> streams) {
  auto batch = std::make_shared<Batch>(static_cast<int>(works.size()));
  for (const auto& work : works) work->completion = &batch->completion;
  batch->works = std::move(works);
  batch->streams = std::move(streams);
  HostStream::enqueue(std::move(batch));
}

/// Numbers and starts a group's calls. Whatever can fail has been done before.
Result<> start_calls(std::vector<Planned> plan, Runner& runner) {
  std::vector<std::unique_ptr<Work>> own, queued;
  std::vector<std::shared_ptr<HostStream>> streams;
  std::vector<GpuCall> kernels;
  for (Planned& planned : plan) {
    number(*planned.work);
    if (planned.gpu != nullptr) {
      planned.work->seat->publish(*planned.work);
      kernels.push_back({std::move(planned.work), planned.gpu, reinterpret_cast<cu::CUstream>(planned.cuda_stream)});
    } else if (planned.eager) {
      launch_eager(std::move(planned.work));
    } else if (planned.stream != nullptr) {
      queued.push_back(std::move(planned.work));
      if (std::find(streams.begin(), streams.end(), planned.stream) == streams.end()) streams.push_back(std::move(planned.stream));
    } else {
      own.push_back(std::move(planned.work));
    }
  }
  if (!queued.empty()) enqueue(std::move(queued), std::move(streams));
  if (!kernels.empty()) RONDE_TRY(launch_on_gpus(std::move(kernels)));
  if (own.empty()) return {};
  return run_own(own, runner);
}

}  // namespace

Group& Group::of_this_thread() {
  thread_local Group group;
  return group;
}

void Group::spoil(const Error& error) {
  if (open() && !spoilt_.has_value()) spoilt_ = error;
}

Result<Code> Group::add(Op op) {
  ops_.push_back(std::move(op));
  if (open()) return Code::success;
  return run();
}

Result<Code> Group::add(InitJob job) {
  jobs_.push_back(std::move(job));
  if (open()) return Code::success;
  return run();
}

Result<Code> Group::end() {
  if (!open()) return fail(Code::invalid_usage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return Code::success;
  return run();
}

Result<double> Group::simulate_end() {
  if (!open()) return fail(Code::invalid_usage, "ncclGroupSimulateEnd without ncclGroupStart");
  if (--depth_ > 0) return 0.0;
  const std::vector<Op> ops = std::exchange(ops_, {});
  const std::vector<InitJob> jobs = std::exchange(jobs_, {});
  const std::optional<Error> spoilt = std::exchange(spoilt_, std::nullopt);
  const Error no_init = fail(Code::invalid_usage, "a group that makes communicators cannot be estimated: end it by ncclGroupEnd");
  for (const InitJob& job : jobs) job.publish(spoilt.value_or(no_init));
  if (spoilt.has_value()) return *spoilt;
  if (!jobs.empty()) return no_init;
  Entered entered;
  RONDE_TRY(check_calls(ops, &entered));
  RONDE_TRY(const uint64_t nanos, group_nanos(ops));
  return static_cast<double>(nanos) * 1e-3;
}

Result<Code> Group::run() {
  const std::optional<Error> spoilt = std::exchange(spoilt_, std::nullopt);
  if (spoilt.has_value()) {
    ops_.clear();
    for (InitJob& job : std::exchange(jobs_, {})) job.publish(*spoilt);
    return *spoilt;
  }
  const std::vector<Op> calls = std::exchange(ops_, {});  // also when an initialisation fails: they must not run in a later group
  RONDE_TRY(const Code jobs, run_jobs());
  RONDE_TRY(const Code ops, run_ops(calls));
  return jobs == Code::in_progress || ops == Code::in_progress ? Code::in_progress : Code::success;
}

Result<Code> Group::run_jobs() {
  std::vector<InitJob> jobs = std::exchange(jobs_, {});
  std::vector<Result<>> results(jobs.size());
  std::vector<std::thread> threads;
  std::optional<Error> first;
  // Each blocks until its peers have come, which may be other jobs of this group: all but the last get threads.
  for (size_t i = 0; i < jobs.size(); ++i) {
    const auto run = [&jobs, &results, i] { results[i] = jobs[i].comm->run_init(jobs[i].run); };
    if (i + 1 == jobs.size() || !jobs[i].comm->blocking()) {
      run();
      continue;
    }
    Result<std::thread> thread = start_thread("ronde-init", run);
    if (thread.ok()) {
      threads.push_back(std::move(thread).value());
    } else {
      // The others may be its peers, and would wait for it as long as an initialisation may take.
      results[i] = thread.error();
      if (!first.has_value()) first = thread.error();
      for (const InitJob& job : jobs) job.comm->abort("another initialisation of the group failed");
    }
  }
  for (std::thread& thread : threads) thread.join();
  bool in_progress = false;
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].publish(results[i]);
    in_progress |= results[i].code() == Code::in_progress;
    if (!results[i].ok() && results[i].code() != Code::in_progress && !first.has_value()) first = results[i].error();
  }
  if (first.has_value()) return *first;
  return in_progress ? Code::in_progress : Code::success;
}

Result<Code> Group::run_ops(const std::vector<Op>& ops) {
  if (ops.empty()) return Code::success;
  const bool blocking = ops.front().comm->blocking();
  Entered entered;
  RONDE_TRY(check_calls(ops, &entered));
  RONDE_TRY(Runner * runner, Runner::of_this_thread());
  std::vector<Planned> plan;
  for (const Op& op : ops) {
    RONDE_TRY(Planned planned, plan_op(op, ops, plan));
    plan.push_back(std::move(planned));
  }
  RONDE_TRY(start_calls(std::move(plan), *runner));
  return blocking ? Code::success : Code::in_progress;
}

}  // namespace ronde
