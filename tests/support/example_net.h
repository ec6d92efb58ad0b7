// The example network plugin, of which tests order what goes wrong (netplugin/example.h).
#pragma once

#include <dlfcn.h>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/scratch.h"

namespace ronde::test {

/// A library of tests/support/netplugin.
inline std::string net_plugin_library(const std::string& name) { return RONDE_TEST_BUILD "/tests/support/netplugin/libnccl-net-" + name + ".so"; }

/// A copy of the example plugin that this test alone has: plugins are initialised once a process, and stay.
class ExampleNet {
 public:
  explicit ExampleNet(const std::string& version) : path_(folder_.path("libnccl-net-example.so")) {
    std::filesystem::copy_file(net_plugin_library("example" + version), path_);
    library_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library_ != nullptr);
  }
  ~ExampleNet() { dlclose(library_); }

  const char* path() const { return path_.c_str(); }
  void order(const char* function, int code, int after = 0, int times = 1) const {
    at<void(const char*, int, int, int)>("example_order")(function, code, after, times);
  }
  void reset() const { at<void()>("example_reset")(); }
  int count(const char* what) const { return at<int(const char*)>("example_count")(what); }
  std::string error() const { return at<const char*()>("example_error")(); }
  /// What is left of it, after 10 s at most: where a connection broke while its communicator ended, the proxy that found it so lets go of it last.
  int left(const char* what) const {
    const auto start = std::chrono::steady_clock::now();
    while (count(what) != 0 && std::chrono::steady_clock::now() - start < std::chrono::seconds(10)) std::this_thread::yield();
    return count(what);
  }
  /// Nothing is left open, and no rule was broken.
  void check() const {
    CHECK(error() == "");
    CHECK(left("comms") == 0);
    CHECK(left("registrations") == 0);
    CHECK(left("contexts") == 0);
  }

 private:
  template <class Function>
  Function* at(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

  Scratch folder_;
  std::string path_;
  void* library_;
};

}  // namespace ronde::test
