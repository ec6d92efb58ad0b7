#include "topo/xml_dom.h"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/words.h"

namespace ronde::topo {
namespace {

// Far beyond any machine (a rack of 72 GPUs takes 500 elements), and what keeps reading bounded.
constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr int kMaxElements = 50000;
constexpr int kMaxDepth = 64;
constexpr int kMaxAttributes = 64;

/// For messages: what is shown of a value.
std::string shown(std::string_view value) {
  constexpr size_t kShown = 60;
  const std::string text = printable(value.substr(0, kShown));
  return value.size() > kShown ? text + "..." : text;
}

/// True where `text` as a whole was a number of `base`.
template <class T>
bool number(std::string_view text, T& value, int base) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}

std::string_view without_0x(std::string_view text) {
  return text.substr(0, 2) == "0x" || text.substr(0, 2) == "0X" ? text.substr(2) : text;
}

}  // namespace

XmlDocument::XmlDocument(std::string_view text, const std::string& file) : file_(file) {
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) newlines_.push_back(at);
}

int XmlDocument::line_at(size_t offset) const {
  return static_cast<int>(std::lower_bound(newlines_.begin(), newlines_.end(), offset) - newlines_.begin()) + 1;
}

std::string XmlDocument::place(size_t line) const { return fmt::format("{}:{}: ", file_, line); }

Result<std::unique_ptr<XmlDocument>> XmlDocument::parse(std::string_view text, const std::string& file) {
  if (text.size() > kMaxBytes) {
    return fail(
        Code::invalid_argument,
        fmt::format("{}: a file of {} bytes; at most {} are read, far more than any machine takes: name a topology or graph file",
                    file, text.size(), kMaxBytes));
  }
  auto parsed = std::unique_ptr<XmlDocument>(new XmlDocument(text, file));
  const pugi::xml_parse_result result =
      parsed->document_.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (result) {
    RONDE_TRY(parsed->check_shape());
    return parsed;
  }
  // The deepest of the last elements is where the trouble began, or the last one that was whole.
  pugi::xml_node last = parsed->root();
  while (last.last_child().type() == pugi::node_element) last = last.last_child();
  std::string what =
      parsed->place(static_cast<size_t>(parsed->line_at(static_cast<size_t>(std::max<ptrdiff_t>(0, result.offset)))));
  what += fmt::format("not well-formed XML: {}", result.description());
  if (last) what += fmt::format("; the last element before it is <{}> in line {}", shown(last.name()), parsed->line(last));
  const size_t end = text.find_last_not_of(" \t\r\n");
  if (last && end != std::string_view::npos && result.offset >= static_cast<ptrdiff_t>(end)) what += ". Is the file cut off?";
  return fail(Code::invalid_argument, std::move(what));
}

Result<> XmlDocument::check_shape() {
  if (!root())
    return fail(Code::invalid_argument,
                place(1) + "no element; expected <system> (a topology file), <topology> (of hwloc) or <graphs> (a graph file)");
  if (root().next_sibling()) return error(root().next_sibling(), "a second outermost element");
  int elements = 0;
  int depth = 0;
  // By hand, not by recursion: the depth is the file's choice.
  for (pugi::xml_node node = root(); node;) {
    if (++elements > kMaxElements) return error(node, fmt::format("more than {} elements", kMaxElements));
    if (node.type() != pugi::node_element && !first_text_) first_text_ = node;
    int attributes = 0;
    for (const pugi::xml_attribute attribute : node.attributes()) {
      if (++attributes > kMaxAttributes) return error(node, fmt::format("more than {} attributes", kMaxAttributes));
      if (node.attribute(attribute.name()) != attribute) return error(node, attribute.name(), "stands twice in its element");
    }
    if (node.first_child()) {
      if (++depth > kMaxDepth) return error(node, fmt::format("more than {} elements inside each other", kMaxDepth));
      node = node.first_child();
      continue;
    }
    while (node != root() && !node.next_sibling()) {
      node = node.parent();
      --depth;
    }
    node = node == root() ? pugi::xml_node() : node.next_sibling();
  }
  return Done{};
}

Result<> XmlDocument::no_text() const {
  if (!first_text_) return Done{};
  return error(first_text_.parent(),
               fmt::format("holds text (\"{}\") where only elements may stand", shown(first_text_.value())));
}

Error XmlDocument::error(pugi::xml_node element, const std::string& what) const {
  return fail(Code::invalid_argument,
              place(static_cast<size_t>(line(element))) + fmt::format("<{}>: {}", shown(element.name()), what));
}

Error XmlDocument::error(pugi::xml_node element, const char* attribute, const std::string& what) const {
  return fail(Code::invalid_argument,
              place(static_cast<size_t>(line(element))) + fmt::format("<{}> {}=\"{}\": {}", shown(element.name()),
                                                                      shown(attribute), shown(text(element, attribute)), what));
}

Result<int64_t> XmlDocument::integer(pugi::xml_node element, const char* attribute, int64_t absent, int64_t low,
                                     int64_t high) const {
  const std::string_view value = text(element, attribute);
  if (value.empty()) return absent;
  int64_t result = 0;
  const bool hex = without_0x(value).size() != value.size();
  // A sign after 0x would be taken by the conversion.
  if (!number(without_0x(value), result, hex ? 16 : 10) || (hex && value[2] == '-') || result < low || result > high) {
    return error(element, attribute, fmt::format("expected a whole number from {} to {}", low, high));
  }
  return result;
}

Result<double> XmlDocument::real(pugi::xml_node element, const char* attribute) const {
  const std::string_view value = text(element, attribute);
  if (value.empty()) return 0.0;
  double result = 0;
  const auto [end, error_code] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error_code != std::errc() || end != value.data() + value.size() || !std::isfinite(result) || std::signbit(result)) {
    return error(element, attribute, "expected a number, not negative");
  }
  return result;
}

Result<std::optional<uint64_t>> XmlDocument::hexadecimal(pugi::xml_node element, const char* attribute) const {
  const std::string_view value = text(element, attribute);
  if (value.empty()) return std::optional<uint64_t>();
  uint64_t result = 0;
  if (!number(without_0x(value), result, 16))
    return error(element, attribute, "expected a hexadecimal number of at most 64 bits");
  return std::optional<uint64_t>(result);
}

}  // namespace ronde::topo
