#include "comm/hosts.h"

#include <charconv>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/thread.h"

namespace ronde {
namespace {

/// "2", "0,1,1": the numbers; nothing for anything else.
std::vector<int> numbers_of(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0) return {};
    numbers.push_back(number);
    if (next == end) return numbers;
    if (*next != ',') return {};
    at = next + 1;
  }
}

}  // namespace

Result<std::shared_ptr<const Config>> on_pretended_host(std::shared_ptr<const Config> config, int rank, int ranks) {
  const std::string& text = config->text(Setting::hosts);
  if (text.empty()) return config;
  const std::vector<int> hosts = numbers_of(text);
  const bool number = hosts.size() == 1 && hosts[0] >= 1 && text.find(',') == std::string::npos;
  if (!number && hosts.size() != static_cast<size_t>(ranks)) {
    return fail(Code::invalid_usage, fmt::format("{}={}: expected a number of hosts, 1 or more, or the host of each of the {} ranks (as 0,1,1,0)",
                                                 config->source(Setting::hosts), text, ranks), Scope::communicator);
  }
  const int64_t host = number ? int64_t{rank} * hosts[0] / ranks : hosts[static_cast<size_t>(rank)];
  const std::string& real = config->text(Setting::hostid);
  const std::string identity = fmt::format("{}/{}", real.empty() ? host_name() : real, host);
  return std::make_shared<const Config>(config->with(Setting::hostid, identity, config->source(Setting::hosts)));
}

}  // namespace ronde
