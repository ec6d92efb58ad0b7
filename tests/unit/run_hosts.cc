// What ronde-run's options for several hosts mean.
#include <cstring>

#include "support/catch.h"
#include "tools/ronde_run_hosts.h"

using namespace ronde::run;
using ronde::test::contains;

namespace {

Split split_of(const std::string& text, int ranks) {
  Split split;
  CHECK(read_split(text, ranks, split) == "");
  return split;
}

std::string why_not(const std::string& text, int ranks) {
  Split split;
  return read_split(text, ranks, split);
}

}  // namespace

TEST_CASE("ronde-run --hosts: a number splits ranks in order, lists say it", "[ronde-run]") {
  CHECK(split_of("1", 3) == Split{{0, 1, 2}});
  CHECK(split_of("2", 4) == Split{{0, 1}, {2, 3}});
  CHECK(split_of("3", 7) == Split{{0, 1, 2}, {3, 4}, {5, 6}});
  CHECK(split_of("3", 3) == Split{{0}, {1}, {2}});
  CHECK(split_of("0/1,2", 3) == Split{{0}, {1, 2}});
  CHECK(split_of("2,0/1", 3) == Split{{0, 2}, {1}});
  CHECK(split_of("0-1,4/2-3", 5) == Split{{0, 1, 4}, {2, 3}});
}

TEST_CASE("ronde-run --hosts: what cannot be is said", "[ronde-run]") {
  CHECK(contains(why_not("0", 2), "1 to 2 hosts"));
  CHECK(contains(why_not("3", 2), "1 to 2 hosts"));
  CHECK(contains(why_not("0/1", 3), "rank 2 is on no host"));
  CHECK(contains(why_not("0,1/1", 2), "rank 1 is on two hosts"));
  CHECK(contains(why_not("0-3/1", 2), "no rank 2"));
  for (const char* text : {"", "/", "0/", "x", "0/1,", "1-0/2", "-1/0", "0;1", "0/1-"}) {
    INFO(text);
    CHECK(contains(why_not(text, 3), "is neither"));
  }
}

TEST_CASE("ronde-run: rails, rates and delays", "[ronde-run]") {
  Links links;
  CHECK(read_links(0, nullptr, nullptr, links) == "");
  CHECK((links.rates == std::vector<double>{0} && links.delay == 0));
  CHECK(read_links(2, nullptr, "1.5ms", links) == "");
  CHECK((links.rates == std::vector<double>{0, 0} && links.delay == 1.5e-3));
  CHECK(read_links(3, "2.5gbit", nullptr, links) == "");
  CHECK(links.rates == std::vector<double>{2.5e9, 2.5e9, 2.5e9});
  CHECK(read_links(0, "1gbit,100mbit", "20us", links) == "");
  CHECK(links.rates == std::vector<double>{1e9, 100e6});
  CHECK(contains(read_links(3, "1gbit,2gbit", nullptr, links), "2 rates, for 3 rails"));
  for (const char* rate : {"", "1", "gbit", "1gbit,", "0mbit", "-1mbit", "1 gbit", "infgbit", "1e3mbit"}) {
    INFO(rate);
    CHECK(contains(read_links(0, rate, nullptr, links), "--rate wants"));
  }
  CHECK(contains(read_links(0, nullptr, "5", links), "--delay wants"));
}
