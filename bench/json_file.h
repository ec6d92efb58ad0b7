// The results as JSON, in nccl-tests' form (-J, version 3), in a file that is whole at any time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/launch_env.h"
#include "bench/options.h"
#include "bench/result.h"

namespace ronde::bench {

/// Each change is written to a second file that then takes the first one's place: whoever reads it, and whatever ends the run,
/// finds complete JSON with all rows so far. "end_time" is null until finish().
class JsonFile {
 public:
  /// Takes `path`, or the first of path.1, path.2, ... that does not exist, and writes what is known before the run. Throws
  /// TestFailure where no file can be made.
  JsonFile(const std::string& path, const std::vector<std::string>& arguments, const Environment& environment,
           const Options& options, const std::vector<DeviceLine>& devices);
  ~JsonFile();
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  const std::string& path() const;
  void add(const Row& row);
  void finish(const Summary& summary);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ronde::bench
