#include "gpu-emulator/driver/settings.h"

#include <fmt/core.h>

#include <cstdlib>

#include "gpu-emulator/memory.h"

namespace emu::driver {
namespace {

using ronde::Code;
using ronde::Result;

std::string text_of(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

ronde::Error wrong(const char* name, const std::string& value, const char* wanted) {
  return ronde::fail(Code::invalid_argument, fmt::format("{}=\"{}\" is not {}", name, value, wanted));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t end = text.find(separator); end != std::string::npos; start = end + 1, end = text.find(separator, start))
    parts.push_back(text.substr(start, end - start));
  parts.push_back(text.substr(start));
  return parts;
}

/// A number with K, M or G, from 0 to `most`; -1: it is none.
int64_t number(std::string text, int64_t most) {
  int shift = 0;
  if (!text.empty()) {
    const char last = text.back();
    shift = last == 'K' ? 10 : last == 'M' ? 20 : last == 'G' ? 30 : 0;
    if (shift > 0) text.pop_back();
  }
  if (text.empty() || text.size() > 15) return -1;
  int64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return -1;
    value = 10 * value + (digit - '0');
  }
  return value <= most >> shift ? value << shift : -1;
}

template <class Int>
Result<> read_number(const char* name, int64_t least, int64_t most, const char* wanted, Int& out) {
  const std::string text = text_of(name, "");
  if (text.empty()) return {};
  const int64_t value = number(text, most);
  if (value < least) return wrong(name, text, wanted);
  out = static_cast<Int>(value);
  return {};
}

Result<> read_flag(const char* name, bool& out) { return read_number(name, 0, 1, "0 or 1", out); }

Result<> read_peers(Settings& settings) {
  const char* name = "RONDE_EMU_PEERS";
  const std::string text = text_of(name, "all");
  settings.peers.assign(static_cast<size_t>(settings.devices), 0);
  if (text == "none") return {};
  std::vector<std::vector<int>> groups;
  if (text == "all") {
    groups.emplace_back();
    for (int device = 0; device < settings.devices; ++device) groups.back().push_back(device);
  } else {
    for (const std::string& group : split(text, '/')) {
      groups.emplace_back();
      for (const std::string& member : split(group, ',')) {
        const int64_t device = number(member, settings.devices - 1);
        if (device < 0) return wrong(name, text, "all, none, or devices in groups such as 0,1/2,3");
        groups.back().push_back(static_cast<int>(device));
      }
    }
  }
  for (const auto& group : groups) {
    for (const int one : group) {
      for (const int other : group) {
        if (one != other) settings.peers[static_cast<size_t>(one)] |= uint64_t{1} << other;
      }
    }
  }
  return {};
}

Result<> read_corrupt(Settings& settings) {
  const char* name = "RONDE_EMU_CORRUPT";
  const std::string text = text_of(name, "");
  if (text.empty()) return {};
  for (const std::string& pair : split(text, ',')) {
    const auto ends = split(pair, '-');
    const int64_t one = number(ends[0], settings.devices - 1);
    const int64_t other = ends.size() == 2 ? number(ends[1], settings.devices - 1) : -1;
    if (one < 0 || other < 0) return wrong(name, text, "pairs of devices such as 0-1,2-3");
    settings.corrupt.emplace_back(static_cast<int>(one), static_cast<int>(other));
  }
  return {};
}

Result<> read_links(Settings& settings) {
  const char* name = "RONDE_EMU_NVLINKS";
  std::string text = text_of(name, "switch:18");
  settings.nvswitch = text.rfind("switch:", 0) == 0;
  const int64_t links = number(settings.nvswitch ? text.substr(7) : text, 18);
  if (links < 0) return wrong(name, text, "a number of links up to 18, or switch: and such a number");
  settings.nvlinks = static_cast<int>(links);
  return {};
}

Result<> read_pci(Settings& settings) {
  const std::string text = text_of("RONDE_EMU_PCI", "");
  if (!text.empty()) settings.pci = split(text, ',');
  for (int device = static_cast<int>(settings.pci.size()); text.empty() && device < settings.devices; ++device)
    settings.pci.push_back(fmt::format("00E0:{:02X}:00.0", device + 1));
  if (settings.pci.size() != static_cast<size_t>(settings.devices))
    return wrong("RONDE_EMU_PCI", text, "a bus id for each device, separated by commas");
  return {};
}

Result<> read_modes(Options& options) {
  const std::string text = text_of("RONDE_EMU_MODES", "");
  if (text.empty()) return {};
  for (const std::string& mode : split(text, ',')) {
    if (mode == "weak_stores") {
      options.weak_stores = true;
    } else if (mode == "stale_loads") {
      options.stale_loads = true;
    } else if (mode == "harsh_vectors") {
      options.harsh_vectors = true;
    } else if (mode == "any_order") {
      options.any_order = true;
    } else if (mode == "races") {
      options.races = true;
    } else {
      return wrong("RONDE_EMU_MODES", text, "made of weak_stores, stale_loads, harsh_vectors, any_order, races");
    }
  }
  return {};
}

/// As the driver reads it: the first word that is no device ends the list.
void read_shown(Settings& settings) {
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int device = 0; device < settings.devices; ++device) settings.shown.push_back(device);
    return;
  }
  for (const std::string& word : split(text, ',')) {
    const int64_t device = number(word, settings.devices - 1);
    if (device < 0) break;
    settings.shown.push_back(static_cast<int>(device));
  }
}

}  // namespace

Result<Settings> read_settings() {
  Settings settings;
  RONDE_TRY(read_number("RONDE_EMU_DEVICES", 0, kMaxDevices, "a number of devices up to 64", settings.devices));
  const std::string capability = text_of("RONDE_EMU_CAPABILITY", "9.0");
  const auto parts = split(capability, '.');
  const int64_t major = number(parts[0], 99);
  const int64_t minor = parts.size() == 2 ? number(parts[1], 9) : -1;
  if (major < 1 || minor < 0) return wrong("RONDE_EMU_CAPABILITY", capability, "a compute capability such as 9.0");
  settings.capability = static_cast<int>(10 * major + minor);
  settings.name = text_of("RONDE_EMU_NAME", settings.name);
  RONDE_TRY(read_number("RONDE_EMU_MEMORY", 1 << 20, int64_t{1} << 40, "a number of bytes from 1M to 1024G", settings.memory));
  RONDE_TRY(read_number("RONDE_EMU_SMS", 1, 1024, "a number of multiprocessors up to 1024", settings.multiprocessors));
  RONDE_TRY(read_peers(settings));
  RONDE_TRY(read_corrupt(settings));
  RONDE_TRY(read_links(settings));
  RONDE_TRY(read_pci(settings));
  RONDE_TRY(read_flag("RONDE_EMU_MULTICAST", settings.multicast));
  RONDE_TRY(read_flag("RONDE_EMU_IPC", settings.ipc));
  RONDE_TRY(read_flag("RONDE_EMU_VMM", settings.vmm));
  RONDE_TRY(read_number("RONDE_EMU_DRIVER", 11000, 99000, "a driver version such as 12040", settings.driver));
  settings.errors = text_of("RONDE_EMU_ERRORS", "");
  read_shown(settings);
  RONDE_TRY(read_number("RONDE_EMU_SEED", 0, int64_t{1} << 48, "a number", settings.options.seed));
  RONDE_TRY(read_number("RONDE_EMU_LIMIT", 0, int64_t{1} << 32, "a number of milliseconds", settings.options.limit_ms));
  RONDE_TRY(read_modes(settings.options));
  return settings;
}

}  // namespace emu::driver
