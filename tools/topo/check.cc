#include "tools/topo/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "graph/load.h"
#include "tools/topo/commands.h"
#include "tools/topo/facts.h"
#include "tools/topo/input.h"
#include "topo/copies.h"

namespace ronde::topo::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReference = "nccl-reference.json";
constexpr size_t kMaxReference = size_t{64} << 20;

Checked checked(const Machine& machine, const std::string& file, const std::vector<ReferenceGraph>& reference, bool two,
                graph::Shape shape) {
  Checked result{two, channel_set(machine, devices_of(machine), shape), figures_of(reference, machine, file, two, shape), {}};
  const graph::Load load = graph::load_of(machine, result.set.devices, result.set.channels);
  result.faults = load.faults;
  for (const graph::Overload& over : load.over) result.faults.push_back(graph::describe(machine, over));
  return result;
}

/// The files of a folder that may hold machines, in order; any other word stands for itself.
std::vector<std::string> expanded(const std::string& word) {
  std::error_code ignored;
  if (!fs::is_directory(word, ignored) || fs::is_directory(word + "/sys", ignored)) return {word};
  std::vector<std::string> files;
  for (auto entry = fs::recursive_directory_iterator(word, fs::directory_options::skip_permission_denied, ignored);
       entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
    const std::string ending = entry->path().extension();
    if (ending == ".xml" || ending == ".machine") files.push_back(entry->path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The tables of NCCL's figures, by folder, each read once.
class References {
 public:
  /// That of the file's folder or one of the two above, and what the file is called in it.
  std::pair<const std::vector<ReferenceGraph>*, std::string> of(const std::string& file) {
    fs::path folder = fs::path(file).parent_path();
    for (int up = 0; up < 3; ++up, folder = folder / "..") {
      const auto* graphs = in(folder.lexically_normal());
      if (graphs != nullptr) return {graphs, fs::path(file).lexically_proximate(folder.lexically_normal())};
    }
    return {&none_, file};
  }
  bool broken() const { return broken_; }

 private:
  const std::vector<ReferenceGraph>* in(const fs::path& folder) {
    const std::string path = folder / kReference;
    const auto [place, is_new] = known_.emplace(path, std::vector<ReferenceGraph>());
    std::error_code ignored;
    if (is_new && fs::exists(path, ignored)) {
      const auto text = read_file(path, kMaxReference);
      auto graphs = text.ok() ? read_reference(*text, path) : Result<std::vector<ReferenceGraph>>(text.error());
      broken_ |= !graphs.ok();
      if (graphs.ok()) {
        place->second = std::move(*graphs);
      } else {
        failed(graphs.error());
      }
    }
    return place->second.empty() ? nullptr : &place->second;
  }

  std::map<std::string, std::vector<ReferenceGraph>> known_;
  std::vector<ReferenceGraph> none_;
  bool broken_ = false;
};

/// What has come of all files.
struct Tally {
  int machines = 0;
  int refused = 0;
  int wrong = 0;  ///< rows with faults or below NCCL
};

std::string check_file(const std::string& file, size_t width, References& references, Tally& tally) {
  const std::string name = file.empty() ? "this host" : file;
  const auto reading = read_input(file);
  if (!reading.ok()) {
    ++tally.refused;
    return fmt::format("{:<{}} refused: {}\n", name, width, reading.error().what);
  }
  ++tally.machines;
  const Machine& machine = reading->machine;
  const auto [reference, known_as] = references.of(file);
  std::string text;
  for (const Checked& each : check_channels(machine, known_as, *reference)) {
    text += row(name, width, machine, each);
    for (const std::string& fault : each.faults) text += fmt::format("{:<{}} WRONG: {}\n", "", width, fault);
    if (each.below()) text += fmt::format("{:<{}} BELOW NCCL\n", "", width);
    tally.wrong += each.below() || !each.faults.empty();
  }
  const size_t devices = devices_of(machine).size();
  return text.empty() ? fmt::format("{:<{}} {:>7}: no channels\n", name, width, counted(devices, "device")) : text;
}

}  // namespace

bool Checked::below() const { return graph::total_rate(set.channels) + static_cast<int64_t>(set.channels.size()) < nccl.rate; }

std::vector<Checked> check_channels(const Machine& machine, const std::string& file,
                                    const std::vector<ReferenceGraph>& reference) {
  std::vector<Checked> all;
  if (devices_of(machine).size() < 2) return all;
  for (const graph::Shape shape : {graph::Shape::ring, graph::Shape::chain})
    all.push_back(checked(machine, file, reference, false, shape));
  if (machine.ports.empty()) return all;
  const Machine two = copies(machine, 2);
  for (const graph::Shape shape : {graph::Shape::ring, graph::Shape::chain})
    all.push_back(checked(two, file, reference, true, shape));
  return all;
}

std::string head(size_t width) {
  return fmt::format("{:<{}} {:<6} {:>7} {:>4} {:<5} {:>19} {:>9} {:>9} {:>6} {:>8} {:>8}\n", "machine", width, "case", "devices",
                     "NICs", "shape", "channels x GB/s", "= GB/s", "NCCL", "ratio", "ms", "NCCL ms");
}

std::string row(const std::string& name, size_t width, const Machine& machine, const Checked& checked) {
  const ChannelSet& set = checked.set;
  const std::string start = fmt::format("{:<{}} {:<6} {:>7} {:>4} {:<5}", name, width, checked.two ? "two" : "one",
                                        devices_of(machine).size() * (checked.two ? 2 : 1),
                                        machine.of_kind(NodeKind::nic).size() * (checked.two ? 2 : 1), shape_name(set.shape));
  if (set.channels.empty()) return fmt::format("{} none: {}\n", start, set.why_not);
  const int64_t total = graph::total_rate(set.channels);
  const bool known = checked.nccl.rate > 0;
  return fmt::format("{} {:>19} {:>9} {:>9} {:>6} {:>8.2f} {:>8}\n", start,
                     fmt::format("{} x {}", set.channels.size(), gbps(set.channels[0].rate)), gbps(total),
                     known ? gbps(checked.nccl.rate) : "-",
                     known ? fmt::format("{:.2f}", static_cast<double>(total) / static_cast<double>(checked.nccl.rate)) : "-",
                     set.ms, known ? fmt::format("{:.2f}", checked.nccl.ms) : "-");
}

int check(const CheckOptions& options) {
  std::vector<std::string> files;
  for (const std::string& input : options.inputs) {
    const auto found = expanded(input);
    if (found.empty()) {
      return failed(
          fail(Code::invalid_argument, fmt::format("no machines in the folder '{}': it has no files ending in .xml or .machine, "
                                                   "and no folder sys",
                                                   input)));
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  if (files.empty()) files.emplace_back();
  size_t width = 10;
  for (const std::string& file : files) width = std::max(width, file.size());
  References references;
  Tally tally;
  auto written = write_output("", head(width));
  for (size_t i = 0; i < files.size() && written.ok(); ++i)
    written = write_output("", check_file(files[i], width, references, tally));
  if (written.ok())
    written = write_output("", fmt::format("{}, {} refused, {} wrong or below NCCL\n",
                                           counted(static_cast<size_t>(tally.machines), "machine"), tally.refused, tally.wrong));
  if (!written.ok()) return failed(written.error());
  if (tally.wrong > 0 || (options.strict && tally.refused > 0)) return kNo;
  return tally.machines == 0 || references.broken() ? kFailed : kDone;
}

}  // namespace ronde::topo::tool
