// An emulated device for tests of the interpreter: a module, memory, and launches.
#pragma once

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu-emulator/exec/launch.h"
#include "gpu-emulator/memory.h"
#include "support/catch.h"

namespace emu::test {

/// PTX of `statements` as the body of the entry `k`, whose parameters are addresses p0, p1, p2 and the word n. Its registers are
/// %p, %h (16 bits), %r, %d (64 bits), %f (fp32) and %g (fp64), 32 of each; %d0..%d2 hold the addresses, %r0 n, %r1 the thread,
/// and %d3 the thread's word at p0.
std::string entry(std::string_view statements, std::string_view before = "");

/// PTX that nvcc made of kernels/<name>.cu for `compute`; empty where the build had no nvcc.
std::string kernels(const std::string& name, int compute);
/// What kernels() has of a file, to GENERATE from; empty where there is no nvcc.
std::vector<int> compiled_targets(const std::string& name);

class Device {
 public:
  explicit Device(const std::string& ptx, int number = 0, std::shared_ptr<Memory> memory = nullptr);

  std::shared_ptr<Memory> memory;
  std::unique_ptr<Module> module;
  Options options;
  std::atomic<bool> stop{false};

  /// Zeroed memory of this device.
  uint64_t allocate(size_t bytes);
  /// The host's view of `address`.
  template <class T>
  T* at(uint64_t address) {
    return reinterpret_cast<T*>(view(address));
  }
  uint64_t variable(const std::string& name) const { return variables_.at(name); }

  /// Runs a kernel to its end; what went wrong, empty: nothing.
  template <class... Arguments>
  std::string run(const char* kernel, unsigned blocks, unsigned threads, const Arguments&... arguments) {
    std::vector<std::byte> parameters;
    const Function* function = module->function(kernel);
    REQUIRE(function != nullptr);
    REQUIRE(function->parameters.size() == sizeof...(arguments));
    parameters.resize(function->parameter_bytes);
    size_t next = 0;
    (put(parameters, function->parameters[next++], &arguments, sizeof arguments), ...);
    return launch(*function, blocks, threads, parameters);
  }
  unsigned dynamic_shared = 0;

 private:
  std::byte* view(uint64_t address);
  static void put(std::vector<std::byte>& to, const Parameter& parameter, const void* from, size_t bytes);
  std::string launch(const Function& function, unsigned blocks, unsigned threads, const std::vector<std::byte>& parameters);

  int number_;
  std::map<std::string, uint64_t> variables_;
};

/// Runs the body of entry() with `threads` threads on words at p0 and p1, and returns the `words` words at p2.
std::vector<uint32_t> run_words(std::string_view statements, const std::vector<uint32_t>& first,
                                const std::vector<uint32_t>& second = {}, size_t words = 32, unsigned threads = 32);

}  // namespace emu::test
