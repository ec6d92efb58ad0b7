#include "transport/verbs/hca.h"

#include <algorithm>
#include <charconv>

namespace ronde::net {
namespace {

/// Takes what stands before the next separator from `text`.
std::string_view next_part(std::string_view* text, char separator) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(std::min(end + 1, text->size()));
  return part;
}

}  // namespace

HcaFilter::HcaFilter(std::string_view text) {
  const auto take = [&](char mark) {
    const bool there = !text.empty() && text.front() == mark;
    if (there) text.remove_prefix(1);
    return there;
  };
  exclude_ = take('^');
  exact_ = take('=');
  while (!text.empty()) {
    const std::string_view whole = next_part(&text, ',');
    std::string_view rest = whole;
    Entry entry;
    entry.name = next_part(&rest, ':');
    const std::string_view port = next_part(&rest, ':');
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), entry.port);
    if (!port.empty() && (error != std::errc() || end != port.data() + port.size() || entry.port < 1)) {
      wrong_.emplace_back(whole);
    } else if (!entry.name.empty()) {
      entries_.push_back(std::move(entry));
    }
  }
}

bool HcaFilter::admits(std::string_view adapter, int port) const {
  if (entries_.empty()) return true;
  const bool named = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const bool name = exact_ ? adapter == entry.name : adapter.substr(0, entry.name.size()) == entry.name;
    return name && (entry.port == 0 || entry.port == port);
  });
  return named != exclude_;
}

}  // namespace ronde::net
