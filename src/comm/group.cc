#include "comm/group.h"

#include <algorithm>
#include <fmt/core.h>
#include <map>

#include "base/thread.h"
#include "exec/runner.h"

namespace ronde {
namespace {

bool names_stream(uintptr_t stream) { return stream > 2; }  // 0, 1 and 2: none, legacy, per thread

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

/// One thread drives several ranks of a communicator, and calls one of them alone: the call would wait for the others for ever. Certain only when the
/// process has no other thread that could make their calls.
Result<> check_own_ranks(const std::vector<Op>& ops) {
  for (const Op& op : ops) {
    if (op.coll == Coll::send || names_stream(op.stream) || !op.comm->blocking()) continue;
    for (Communicator* sibling : op.comm->siblings_of_this_thread()) {
      const bool in_group = std::any_of(ops.begin(), ops.end(), [&](const Op& other) { return other.comm.get() == sibling; });
      if (in_group || (op.coll == Coll::recv && sibling->rank() != op.root)) continue;
      if (op.comm->another_thread_may_help()) break;
      const bool comes = op.coll == Coll::recv ? sibling->seat().has_sent_to(op.comm->rank(), sibling->message_link())
                                               : sibling->seat().collectives_issued > op.comm->seat().collectives_issued;
      if (comes) continue;
      return fail(Code::invalid_usage, fmt::format("{} on rank {} would wait for rank {}, which the same thread drives: use a group (ncclGroupStart, the calls of "
                                                   "all the thread's ranks, ncclGroupEnd)", name_of(op.coll), op.comm->rank(), sibling->rank()));
    }
  }
  return {};
}

/// True when every call of the group on this communicator is a Send: then small ones may return before their Recv.
bool only_sends(const std::vector<Op>& ops, const Communicator* comm) {
  return std::all_of(ops.begin(), ops.end(), [comm](const Op& op) { return op.comm.get() != comm || op.coll == Coll::send; });
}

/// The Works of a group, sorted by how they run.
struct Sorted {
  std::vector<std::unique_ptr<Work>> own;     ///< by the calling thread
  std::vector<std::unique_ptr<Work>> queued;  ///< by streams
  std::vector<std::shared_ptr<HostStream>> streams;
  std::vector<std::unique_ptr<Work>> eager;   ///< copied; the pool or the next call runs them
};

/// An eager Send owns itself: Work and Completion go when it has been taken.
struct EagerSend {
  std::unique_ptr<Work> work;
  Completion completion{1};
  std::shared_ptr<Communicator> comm;
};

void launch_eager(const std::shared_ptr<Communicator>& comm, std::unique_ptr<Work> work, size_t bytes) {
  auto* self = new EagerSend;
  Port* const port = work->parts.front().bound->ports.front();
  self->work = std::move(work);
  self->comm = comm;
  port->eager_bytes.fetch_add(bytes, std::memory_order_relaxed);  // an account, ordered by nothing
  comm->eager_begins();
  self->work->completion = &self->completion;
  self->completion.on_done = [self, port, bytes] {
    port->eager_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    Communicator& owner = *self->comm;
    // The Completion's finish() touches nothing of it after this; the Communicator must not end here, inside its own Runner.
    std::shared_ptr<Communicator> keep = std::move(self->comm);
    delete self;
    owner.eager_ends();
  };
  submit(*self->work->seat, {self->work.get()}, nullptr);
}

Result<> sort_op(const Op& op, bool eager_allowed, Sorted* sorted, std::vector<std::pair<std::shared_ptr<Communicator>, size_t>>* eager_of) {
  const bool on_stream = names_stream(op.stream) || !op.comm->blocking();
  if (on_stream) {
    std::shared_ptr<HostStream> stream = names_stream(op.stream) ? find_stream(op.stream) : op.comm->own_stream();
    if (std::find(sorted->streams.begin(), sorted->streams.end(), stream) == sorted->streams.end()) sorted->streams.push_back(stream);
    RONDE_TRY(std::unique_ptr<Work> work, make_work(op));
    sorted->queued.push_back(std::move(work));
    return {};
  }
  const size_t bytes = bytes_of(op);
  const bool eager = op.coll == Coll::send && eager_allowed && op.root != op.comm->rank() && bytes <= op.comm->config().bytes(Setting::eager_limit);
  if (!eager) {
    RONDE_TRY(std::unique_ptr<Work> work, make_work(op));
    sorted->own.push_back(std::move(work));
    return {};
  }
  RONDE_TRY(std::unique_ptr<Work> work, make_work(op, false));
  Port& port = *work->parts.front().bound->ports.front();
  const bool account = port.eager_bytes.load(std::memory_order_relaxed) + bytes <= op.comm->config().bytes(Setting::eager_limit);
  const bool at_once = op.comm->seat().sends_at_once(*work);
  if (at_once || !account) {
    work->may_lend = !at_once;
    sorted->own.push_back(std::move(work));
    return {};
  }
  detach(*work);
  sorted->eager.push_back(std::move(work));
  eager_of->push_back({op.comm, bytes});
  return {};
}

Result<> run_own(std::vector<std::unique_ptr<Work>> works) {
  RONDE_TRY(Runner * runner, Runner::of_this_thread());
  Completion completion(static_cast<int>(works.size()));
  completion.waiter = &runner->bell();
  std::vector<std::pair<Seat*, std::vector<Work*>>> by_seat;
  for (const auto& work : works) {
    work->completion = &completion;
    const auto at = std::find_if(by_seat.begin(), by_seat.end(), [&](const auto& entry) { return entry.first == work->seat; });
    if (at != by_seat.end()) {
      at->second.push_back(work.get());
    } else {
      by_seat.push_back({work->seat, {work.get()}});
    }
  }
  for (auto& [seat, list] : by_seat) submit(*seat, std::move(list), runner);
  runner->run_until(completion, true);
  return completion.result();
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
  jobs_.clear();
  if (spoilt_.has_value()) return *std::exchange(spoilt_, std::nullopt);
  double microseconds = 0;
  for (const Op& op : ops) {
    if (op.coll == Coll::send || op.coll == Coll::recv) continue;  // the model has collectives only
    RONDE_TRY(const Choice choice, op.comm->plans().choose_only(shape_of(op)));
    microseconds += static_cast<double>(choice.nanos) * 1e-3;
  }
  return microseconds;
}

Result<Code> Group::run() {
  const std::optional<Error> spoilt = std::exchange(spoilt_, std::nullopt);
  if (spoilt.has_value()) {
    ops_.clear();
    for (InitJob& job : std::exchange(jobs_, {})) job.publish(*spoilt);
    return *spoilt;
  }
  RONDE_TRY(const Code jobs, run_jobs());
  RONDE_TRY(const Code ops, run_ops());
  return jobs == Code::in_progress || ops == Code::in_progress ? Code::in_progress : Code::success;
}

Result<Code> Group::run_jobs() {
  std::vector<InitJob> jobs = std::exchange(jobs_, {});
  std::vector<Result<>> results(jobs.size());
  std::vector<std::thread> threads;
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
      results[i] = thread.error();
      jobs[i].comm->abort("another initialisation of the group failed");
    }
  }
  for (std::thread& thread : threads) thread.join();
  std::optional<Error> first;
  bool in_progress = false;
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].publish(results[i]);
    in_progress |= results[i].code() == Code::in_progress;
    if (!results[i].ok() && results[i].code() != Code::in_progress && !first.has_value()) first = results[i].error();
  }
  if (first.has_value()) return *first;
  return in_progress ? Code::in_progress : Code::success;
}

Result<Code> Group::run_ops() {
  const std::vector<Op> ops = std::exchange(ops_, {});
  if (ops.empty()) return Code::success;
  const bool blocking = ops.front().comm->blocking();
  Entered entered;
  for (const Op& op : ops) {
    if (op.comm->blocking() != blocking) {
      return fail(Code::invalid_argument, "a group may not mix blocking and non-blocking communicators");
    }
    RONDE_TRY(entered.add(op.comm));
  }
  for (const auto& comm : entered.comms()) RONDE_TRY(comm->usable());
  RONDE_TRY(check_self_messages(ops));
  RONDE_TRY(check_own_ranks(ops));
  Sorted sorted;
  std::vector<std::pair<std::shared_ptr<Communicator>, size_t>> eager_of;
  for (const Op& op : ops) RONDE_TRY(sort_op(op, only_sends(ops, op.comm.get()), &sorted, &eager_of));
  for (size_t i = 0; i < sorted.eager.size(); ++i) launch_eager(eager_of[i].first, std::move(sorted.eager[i]), eager_of[i].second);
  if (!sorted.queued.empty()) {
    auto batch = std::make_shared<Batch>(static_cast<int>(sorted.queued.size()));
    for (const auto& work : sorted.queued) work->completion = &batch->completion;
    batch->works = std::move(sorted.queued);
    batch->streams = std::move(sorted.streams);
    HostStream::enqueue(std::move(batch));
  }
  if (!sorted.own.empty()) RONDE_TRY(run_own(std::move(sorted.own)));
  return blocking ? Code::success : Code::in_progress;
}

}  // namespace ronde
