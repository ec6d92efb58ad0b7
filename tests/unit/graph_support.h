// Machines for the tests of graph, as topology files state them.
#pragma once

#include <string>
#include <vector>

#include "support/topo.h"

namespace ronde::test {

inline std::string nvlink(const std::string& target, int count, const std::string& target_class = "0x030200") {
  return "<nvlink target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" + target_class + "\"/>";
}
inline std::string to_switch(int count) { return nvlink("fffffff:ff:ff.0", count, "0x068000"); }

/// A GPU of 7.0 on PCI x16 of the fourth generation (24 GB/s); 20 GB/s for each NVLink.
inline std::string gpu(int rank, const std::string& busid, const std::string& inside = "") {
  const std::string number = std::to_string(rank);
  return "<pci busid=\"" + busid + "\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"" + number +
         "\" sm=\"70\" rank=\"" + number + "\" gdr=\"1\">" + inside + "</gpu></pci>";
}
inline std::string pci_switch(const std::string& busid, const std::string& inside, int width = 16) {
  return "<pci busid=\"" + busid + "\" class=\"0x060400\" link_speed=\"16 GT/s\" link_width=\"" + std::to_string(width) + "\">" +
         inside + "</pci>";
}
/// 16 GB/s to other CPUs.
inline std::string cpu(int numa, const std::string& inside, const std::string& hash = "1") {
  return "<cpu host_hash=\"" + hash + "\" numaid=\"" + std::to_string(numa) + "\" arch=\"x86_64\" vendor=\"AuthenticAMD\">" +
         inside + "</cpu>";
}
inline topo::Machine machine(const std::string& inside) {
  return read_machine("<system version=\"1\">" + inside + "</system>").machine;
}
inline std::string bus(int device) { return "0000:" + std::to_string(10 + device) + ":00.0"; }

/// `devices` GPUs, half of them on each of two CPUs, each with 6 links to an NVLink switch.
inline topo::Machine switch_box(int devices) {
  std::string near;
  std::string far;
  for (int i = 0; i < devices; ++i) (i < devices / 2 ? near : far) += gpu(i, bus(i), to_switch(6));
  return machine(cpu(0, near) + cpu(1, far));
}

/// Eight GPUs with six NVLinks each: two cliques of four and a link between the like ones, some links doubled.
inline topo::Machine cube_mesh() {
  const std::vector<std::vector<int>> links = {{1, 1, 2, 2, 3, 4}, {0, 0, 2, 3, 3, 5}, {0, 0, 1, 3, 6, 6}, {0, 1, 1, 2, 7, 7},
                                               {0, 5, 5, 6, 6, 7}, {1, 4, 4, 6, 7, 7}, {2, 2, 4, 4, 5, 7}, {3, 3, 4, 5, 5, 6}};
  std::string halves[2];
  for (int i = 0; i < 8; ++i) {
    std::string inside;
    for (int to = 0; to < 8; ++to) {
      int count = 0;
      for (const int link : links[static_cast<size_t>(i)]) count += link == to;
      if (count > 0) inside += nvlink(bus(to), count);
    }
    halves[i / 4] += gpu(i, bus(i), inside);
  }
  return machine(cpu(0, halves[0]) + cpu(1, halves[1]));
}

/// Two CPUs with a PCI switch each, `each` GPUs on it.
inline topo::Machine pci_box(int each) {
  std::string near;
  std::string far;
  for (int i = 0; i < each; ++i) near += gpu(i, bus(i));
  for (int i = each; i < 2 * each; ++i) far += gpu(i, bus(i));
  return machine(cpu(0, pci_switch("0000:01:00.0", near)) + cpu(1, pci_switch("0000:02:00.0", far)));
}

inline std::vector<topo::NodeId> gpus(const topo::Machine& machine) { return machine.of_kind(topo::NodeKind::gpu); }

}  // namespace ronde::test
