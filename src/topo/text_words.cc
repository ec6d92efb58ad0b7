#include "topo/text_words.h"

#include <charconv>
#include <cmath>

namespace ronde::topo {
namespace {

constexpr GpuWord kGpuWords[] = {
    {"p100", 60, "", kGpuClass, 8000},      {"v100", 70, "", kGpuClass, 8000},      {"a100", 80, "", kGpuClass, 16000},
    {"a10g", 86, "", kGpuClass, 16000},     {"a6000", 86, "", kGpuClass, 16000},    {"l4", 89, "", kGpuClass, 16000},
    {"l20", 89, "", kGpuClass, 16000},      {"l40s", 89, "", kGpuClass, 16000},     {"h100", 90, "", kGpuClass, 32000},
    {"h200", 90, "", kGpuClass, 32000},     {"b200", 100, "", kGpuClass, 32000},    {"b300", 103, "", kGpuClass, 64000},
    {"mi100", 120, "908", 0x038000, 16000}, {"mi250", 110, "910", 0x038000, 16000}, {"mi300x", 304, "gfx942", 0x120000, 32000},
};

constexpr CpuWord kCpuWords[] = {
    {"broadwell", "x86_64", "GenuineIntel", 6, 79},
    {"skylake", "x86_64", "GenuineIntel", 6, 85},
    {"icelake", "x86_64", "GenuineIntel", 6, 106},
    {"sapphire", "x86_64", "GenuineIntel", 6, 143},
    {"emerald", "x86_64", "GenuineIntel", 6, 207},
    {"rome", "x86_64", "AuthenticAMD", 23, 49},
    {"milan", "x86_64", "AuthenticAMD", 25, 1},
    {"genoa", "x86_64", "AuthenticAMD", 25, 17},
    {"grace", "arm64", "", -1, -1},
    {"power9", "ppc64", "", -1, -1},
};

/// "gen4x16": MT/s and lanes.
bool parse_generation(std::string_view word, Pci& pci) {
  if (word.size() < 6 || word.substr(0, 3) != "gen" || word[3] < '1' || word[3] > '7' || word[4] != 'x') return false;
  constexpr int32_t kSpeeds[] = {2500, 5000, 8000, 16000, 32000, 64000, 128000};
  int width = 0;
  const auto [end, code] = std::from_chars(word.data() + 5, word.data() + word.size(), width);
  if (code != std::errc() || end != word.data() + word.size() || width < 1 || width > 32) return false;
  pci.speed = kSpeeds[word[3] - '1'];
  pci.width = width;
  return true;
}

}  // namespace

const GpuWord* gpu_word(std::string_view word) {
  for (const GpuWord& row : kGpuWords) {
    if (row.word == word) return &row;
  }
  return nullptr;
}

const CpuWord* cpu_word(std::string_view word) {
  for (const CpuWord& row : kCpuWords) {
    if (row.word == word) return &row;
  }
  return nullptr;
}

int64_t gbits_word(std::string_view word) {
  int64_t gbits = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), gbits);
  return code == std::errc() && end + 1 == word.data() + word.size() && *end == 'G' && gbits > 0 && gbits <= 6400 ? gbits * 1000
                                                                                                                  : 0;
}

bool number_word(std::string_view word, std::initializer_list<Field> fields) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  std::string_view value = word.substr(equals + 1);
  for (const Field& field : fields) {
    if (field.key != word.substr(0, equals)) continue;
    int64_t number = -1;
    if (value != "-") {
      const bool hex = value.substr(0, 2) == "0x";
      if (hex) value.remove_prefix(2);
      const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number, hex ? 16 : 10);
      if (code != std::errc() || end != value.data() + value.size() || number < 0) return false;
    }
    if (number < field.low || number > field.high) return false;
    if (field.place != nullptr)
      *field.place = static_cast<int>(number);
    else
      *field.wide_place = number;
    return true;
  }
  return false;
}

bool text_word(std::string_view word, std::string_view key, std::string& place) {
  if (word.size() <= key.size() || word.substr(0, key.size()) != key || word[key.size()] != '=') return false;
  place = word.substr(key.size() + 1);
  return true;
}

bool hex_word(std::string_view word, std::string_view key, uint64_t& place) {
  std::string text;
  uint64_t value = 0;
  if (!text_word(word, key, text)) return false;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (code != std::errc() || end != text.data() + text.size()) return false;
  place = value;
  return true;
}

bool mask_word(std::string_view word, CpuMask& place) {
  std::string text;
  const auto mask = text_word(word, "cpus", text) ? CpuMask::parse(text) : std::nullopt;
  if (mask) place = *mask;
  return mask.has_value();
}

bool pci_word(std::string_view word, Pci& pci) {
  std::string busid;
  if (text_word(word, "busid", busid)) {
    const auto address = parse_pci_address(busid);
    if (address) pci.address = *address;
    return address.has_value();
  }
  return parse_generation(word, pci) || number_word(word, {{"class", &pci.device_class, -1, 0xffffff},
                                                           {"vendor", &pci.vendor, -1, 0xffff},
                                                           {"device", &pci.device, -1, 0xffff},
                                                           {"subvendor", &pci.subsystem_vendor, -1, 0xffff},
                                                           {"subdevice", &pci.subsystem_device, -1, 0xffff},
                                                           {"speed", &pci.speed, 0, 1024000},
                                                           {"width", &pci.width, 0, 32}});
}

bool port_word(std::string_view word, Port& port) {
  if (const int64_t speed = gbits_word(word); speed != 0) {
    port.speed = speed;
    return true;
  }
  std::string text;
  if (text_word(word, "latency", text)) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port.latency);
    return code == std::errc() && end == text.data() + text.size() && std::isfinite(port.latency) && !std::signbit(port.latency);
  }
  if (uint64_t guid = 0; hex_word(word, "guid", guid)) {
    port.guid = guid;
    return true;
  }
  return text_word(word, "name", port.name) || number_word(word, {{"dev", &port.dev},
                                                                  {"mbits", nullptr, 0, INT64_MAX, &port.speed},
                                                                  {"port", &port.port},
                                                                  {"maxconn", &port.maxconn},
                                                                  {"gdr", &port.gdr, -1, 1},
                                                                  {"coll", &port.coll, -1, 1},
                                                                  {"net", &port.net, -1, 1},
                                                                  {"gin", &port.gin, -1, 1},
                                                                  {"rma", &port.rma, -1, 1},
                                                                  {"rail", &port.rail},
                                                                  {"plane", &port.plane}});
}

}  // namespace ronde::topo
