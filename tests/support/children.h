// Ranks as processes of their own: this test program, executed again, runs a role by name.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "boot/bootstrap.h"

namespace ronde::test {

/// What a role is given. It talks with the test in lines.
struct Child {
  int rank = 0;
  int ranks = 0;
  std::string argument;
  std::vector<Bootstrap*> bootstraps;  ///< independent of each other
  int control = -1;

  void say(const std::string& line) const;
  /// The next line from the test; empty when the test has ended.
  std::string hear() const;
};

/// The exit code of the process.
using Role = int (*)(Child&);
struct RegisterRole {
  RegisterRole(const char* name, Role role);
};

struct ChildrenRequest {
  std::string role;
  int ranks = 2;
  std::string argument;
  int bootstraps = 1;
  /// Rank 0 is the test's own process: nothing is started for it.
  bool self = false;
};

/// The processes; killed and reaped when destroyed. Waits are bounded by 60 s: a line that does not come is "(nothing)".
class Children {
 public:
  explicit Children(const ChildrenRequest& request);
  ~Children();
  Children(const Children&) = delete;

  pid_t pid(int rank) const { return members_[static_cast<size_t>(rank)].pid; }
  void say(int rank, const std::string& line);
  std::string hear(int rank);
  void signal(int rank, int number);
  /// Reaps: "exited 0", "signal 9", or "still running" after 60 s.
  std::string wait(int rank);
  /// Of rank 0, where it is the test itself.
  Bootstrap& own_bootstrap() { return *own_.front(); }

 private:
  struct Member {
    pid_t pid = 0;
    UniqueFd control;
  };
  void start(int rank, const ChildrenRequest& request, std::vector<UniqueFd>& ends);

  std::vector<Member> members_;
  std::vector<std::unique_ptr<Bootstrap>> own_;
  std::vector<UniqueFd> own_ends_;
  std::vector<std::thread> hubs_;
};

/// Waits until the process has ended, reaped or not; false after `seconds`. It need not be a child.
bool ends_within(pid_t pid, double seconds);

}  // namespace ronde::test
