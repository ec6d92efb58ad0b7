#include "bench/json_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/failure.h"
#include "support/catch.h"

namespace ronde::bench {
namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("ronde-json-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

nlohmann::json read(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

TEST_CASE("json: the file is whole after each step", "[bench]") {
  const Folder folder;
  const std::string path = folder.path / "out.json";
  Options options;
  options.step_factor = 2;
  JsonFile file(path, {"all_reduce_perf", "-g", "2"}, {{"NCCL_DEBUG", "INFO"}, {"HOME", "/root"}}, options,
                {{0, 0, 17, 0, "host", "A CPU"}});
  nlohmann::json json = read(path);
  CHECK(json["version"] == 3);
  CHECK(json["env"] == nlohmann::json{{"NCCL_DEBUG", "INFO"}});
  CHECK(json["config"]["step_factor"] == 2);
  CHECK(json["config"]["parallel_init"] == "false");
  CHECK(json["config"]["devices"][0]["pid"] == 17);
  CHECK(json["results"].empty());
  CHECK(json["end_time"].is_null());

  Row row;
  row.bytes = 64;
  row.op = Op::max;
  row.out_of_place.wrong = 0;
  row.out_of_place.iterations = iteration_times({1, 2, 3});
  row.choice.algorithm = "ring";
  file.add(row);
  json = read(path);
  REQUIRE(json["results"].size() == 1);
  CHECK(json["results"][0]["redop"] == "max");
  CHECK(json["results"][0]["root"] == "-1");
  CHECK(json["results"][0]["algorithm"] == "ring");
  CHECK(json["results"][0]["out_of_place"]["nwrong"] == 0);
  CHECK(json["results"][0]["out_of_place"]["per_iteration"]["median"] == 2);
  CHECK(json["results"][0]["in_place"]["nwrong"] == "N/A");

  file.finish({0, 1.5, std::nullopt, {}});
  json = read(path);
  CHECK(json["out_of_bounds"]["okay"] == "true");
  CHECK(json["average_bus_bandwidth"]["okay"] == "unchecked");
  CHECK(json["end_time"].is_string());
  // Nothing but the result is left.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);
}

TEST_CASE("json: an existing file is not touched", "[bench]") {
  const Folder folder;
  const std::string path = folder.path / "out.json";
  std::ofstream(path) << "mine";
  const JsonFile first(path, {}, {}, {}, {});
  const JsonFile second(path, {}, {}, {}, {});
  CHECK(first.path() == path + ".1");
  CHECK(second.path() == path + ".2");
  std::string text;
  std::ifstream(path) >> text;
  CHECK(text == "mine");
}

TEST_CASE("json: a place that cannot be written is an error that says so", "[bench]") {
  try {
    const JsonFile file("/nonexistent/out.json", {}, {}, {}, {});
    FAIL("no error");
  } catch (const TestFailure& failure) {
    CHECK(test::contains(failure.what(), "/nonexistent/out.json: No such file or directory"));
  }
}

}  // namespace ronde::bench
