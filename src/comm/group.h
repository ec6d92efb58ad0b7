// Groups: the calls between ncclGroupStart and ncclGroupEnd, and what a single call outside is: a group of one.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "comm/op.h"

namespace ronde {

/// An init, split or shrink that was put into a group: it blocks on others of the same group, so they run side by side.
struct InitJob {
  std::shared_ptr<Communicator> comm;  ///< the one that comes up
  std::function<Result<>()> run;
  std::function<void(const Result<>&)> publish;  ///< hands the result to the caller (the new handle), in the calling thread
};

/// The calling thread's group. Nothing is shared between threads.
class Group {
 public:
  static Group& of_this_thread();

  void start() { ++depth_; }
  bool open() const { return depth_ > 0; }

  /// Runs the call at once, or keeps it until the group ends. success or in_progress.
  Result<Code> add(Op op);
  Result<Code> add(InitJob job);
  /// A call of the group failed its checks: the group is dropped at its end and returns this.
  void spoil(const Error& error);

  /// Ends one level; the outermost one runs everything. invalid_usage without a start.
  Result<Code> end();
  /// Ends one level; the outermost one runs nothing and estimates instead: the model's time for all calls together, in microseconds. Errors as
  /// those of end(); invalid_usage also where the group makes communicators.
  Result<double> simulate_end();

 private:
  Result<Code> run();
  Result<Code> run_jobs();
  Result<Code> run_ops(const std::vector<Op>& ops);

  int depth_ = 0;
  std::vector<Op> ops_;
  std::vector<InitJob> jobs_;
  std::optional<Error> spoilt_;
};

}  // namespace ronde
