// What the emulated machine is: RONDE_EMU_* variables, read once by cuInit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gpu-emulator/exec/launch.h"

namespace emu::driver {

struct Settings {
  int devices = 4;                    ///< RONDE_EMU_DEVICES
  int capability = 90;                ///< RONDE_EMU_CAPABILITY, "9.0"
  std::string name = "Emulated GPU";  ///< RONDE_EMU_NAME
  size_t memory = size_t{4} << 30;    ///< RONDE_EMU_MEMORY: bytes of each device, with K, M or G
  int multiprocessors = 132;          ///< RONDE_EMU_SMS
  /// RONDE_EMU_PEERS: "all", "none", or groups such as "0,1/2,3" within which devices reach each other's memory. Bit d of [o]:
  /// device d may be given o's memory.
  std::vector<uint64_t> peers;
  /// RONDE_EMU_CORRUPT: pairs such as "0-1,2-3" of devices between which copies go wrong.
  std::vector<std::pair<int, int>> corrupt;
  /// RONDE_EMU_NVLINKS: "N": so many links between any two peers; "switch:N": so many from each device to switches.
  int nvlinks = 18;
  bool nvswitch = true;
  /// RONDE_EMU_PCI: bus ids, separated by commas. Otherwise 00e0:01:00.0 and on.
  std::vector<std::string> pci;
  bool multicast = true;   ///< RONDE_EMU_MULTICAST=0: no multicast objects
  bool ipc = true;         ///< RONDE_EMU_IPC=0: no legacy handles between processes
  bool vmm = true;         ///< RONDE_EMU_VMM=0: no VMM
  int driver = 13000;      ///< RONDE_EMU_DRIVER: the version that the driver tells
  std::string errors;      ///< RONDE_EMU_ERRORS: a file to which texts of failed kernels are added
  std::vector<int> shown;  ///< CUDA_VISIBLE_DEVICES: which devices the process sees, in which order
  /// RONDE_EMU_SEED, RONDE_EMU_LIMIT (milliseconds) and RONDE_EMU_MODES: names out of weak_stores, stale_loads, harsh_vectors,
  /// any_order, races.
  Options options;
};

/// Reads the environment. An unknown word is an error that names it.
ronde::Result<Settings> read_settings();

}  // namespace emu::driver
