// Drivers of GPUs that are not there: tables of functions that answer for the GPUs of a test.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "topo/gpu_driver.h"

namespace ronde::test {

/// NVML's kinds of the other end of a link.
inline constexpr unsigned kToGpu = 0;
inline constexpr unsigned kToCpu = 1;
inline constexpr unsigned kToSwitch = 2;
inline constexpr unsigned kToUnknown = 0xff;

struct FakeLink {
  std::string remote;  ///< bus id
  unsigned type = kToGpu;
  unsigned active = 1;
  unsigned peer_access = 1;
};

struct FakeGpu {
  std::string bus_id;
  bool visible = true;  ///< to CUDA
  int major = 9;
  int minor = 0;
  int direct = 1;
  int numa = 0;
  unsigned generation = 5;
  unsigned width = 16;
  std::vector<FakeLink> links = {};
  unsigned c2c_links = 0;
  uint64_t c2c_rate = 0;
  std::string cluster = {};  ///< 16 bytes; "" for none
};

/// As long as one of these lives it is what the functions answer for; one at a time.
class FakeDrivers {
 public:
  explicit FakeDrivers(std::vector<FakeGpu> gpus);
  ~FakeDrivers();
  FakeDrivers(const FakeDrivers&) = delete;
  FakeDrivers& operator=(const FakeDrivers&) = delete;

  topo::GpuDrivers table;
  std::vector<FakeGpu> gpus;
  std::set<std::string> failing;  ///< names of functions, as CUDA and NVML have them
  int count = -1;                 ///< what both state in place of the number of GPUs, unless -1
};

}  // namespace ronde::test
