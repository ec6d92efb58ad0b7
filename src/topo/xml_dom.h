// An XML document with line numbers, and typed attributes whose errors say where they stand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pugixml.hpp>

#include "base/result.h"

namespace ronde::topo {

/// A parsed document. Elements are pugi nodes that live as long as it does.
class XmlDocument {
 public:
  /// `file` is the text's name for messages. Refuses texts that are no well-formed XML, too large, or have an attribute twice in
  /// one element.
  static Result<std::unique_ptr<XmlDocument>> parse(std::string_view text, const std::string& file);

  /// The outermost element.
  pugi::xml_node root() const { return document_.document_element(); }
  int line(pugi::xml_node element) const { return line_at(static_cast<size_t>(element.offset_debug())); }

  /// An error where text stands between elements.
  Result<> no_text() const;

  /// invalid_argument: "file:line: <element>: what".
  Error error(pugi::xml_node element, const std::string& what) const;
  /// The same about one of its attributes: "file:line: <element> name="value": what".
  Error error(pugi::xml_node element, const char* attribute, const std::string& what) const;

  /// The attribute's text; "" where there is none.
  static std::string_view text(pugi::xml_node element, const char* attribute) { return element.attribute(attribute).value(); }
  /// A decimal number, or a hexadecimal one after 0x, in low..high; `absent` where there is no attribute or it is empty.
  Result<int64_t> integer(pugi::xml_node element, const char* attribute, int64_t absent, int64_t low, int64_t high) const;
  /// A finite number that is not negative; 0 where there is none.
  Result<double> real(pugi::xml_node element, const char* attribute) const;
  /// 64 bits, with or without 0x.
  Result<std::optional<uint64_t>> hexadecimal(pugi::xml_node element, const char* attribute) const;

 private:
  XmlDocument(std::string_view text, const std::string& file);
  int line_at(size_t offset) const;
  std::string place(size_t line) const;
  Result<> check_shape();

  std::string file_;
  std::vector<size_t> newlines_;  ///< offsets
  pugi::xml_document document_;
  pugi::xml_node first_text_;
};

}  // namespace ronde::topo
