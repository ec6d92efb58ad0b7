// docs/settings.md has the table of options as users see it; `test_golden "[.rewrite]"` writes that table anew.
#include <fmt/core.h>
#include <fstream>
#include <sstream>

#include "base/config.h"
#include "support/catch.h"

using namespace ronde;

namespace {

constexpr const char* kPage = "docs/settings.md";

std::string spaced(std::string words) {
  for (size_t at = 0; (at = words.find(',', at)) != std::string::npos; at += 2) words.insert(at + 1, " ");
  return words;
}

/// What a value may be, in words.
std::string values_of(const Option& option) {
  const auto range = [&](const char* unit) {
    if (option.high > 1e8) return fmt::format("{} from {:.0f}", unit, option.low);
    return fmt::format("{} {:.0f} to {:.0f}", unit, option.low, option.high);
  };
  switch (option.kind) {
    case Kind::flag: return "0, 1";
    case Kind::choice: return spaced(option.words);
    case Kind::distance: return spaced(option.words) + ", or an old number from 0";
    case Kind::integer: return range("integer");
    case Kind::bytes: return range("bytes");
    case Kind::seconds: return range("seconds");
    case Kind::text: break;
  }
  return "text";
}

std::string table() {
  std::string text = "| Name | NCCL's | Values | Default | Meaning |\n|---|---|---|---|---|\n";
  for (const Option& option : options()) {
    const std::string fallback = *option.fallback == '\0' ? "unset" : option.fallback;
    text += fmt::format("| RONDE_{} | {} | {} | {} | {} |\n", option.name, option.alias != nullptr ? "yes" : "", values_of(option),
                        fallback, option.help);
  }
  return text;
}

std::string page() {
  std::ifstream in(kPage);
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("golden: docs/settings.md has every setting as it is", "[settings]") {
  for (const Option& option : options()) {
    INFO(option.name);
    REQUIRE((option.alias == nullptr || option.alias == fmt::format("NCCL_{}", option.name)));
  }
  REQUIRE(page().find("\n\n" + table() + "\n") != std::string::npos);
}

TEST_CASE("golden: write the table of settings anew", "[.rewrite]") {
  std::string text = page();
  const size_t from = text.find("| Name |");
  const size_t end = text.find("\n\n", from);
  REQUIRE(end != std::string::npos);
  text.replace(from, end + 1 - from, table());
  std::ofstream out(kPage);
  out << text;
  REQUIRE(out.good());
}
