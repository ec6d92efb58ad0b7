// The example network plugin, of which tests order what goes wrong (netplugin/example.h).
#pragma once

#include <dlfcn.h>
#include <filesystem>
#include <string>

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
  /// Nothing is left open, and no rule was broken.
  void check() const {
    CHECK(error() == "");
    CHECK(count("comms") == 0);
    CHECK(count("registrations") == 0);
    CHECK(count("contexts") == 0);
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
