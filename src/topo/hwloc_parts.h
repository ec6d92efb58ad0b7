// hwloc as a source of detection: its XML, from a file or from its library.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "topo/detect_parts.h"
#include "topo/hwloc.h"
#include "topo/xml_dom.h"

namespace ronde::topo {

/// Hexadecimal words of 32 bits between commas, each with 0x, those that are 0 often left out; the infinite set ("0xf...f") and
/// "" are unknown. Nothing for any other text.
std::optional<CpuMask> parse_hwloc_set(std::string_view text);

/// A PCI link as hwloc states it: its payload in GB/s, of all lanes together. Of the pairs of speed and width that make it up,
/// all of which carry the same, the widest of at most 16 lanes; none of them where no pair does.
void set_hwloc_link(double gbps, Pci& pci);

/// What the name of an NVIDIA model says: compute capability, and MB/s of an NVLink as hwloc counts them.
struct HwlocModel {
  std::string_view name;
  int sm;
  int64_t link_rate;
};
inline constexpr HwlocModel kHwlocModels[] = {{"P100", 60, 20000},   {"V100", 70, 25000},  {"A100", 80, 25000},
                                              {"A800", 80, 25000},   {"H100", 90, 25000},  {"H200", 90, 25000},
                                              {"H800", 90, 25000},   {"GH200", 90, 25000}, {"B200", 100, 50000},
                                              {"GB200", 100, 50000}, {"B300", 103, 50000}, {"GB300", 103, 50000}};

/// What hwloc's XML, a document whose root is <topology>, says of a host. hwloc knows neither speeds of ports nor, mostly, models
/// of GPUs. What is missing is unknown, what is broken an invalid_argument that names file:line, element and attribute.
Result<HostFacts> read_hwloc(const XmlDocument& document, Notes& notes);

/// What hwloc finds on the running host; nothing, and a note, where it fails, or is of a version that is not known. No note where
/// it is not there.
std::optional<HostFacts> ask_hwloc(const HwlocApi& api, Notes& notes);
/// Adds to a host's own facts what they lack: where functions are, functions that are not in them, links of GPUs without any.
void add_hwloc(HostFacts hwloc, HostFacts& facts);

}  // namespace ronde::topo
