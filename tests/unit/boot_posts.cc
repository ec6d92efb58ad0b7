// Messages of the bootstrap beside its exchanges.
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "boot/posts.h"
#include "support/catch.h"
#include "unit/boot_ranks.h"

using namespace ronde;
using namespace ronde::test;

namespace {

using Texts = std::vector<std::string>;

Path any_path() { return GENERATE(Path::in_process, Path::unix_socket, Path::tcp, Path::mixed); }

Bytes number(uint64_t value) {
  Writer out;
  out.put(value);
  return out.take();
}

uint64_t number(std::span<const std::byte> message) { return Reader(message).get<uint64_t>(); }

/// Waits until it holds; false after 20 s.
template <class Condition>
bool comes(Condition condition) {
  const Deadline limit = Deadline::in(20);
  while (!condition() && !limit.passed()) std::this_thread::yield();
  return condition();
}

/// A rank's handler: expects the numbers 0, 1, ... of each rank, one call at a time.
struct Counter {
  Counter(int ranks, Findings& findings) : next(static_cast<size_t>(ranks)), findings(findings) {}
  void operator()(int from, std::span<const std::byte> message) {
    findings.expect(!inside.exchange(true), "two handlers at once");
    const uint64_t came = number(message);
    uint64_t& wanted = next.at(static_cast<size_t>(from));
    findings.expect(came == wanted, "message " + std::to_string(came) + " instead of " + std::to_string(wanted));
    ++wanted;
    inside = false;
    ++count;
  }
  std::vector<uint64_t> next;
  std::atomic<bool> inside{false};
  std::atomic<int> count{0};
  Findings& findings;
};

}  // namespace

TEST_CASE("every rank posts to every rank while all of them exchange", "[boot][posts]") {
  const Path path = any_path();
  const int n = 6;  // with six, some ranks have no connection from the init
  const int each = 200;
  Findings findings;
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          Counter counter(n, findings);
          boot.listen_posts(std::ref(counter), nullptr);
          std::thread poster([&] {
            for (uint64_t i = 0; i < each; ++i) {
              for (int peer = 0; peer < n; ++peer) findings.expect(boot.post(peer, number(i)).ok(), "post");
            }
          });
          for (int round = 0; round < 10; ++round) findings.expect(gathers(boot), "gather");
          poster.join();
          findings.expect(comes([&] { return counter.count == n * each; }), "all messages come");
          findings.expect(boot.barrier().ok(), "the last barrier");
          boot.listen_posts(nullptr, nullptr);
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("what is posted before there are handlers is kept, and large messages come whole", "[boot][posts]") {
  const Path path = any_path();
  Findings findings;
  CHECK(run_ranks(2, path, [&](Bootstrap& boot) {
          std::vector<std::byte> large(3000000, std::byte{7});
          if (boot.rank() == 0) {
            for (const size_t size : {large.size(), size_t{0}, size_t{5}}) {
              findings.expect(boot.post(1, std::span(large).first(size)).ok(), "post");
            }
          }
          findings.expect(boot.barrier().ok(), "barrier");
          if (boot.rank() == 1) {
            std::vector<size_t> sizes;
            std::atomic<size_t> count{0};
            const auto keep = [&](int from, std::span<const std::byte> message) {
              findings.expect(from == 0 && std::equal(message.begin(), message.end(), large.begin()), "content");
              sizes.push_back(message.size());
              ++count;
            };
            boot.listen_posts(keep, nullptr);
            findings.expect(comes([&] { return count == 3; }), "three come");
            boot.listen_posts(nullptr, nullptr);
            findings.expect(sizes == std::vector<size_t>{large.size(), 0, 5}, "in order");
          }
          findings.expect(boot.barrier().ok(), "barrier at the end");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("no handler runs after it was taken away, and the next one misses nothing", "[boot][posts]") {
  const Path path = any_path();
  const int messages = 3000;
  Findings findings;
  CHECK(run_ranks(2, path, [&](Bootstrap& boot) {
          if (boot.rank() == 0) {
            for (uint64_t i = 0; i < messages; ++i) findings.expect(boot.post(1, number(i)).ok(), "post");
          } else {
            std::deque<uint64_t> came;  // no lock: whoever calls in after it was told not to is a race
            const auto keep = [&](int, std::span<const std::byte> message) { came.push_back(number(message)); };
            const Deadline limit = Deadline::in(20);
            while (came.size() < messages && !limit.passed()) {
              boot.listen_posts(keep, nullptr);
              std::this_thread::yield();
              boot.listen_posts(nullptr, nullptr);
            }
            findings.expect(came.size() == messages, "all come");
            for (uint64_t i = 0; i < came.size(); ++i) findings.expect(came[i] == i, "in order");
          }
          findings.expect(boot.barrier().ok(), "barrier");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("handlers may answer, and take themselves away", "[boot][posts]") {
  const Path path = any_path();
  Findings findings;
  CHECK(run_ranks(2, path, [&](Bootstrap& boot) {
          std::atomic<uint64_t> last{0};
          boot.listen_posts(
              [&](int from, std::span<const std::byte> message) {
                const uint64_t came = number(message);
                if (came < 100) findings.expect(boot.post(from, number(came + 1)).ok(), "answer");
                if (came >= 99) boot.listen_posts(nullptr, nullptr);
                last = came;
              },
              nullptr);
          if (boot.rank() == 0) findings.expect(boot.post(1, number(1)).ok(), "post");
          findings.expect(comes([&] { return last >= 99; }), "to and fro");
          findings.expect(boot.barrier().ok(), "barrier");
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("children have posts of their own", "[boot][posts]") {
  const Path path = any_path();
  const int n = 6;
  Findings findings;
  CHECK(run_ranks(n, path, [&](Bootstrap& boot) {
          Counter parents(n, findings), childs(3, findings);
          boot.listen_posts(std::ref(parents), nullptr);
          const std::vector<int> survivors = boot.rank() % 2 == 0 ? std::vector<int>{0, 2, 4} : std::vector<int>{1, 3, 5};
          auto child = path == Path::tcp ? boot.shrink(survivors, nullptr)() : boot.split(boot.rank() % 2, 0, nullptr)();
          findings.expect(child.ok(), "child");
          if (!child.ok()) return;
          (*child)->listen_posts(std::ref(childs), nullptr);
          for (uint64_t i = 0; i < 5; ++i) {
            for (int peer = 0; peer < n; ++peer) findings.expect(boot.post(peer, number(i)).ok(), "parent's");
            for (int peer = 0; peer < 3; ++peer) findings.expect((*child)->post(peer, number(i)).ok(), "child's");
          }
          findings.expect(comes([&] { return parents.count == n * 5 && childs.count == 3 * 5; }), "all come");
          findings.expect(boot.barrier().ok(), "barrier");
          child->reset();
          boot.listen_posts(nullptr, nullptr);
        }) == Texts{});
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("posting works while the abort word is up and after an exchange has failed", "[boot][posts]") {
  const Path path = any_path();
  const UniqueId id = *make_unique_id(*config_of(settings_of(path, 0)), hooks_of(path, 0));
  Findings findings;
  std::atomic<int> done{0};
  run_threads(3, [&](int rank) {
    AbortWord abort;
    Joined joined = join({rank, 3, {id}}, config_of(settings_of(path, rank)), &abort, hooks_of(path, rank));
    findings.expect(joined.ok(), "join");
    if (!joined.ok()) return;
    Counter counter(3, findings);
    (*joined)->listen_posts(std::ref(counter), nullptr);
    abort.raise();
    // One rank stays away: an exchange for which all has come already ends well, abort or not.
    if (rank != 2) findings.expect(!(*joined)->barrier().ok(), "the exchange ends");
    for (int peer = 0; peer < 3; ++peer) findings.expect((*joined)->post(peer, number(0)).ok(), "post");
    findings.expect(comes([&] { return counter.count == 3; }), "all come");
    ++done;
    findings.expect(comes([&] { return done == 3; }), "the others");
  });
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("posts to nobody: outside ranks are refused, to a rank that has left they are lost without word", "[boot][posts]") {
  const Path path = any_path();
  Findings findings;
  std::atomic<bool> left{false};
  const UniqueId id = *make_unique_id(*config_of(settings_of(path, 0)), hooks_of(path, 0));
  run_threads(2, [&](int rank) {
    Joined joined = join({rank, 2, {id}}, config_of(settings_of(path, rank)), nullptr, hooks_of(path, rank));
    findings.expect(joined.ok(), "join");
    if (!joined.ok()) return;
    Bootstrap& boot = **joined;
    std::atomic<int> came{0}, told{0};
    boot.listen_posts([&](int, std::span<const std::byte>) { ++came; }, [&](int, const Error&) { ++told; });
    findings.expect_error(boot.post(2, {}), Code::invalid_argument, "rank 2 of 2");
    findings.expect_error(boot.post(-1, {}), Code::invalid_argument, "rank -1 of 2");
    findings.expect(boot.post(1 - rank, {}).ok(), "post");
    findings.expect(comes([&] { return came == 1; }), "it comes");
    findings.expect(boot.barrier().ok(), "barrier");
    if (rank == 1) {
      joined->reset();
      left = true;
      return;
    }
    findings.expect(comes([&] { return left.load(); }), "the other leaves");
    for (int i = 0; i < 100; ++i) findings.expect(boot.post(1, {}).ok(), "post to one that has left");
    findings.expect(boot.post(0, {}).ok() && comes([&] { return came == 2; }), "own messages still come");
    findings.expect(told == 0, "told of a death");
  });
  CHECK(findings.wrong() == Texts{});
}

TEST_CASE("a death is told once, behind what came before, and not of ranks that have left or are not known", "[boot][posts]") {
  Posts posts;
  posts.know(1, 77);
  posts.know(2, 77);
  posts.know(3, 77);
  posts.know(4, 88);
  posts.put(2, number(5));
  posts.leave(3);
  posts.lost(77, fail(Code::remote_error, "why"));
  posts.lost(77, fail(Code::remote_error, "again"));
  posts.know(2, 77);
  posts.lost(77, fail(Code::remote_error, "again"));
  Texts news;
  posts.listen([&](int from, std::span<const std::byte>) { news.push_back("post of " + std::to_string(from)); },
               [&](int peer, const Error& why) { news.push_back("death of " + std::to_string(peer) + ": " + why.what); });
  CHECK(news == Texts{"post of 2", "death of 1: why", "death of 2: why"});
  posts.know(5, 77);
  posts.lost(77, fail(Code::remote_error, "later"));
  CHECK(news.back() == "death of 5: later");
}
