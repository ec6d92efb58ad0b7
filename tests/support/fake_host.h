// A host's /sys and /proc, written by a test into a folder of its own.
#pragma once

#include <stdlib.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/scratch.h"

namespace ronde::test {

namespace fs = std::filesystem;

class FakeHost {
 public:
  const std::string& root() const { return folder_.root(); }
  std::string at(const std::string& path) const { return root() + path; }

  void file(const std::string& path, const std::string& text) const {
    fs::remove(at(path));  // file systems may flush what is overwritten
    fs::create_directories(fs::path(at(path)).parent_path());
    std::ofstream(at(path), std::ios::binary) << text;
  }
  void link(const std::string& path, const std::string& target) const {
    fs::create_directories(fs::path(at(path)).parent_path());
    fs::create_symlink(target, at(path));
  }

  void numa(int id, const std::string& map, const std::string& distance = "") const {
    const std::string folder = "/sys/devices/system/node/node" + std::to_string(id);
    file(folder + "/cpumap", map + "\n");
    if (!distance.empty()) file(folder + "/distance", distance + "\n");
  }

  /// A function at `path` below /sys/devices. `link` is "current speed, current width, max speed, max width".
  std::string pci(const std::string& path, const std::string& kind, const std::string& vendor, const std::string& numa,
                  const std::vector<std::string>& link) const {
    const std::string folder = "/sys/devices/" + path;
    file(folder + "/class", kind + "\n");
    file(folder + "/vendor", vendor + "\n");
    file(folder + "/device", "0x1234\n");
    file(folder + "/numa_node", numa + "\n");
    const char* names[] = {"current_link_speed", "current_link_width", "max_link_speed", "max_link_width"};
    for (size_t i = 0; i < link.size(); ++i) file(folder + "/" + names[i], link[i] + "\n");
    this->link("/sys/bus/pci/devices/" + fs::path(path).filename().string(), "../../../devices/" + path);
    return path;
  }

  void net(const std::string& device, const std::string& name, const std::string& speed) const {
    file("/sys/devices/" + device + "/net/" + name + "/speed", speed + "\n");
    file("/sys/devices/" + device + "/net/" + name + "/type", "1\n");
    link("/sys/devices/" + device + "/net/" + name + "/device", "../../../" + fs::path(device).filename().string());
    link("/sys/class/net/" + name, "../../devices/" + device + "/net/" + name);
  }

  void rdma(const std::string& device, const std::string& name, const std::vector<std::string>& rates,
            const std::string& guid) const {
    const std::string folder = "/sys/devices/" + device + "/infiniband/" + name;
    file(folder + "/node_guid", guid + "\n");
    for (size_t i = 0; i < rates.size(); ++i) {
      const std::string port = folder + "/ports/" + std::to_string(i + 1);
      file(port + "/rate", rates[i] + "\n");
      file(port + "/state", "4: ACTIVE\n");
      file(port + "/link_layer", "InfiniBand\n");
    }
    link(folder + "/device", "../../../" + fs::path(device).filename().string());
    link("/sys/class/infiniband/" + name, "../../devices/" + device + "/infiniband/" + name);
  }

 private:
  Scratch folder_;
};

}  // namespace ronde::test
