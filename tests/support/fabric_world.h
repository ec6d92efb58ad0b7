// All ranks of a communicator's Fabric in one test process.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "transport/fabric.h"

namespace ronde::test {

/// A configuration from names and values alone; the environment is not read.
std::shared_ptr<const Config> config_of(const std::map<std::string, std::string>& values);

struct FabricWorld {
  std::vector<std::unique_ptr<Bootstrap>> bootstrap;
  std::vector<std::unique_ptr<AbortWord>> abort;
  std::vector<std::unique_ptr<Fabric>> fabric;
  std::vector<std::string> errors;  ///< of make, by rank; empty where it went well

  Fabric& operator[](int rank) { return *fabric[static_cast<size_t>(rank)]; }
  /// The first error; empty if all ranks have a Fabric.
  std::string error() const;
};

struct FabricWorldRequest {
  int ranks = 2;
  int links = 1;
  bool pretend_processes = false;
  std::map<std::string, std::string> settings;
  /// Instead of `settings` for single ranks.
  std::map<int, std::map<std::string, std::string>> settings_of;
  std::function<void(int of, int rank, const std::string& how)> on_death;
};

/// Makes the Fabrics, each by a thread of its own.
FabricWorld make_fabrics(const FabricWorldRequest& request);

}  // namespace ronde::test
