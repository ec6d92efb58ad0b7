// What ranks that post to each other learn of the death of a process.
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <mutex>

#include "support/catch.h"
#include "support/children.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

/// The id as text, and back.
std::string hex(const UniqueId& id) {
  std::string text;
  for (const std::byte byte : id.bytes) {
    for (const int shift : {4, 0}) text += "0123456789abcdef"[(std::to_integer<int>(byte) >> shift) & 15];
  }
  return text;
}

UniqueId unhex(const std::string& text) {
  UniqueId id;
  for (size_t i = 0; i < id.bytes.size(); ++i)
    id.bytes[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

/// Argument: how the ranks find each other, a colon, the id. Hears orders: "post R", "fork", "leave"; says what its handlers are
/// told.
int role_posts(Child& child) {
  const Path path = child.argument.rfind("tcp", 0) == 0 ? Path::tcp : Path::in_process;
  const UniqueId id = unhex(child.argument.substr(child.argument.find(':') + 1));
  Joined joined = join({child.rank, child.ranks, {id}}, config_of(settings_of(path, child.rank)), nullptr);
  if (!joined.ok()) {
    child.say(joined.error().what);
    return 1;
  }
  Bootstrap& boot = **joined;
  static std::mutex mutex;  // one line at a time
  const auto say = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    child.say(line);
  };
  boot.listen_posts(
      [&](int from, std::span<const std::byte>) { say("post of " + std::to_string(from)); },
      [&](int peer, const Error& why) {
        const bool named = why.what.find("rank " + std::to_string(peer)) != std::string::npos;
        say((named && why.code == Code::remote_error ? "death of " : "wrong text: " + why.what) + std::to_string(peer));
      });
  say("ready");
  while (true) {
    const std::string order = child.hear();
    if (order.rfind("post ", 0) == 0) {
      const int peer = std::stoi(order.substr(5));
      if (!boot.post(peer, {}).ok()) say("post failed");
    } else if (order == "fork") {
      const pid_t pid = fork();
      if (pid == 0) _exit(boot.post(0, {}).code() == Code::invalid_usage ? 0 : 1);
      int status = 0;
      waitpid(pid, &status, 0);
      say(status == 0 ? "refused" : "not refused");
    } else {
      return 0;  // the bootstraps are destroyed in order
    }
  }
}
const RegisterRole r1("posts", role_posts);

}  // namespace

TEST_CASE("the death of a process is told once to ranks that posted to it or were posted to by it", "[boot][proc][posts]") {
  const int n = 6;  // rank 0 and rank 3 have no connection from the init
  const bool tcp = GENERATE(false, true);
  const UniqueId id = *make_unique_id(*config_of(settings_of(tcp ? Path::tcp : Path::in_process, -1)));
  Children children({.role = "posts", .ranks = n, .argument = (tcp ? "tcp:" : "unix:") + hex(id)});
  for (int rank = 0; rank < n; ++rank) REQUIRE(children.hear(rank) == "ready");
  children.say(0, "post 1");
  CHECK(children.hear(1) == "post of 0");
  children.say(2, "post 0");
  CHECK(children.hear(0) == "post of 2");
  children.say(4, "post 0");
  CHECK(children.hear(0) == "post of 4");

  SECTION("one that leaves in order is no death, another is") {
    children.say(4, "leave");
    CHECK(children.wait(4) == "exited 0");
    children.signal(5, SIGKILL);  // rank 0 has nothing to do with it
    children.wait(5);
    children.signal(1, SIGKILL);
    CHECK(children.hear(0) == "death of 1");
    children.signal(2, SIGKILL);
    CHECK(children.hear(0) == "death of 2");
    children.say(0, "post 1");  // told before
    children.say(0, "post 4");  // has left
    children.say(0, "post 0");
    CHECK(children.hear(0) == "post of 0");
  }
  SECTION("one that died before the first post to it") {
    children.signal(3, SIGKILL);
    children.wait(3);
    children.say(0, "post 3");
    CHECK(children.hear(0) == "death of 3");
  }
  SECTION("a forked child may not post") {
    children.say(0, "fork");
    CHECK(children.hear(0) == "refused");
  }
}
