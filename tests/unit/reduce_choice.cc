// Which table is taken: the best of the machine, or the one that a setting names.
#include "kernels/cpu/tables.h"
#include "support/catch.h"

namespace ronde {
namespace {

bool never() { return false; }
const ReduceTable kMissing{"avx9000", never, {}};

}  // namespace

TEST_CASE("tables: best first, the scalar one last, all complete", "[reduce]") {
  const auto tables = reduce_tables();
  REQUIRE(!tables.empty());
  CHECK(tables.back() == &scalar_table);
  CHECK(scalar_table.supported());
  for (const ReduceTable* table : tables) {
    for (const auto& row : table->fn) {
      for (ReduceFn fn : row) CHECK(fn != nullptr);
    }
  }
#if defined(__x86_64__)
  CHECK(tables.size() == 4);
#elif defined(__aarch64__)
  CHECK(tables.size() == 2);
#endif
}

TEST_CASE("tables: nothing forced takes the best that the machine supports", "[reduce]") {
  for (std::string_view any : {"", "auto", "AUTO"}) {
    const auto chosen = choose_reduce_table(any);
    REQUIRE(chosen);
    REQUIRE((*chosen)->supported());
    for (const ReduceTable* table : reduce_tables()) {
      if (table == *chosen) break;
      CHECK(!table->supported());
    }
  }
}

TEST_CASE("tables: each can be forced by its name", "[reduce]") {
  for (const ReduceTable* table : reduce_tables()) {
    const auto chosen = choose_reduce_table(table->isa);
    if (table->supported()) {
      REQUIRE(chosen);
      CHECK(*chosen == table);
    } else {
      CHECK(chosen.code() == Code::invalid_argument);
    }
  }
}

TEST_CASE("tables: a name may be written in any case", "[reduce]") {
  const auto chosen = choose_reduce_table("Scalar");
  REQUIRE(chosen);
  CHECK(*chosen == &scalar_table);
}

TEST_CASE("tables: the error for an unknown name says which exist and which the machine has", "[reduce]") {
  const ReduceTable* const tables[] = {&kMissing, &scalar_table};
  const auto unknown = choose_reduce_table("sse1", tables);
  REQUIRE(unknown.code() == Code::invalid_argument);
  CHECK(
      unknown.error().what ==
      "Instruction set 'sse1' cannot be used for reductions: there is no such name. This build has avx9000, scalar; this machine "
      "supports scalar. Set RONDE_ISA to one of the latter, or to auto for the best of them.");
  const auto missing = choose_reduce_table("avx9000", tables);
  REQUIRE(missing.code() == Code::invalid_argument);
  CHECK(test::contains(missing.error().what, "this machine does not have it"));
  const auto best = choose_reduce_table("auto", tables);
  REQUIRE(best);
  CHECK(*best == &scalar_table);
}

}  // namespace ronde
