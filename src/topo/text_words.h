// What both directions of the text form share: how it is split into items, words that stand for models, and what is counted up
// where nothing is stated.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "topo/machine.h"

namespace ronde::topo {

/// A line of the text with what its braces hold: [count] kind words { children }.
struct TextItem {
  int line = 0;
  int count = 1;
  std::string kind;
  std::vector<std::string> words;
  std::vector<TextItem> children;
};
Result<std::vector<TextItem>> split_text(std::string_view text, const std::string& file);

/// A model of GPU and what it stands for.
struct GpuWord {
  std::string_view word;
  int sm;
  std::string_view gcn;
  int32_t device_class;
  int32_t speed;  ///< MT/s
};
/// nullptr for any other word.
const GpuWord* gpu_word(std::string_view word);

/// A model of CPU and what it stands for.
struct CpuWord {
  std::string_view word;
  std::string_view arch;
  std::string_view vendor;
  int family;
  int model;
};
const CpuWord* cpu_word(std::string_view word);

inline constexpr int64_t kMaxNumber = 0x7fffffff;

/// A word "key=number", where it goes and what it may be. Of the two places one is used.
struct Field {
  std::string_view key;
  int* place = nullptr;
  int64_t low = -1;
  int64_t high = kMaxNumber;
  int64_t* wide_place = nullptr;
};

// Each takes a word that it understands, and is false for any other one: numbers (in decimal, or hexadecimal after 0x; "-" for
// -1), "key=text", "key=" with 64 bits in hexadecimal, "cpus=mask", what a PCI function says of itself, what a port does, and
// "400G" (the Mbit/s, or 0).
bool number_word(std::string_view word, std::initializer_list<Field> fields);
bool text_word(std::string_view word, std::string_view key, std::string& place);
bool hex_word(std::string_view word, std::string_view key, uint64_t& place);
bool mask_word(std::string_view word, CpuMask& place);
bool pci_word(std::string_view word, Pci& pci);
bool port_word(std::string_view word, Port& port);
int64_t gbits_word(std::string_view word);

inline constexpr int32_t kSwitchClass = 0x060400;
inline constexpr int32_t kGpuClass = 0x030200;
inline constexpr int32_t kNicClass = 0x020000;

/// The numbers that items have where they state none, per host except for ranks. Each item takes its number, also where it states
/// another.
class Counting {
 public:
  void begin_host() { numa_ = dev_ = port_ = bus_ = 0; }
  int numa() { return numa_++; }
  int gpu() { return dev_++; }
  int port() { return port_++; }
  int rank() { return rank_++; }
  PciAddress address() {
    ++bus_;
    return {static_cast<uint32_t>(bus_ >> 8), static_cast<uint8_t>(bus_ & 0xff), 0, 0};
  }

 private:
  int numa_ = 0;
  int dev_ = 0;
  int port_ = 0;
  int bus_ = 0;
  int rank_ = 0;
};

}  // namespace ronde::topo
