#include "bench/json_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bench/failure.h"
#include "bench/machine.h"
#include "nccl.h"

namespace ronde::bench {
namespace {

using Json = nlohmann::ordered_json;

/// nccl-tests writes truth as text.
const char* truth(bool value) { return value ? "true" : "false"; }
Json number(double value) { return std::isnan(value) ? Json("nan") : Json(value); }

[[noreturn]] void cannot(const std::string& attempted, const std::string& path, int error) {
  throw TestFailure(Exit::invalid_usage,
                    fmt::format("-J: cannot {} {}: {} (errno {})", attempted, path, std::strerror(error), error));
}

/// Claims a name that nobody has.
std::string new_file(const std::string& wanted) {
  constexpr int kMost = 10000;
  for (int i = 0; i < kMost; ++i) {
    const std::string path = i == 0 ? wanted : fmt::format("{}.{}", wanted, i);
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
      close(fd);
      return path;
    }
    if (errno != EEXIST) cannot("create", path, errno);
  }
  cannot("create", wanted, EEXIST);
}

Json config_of(const Options& o, const std::vector<DeviceLine>& devices) {
  Json config = {
      {"nthreads", o.threads}, {"ngpus", o.ranks_per_thread}, {"minimum_bytes", o.min_bytes}, {"maximum_bytes", o.max_bytes}};
  if (o.step_factor > 1) {
    config["step_factor"] = o.step_factor;
  } else {
    config["step_bytes"] = o.step_bytes;
  }
  config["warmup_iters"] = o.warmups;
  config["iterations"] = o.iterations;
  config["aggregated_iterations"] = o.aggregated;
  config["validation"] = o.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = o.blocking;
  config["per_iter_timing"] = o.per_iteration ? 1 : 0;
  config["per_iter_skip"] = o.per_iteration_skip;
  config["parallel_init"] = truth(o.parallel_init);
  config["host_streams"] = truth(o.streams);
  config["devices"] = Json::array();
  for (const DeviceLine& d : devices) {
    config["devices"].push_back({{"rank", d.rank},
                                 {"group", d.group},
                                 {"pid", d.pid},
                                 {"hostname", d.host},
                                 {"device", d.device},
                                 {"device_hex", "cpu"},
                                 {"device_info", d.name}});
  }
  return config;
}

Json half_of(const Half& half, const Options& options) {
  Json json = {{options.cpu_time ? "cpu_time" : "time", number(half.microseconds)},
               {"alg_bw", number(half.algbw)},
               {"bus_bw", number(half.busbw)},
               {"nwrong", half.wrong ? Json(*half.wrong) : Json("N/A")}};
  if (half.iterations) {
    const IterationTimes& t = *half.iterations;
    json["per_iteration"] = {{"mean", t.mean}, {"min", t.min}, {"median", t.median},
                             {"max", t.max},   {"p99", t.p99}, {"cv_percent", t.cv_percent}};
  }
  return json;
}

bool wanted_variable(const std::string& name) {
  for (const char* prefix : {"NCCL_", "RONDE_", "OMP_", "CUDA_VISIBLE"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

}  // namespace

struct JsonFile::State {
  std::string path;
  Options options;
  Json root;

  void write() const {
    const std::string text = root.dump(2) + "\n";
    const std::string beside = fmt::format("{}.part{}", path, getpid());
    const int fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) cannot("create", beside, errno);
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t put = ::write(fd, text.data() + done, text.size() - done);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int error = errno;
        close(fd);
        unlink(beside.c_str());
        cannot("write", beside, error);
      }
      done += static_cast<size_t>(put);
    }
    close(fd);
    if (rename(beside.c_str(), path.c_str()) != 0) cannot("replace", path, errno);
  }
};

JsonFile::JsonFile(const std::string& path, const std::vector<std::string>& arguments, const Environment& environment,
                   const Options& options, const std::vector<DeviceLine>& devices)
    : state_(std::make_unique<State>()) {
  state_->path = new_file(path);
  state_->options = options;
  int library = 0;
  ncclGetVersion(&library);
  Json variables = Json::object();
  for (const auto& [name, value] : environment) {
    if (wanted_variable(name)) variables[name] = value;
  }
  state_->root = {{"version", 3},
                  {"start_time", date_and_time()},
                  {"args", arguments},
                  {"env", variables},
                  {"nccl_version", library},
                  {"config", config_of(options, devices)},
                  {"results", Json::array()},
                  {"out_of_bounds", nullptr},
                  {"average_bus_bandwidth", nullptr},
                  {"errors", Json::array()},
                  {"end_time", nullptr}};
  state_->write();
}

JsonFile::~JsonFile() = default;

const std::string& JsonFile::path() const { return state_->path; }

void JsonFile::add(const Row& row) {
  const Options& options = state_->options;
  state_->root["results"].push_back({{"size", row.bytes},
                                     {"count", row.count},
                                     {"type", type_name(row.type)},
                                     {"redop", op_name(row.op)},
                                     {"root", fmt::format("{}", row.root)},
                                     {"out_of_place", half_of(row.out_of_place, options)},
                                     {"in_place", half_of(row.in_place, options)},
                                     {"actual_iterations", row.iterations},
                                     {"experiment_name", ""},
                                     {"algorithm", row.choice.algorithm},
                                     {"protocol", row.choice.protocol},
                                     {"channels", row.choice.channels},
                                     {"transport", row.choice.transport}});
  state_->write();
}

void JsonFile::finish(const Summary& summary) {
  Json& root = state_->root;
  root["out_of_bounds"] = {{"count", summary.failed_checks}, {"okay", truth(summary.data_ok())}};
  root["average_bus_bandwidth"] = {{"bandwidth", number(summary.mean_busbw)},
                                   {"okay", summary.wanted_busbw ? truth(summary.bandwidth_ok()) : "unchecked"}};
  root["errors"] = summary.errors;
  root["end_time"] = date_and_time();
  state_->write();
}

}  // namespace ronde::bench
