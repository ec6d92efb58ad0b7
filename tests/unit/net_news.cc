// What ranks of different hosts tell each other: it comes as it went, and nothing that comes can hurt.
#include <random>

#include "support/catch.h"
#include "transport/net/news.h"

using namespace ronde;
using namespace ronde::net;

namespace {

std::vector<News> one_of_each() {
  ControlNews control;
  control.state = 2;
  control.issued = uint64_t{1} << 40;
  control.history[3] = {8, 7, 6, 5};
  control.sent = {{0, 4}, {17, uint64_t{1} << 33}};
  control.blocked = 1;
  control.epoch = 12;
  control.number = 13;
  control.probe_answer = 14;
  control.taken = {{17, 5, 6}, {18, 7, 8}};
  control.waits = {uint64_t{1} << 63, 1};
  Handle handle{};
  handle[127] = std::byte{9};
  return {OpenNews{5, 1, 3}, ListeningNews{5, 1, 2, handle}, RefusedNews{5, 1, 2, "no"}, LookNews{9, 10}, control, MailNews{6, "it broke"}, LostNews{"pulled"}};
}

}  // namespace

TEST_CASE("news come as they went", "[net]") {
  for (const News& news : one_of_each()) {
    const Bytes packed = pack(news);
    const auto came = unpack(packed);
    REQUIRE(came.has_value());
    CHECK(came->index() == news.index());
    CHECK(pack(*came) == packed);
  }
  const auto control = std::get<ControlNews>(*unpack(pack(one_of_each()[4])));
  CHECK(control.issued == uint64_t{1} << 40);
  CHECK(control.history[3].fingerprint == 5);
  CHECK(control.sent == std::vector<std::pair<int32_t, uint64_t>>{{0, 4}, {17, uint64_t{1} << 33}});
  CHECK(control.blocked == 1);
  CHECK(control.epoch == 12);
  CHECK(control.number == 13);
  CHECK(control.probe_answer == 14);
  REQUIRE(control.taken.size() == 2);
  CHECK((control.taken[1].link == 18 && control.taken[1].come == 7 && control.taken[1].taken == 8));
  CHECK(control.waits == std::vector<uint64_t>{uint64_t{1} << 63, 1});
  const auto look = std::get<LookNews>(*unpack(pack(one_of_each()[3])));
  CHECK((look.number == 9 && look.probe == 10));
  CHECK(std::get<MailNews>(*unpack(pack(one_of_each()[5]))).text == "it broke");
}

TEST_CASE("news that are cut short, or garbage, are none", "[net]") {
  for (const News& news : one_of_each()) {
    const Bytes packed = pack(news);
    for (size_t bytes = 0; bytes < packed.size(); ++bytes) {
      CAPTURE(news.index(), bytes);
      REQUIRE_FALSE(unpack(std::span(packed).first(bytes)).has_value());
    }
  }
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    Bytes garbage(random() % 3000);
    for (std::byte& one : garbage) one = static_cast<std::byte>(random());
    if (!garbage.empty() && round % 2 == 0) garbage[0] = static_cast<std::byte>(random() % 8);
    unpack(garbage);
  }
}

TEST_CASE("a mirror says what the control block says, a record that is being written aside", "[net]") {
  constexpr int kRanks = 70;
  struct {
    ControlBlock block{};
    std::array<std::atomic<uint64_t>, 8> waits{};
  } own, theirs;
  ControlBlock &block = own.block, &mirror = theirs.block;
  REQUIRE((wait_set(block) == own.waits.data() && wait_words(kRanks) == 2));
  block.state = static_cast<uint32_t>(RankState::alive);
  block.issued = 3;
  block.history[2].version = 6;
  block.history[2].count = 100;
  block.history[3].version = 7;  // odd: being written
  block.history[3].count = 1;
  block.blocked = 1;
  block.epoch = 5;
  wait_set(block)[1] = 33;
  ControlNews news = read_control(block, kRanks);
  news.probe_answer = 4;
  news.waits.push_back(1);  // of more ranks than there are
  write_control(mirror, kRanks, news);
  CHECK((mirror.blocked == 1 && mirror.epoch == 5 && mirror.probe_answer == 4));
  CHECK((wait_set(mirror)[0] == 0 && wait_set(mirror)[1] == 33));
  CHECK(mirror.issued == 3);
  CHECK(mirror.history[2].version == 6);
  CHECK(mirror.history[2].count == 100);
  CHECK(mirror.history[3].version == 0);
  CHECK(mirror.history[3].count == 0);
  CHECK(mirror.state == 0);  // whether that counts already is the station's to say
}
