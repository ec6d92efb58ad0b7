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

FileChecked check_file(const std::string& file, References& references) {
  FileChecked checked{file.empty() ? "this host" : file, read_input(file), {}};
  if (!checked.reading.ok()) return checked;
  const auto [reference, known_as] = references.of(file);
  checked.rows = check_channels(checked.reading->machine, known_as, *reference);
  return checked;
}

std::string lines(const FileChecked& file, size_t width) {
  if (!file.reading.ok()) return fmt::format("{:<{}} refused: {}\n", file.name, width, file.reading.error().what);
  const Machine& machine = file.reading->machine;
  std::string text;
  for (const Checked& each : file.rows) {
    text += row(file.name, width, machine, each);
    for (const std::string& fault : each.faults) text += fmt::format("{:<{}} WRONG: {}\n", "", width, fault);
    if (each.below()) text += fmt::format("{:<{}} BELOW NCCL\n", "", width);
  }
  const size_t devices = devices_of(machine).size();
  return text.empty() ? fmt::format("{:<{}} {:>7}: no channels\n", file.name, width, counted(devices, "device")) : text;
}

/// Prints the table file by file, or all as JSON.
Result<> report(const std::vector<std::string>& files, bool json, References& references, Tally& tally) {
  size_t width = 10;
  for (const std::string& file : files) width = std::max(width, file.size());
  std::vector<FileChecked> all;
  if (!json) RONDE_TRY(write_output("", head(width)));
  for (const std::string& file : files) {
    FileChecked checked = check_file(file, references);
    tally.count(checked);
    if (!json) RONDE_TRY(write_output("", lines(checked, width)));
    if (json) all.push_back(std::move(checked));
  }
  if (json) return write_output("", to_json(all, tally));
  return write_output(
      "", fmt::format("{}, {} refused, {} wrong or below NCCL, {} slow\n",
                      counted(static_cast<size_t>(tally.machines), "machine"), tally.refused, tally.wrong, tally.slow));
}

}  // namespace

bool Checked::below() const { return graph::total_rate(set.channels) + static_cast<int64_t>(set.channels.size()) < nccl.rate; }

bool Checked::slow() const {
  constexpr double kAlwaysAllowed = 10;
  return set.ms > std::max(nccl.ms, kAlwaysAllowed);
}

void Tally::count(const FileChecked& file) {
  ++(file.reading.ok() ? machines : refused);
  for (const Checked& each : file.rows) {
    wrong += each.below() || !each.faults.empty();
    slow += each.slow();
  }
}

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
  return fmt::format("{} {:>19} {:>9} {:>9} {:>6} {:>8.2f} {:>8}{}\n", start,
                     fmt::format("{} x {}", set.channels.size(), gbps(set.channels[0].rate)), gbps(total),
                     known ? gbps(checked.nccl.rate) : "-",
                     known ? fmt::format("{:.2f}", static_cast<double>(total) / static_cast<double>(checked.nccl.rate)) : "-",
                     set.ms, known ? fmt::format("{:.2f}", checked.nccl.ms) : "-", checked.slow() ? " slow" : "");
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
  References references;
  Tally tally;
  const auto written = report(files, options.json, references, tally);
  if (!written.ok()) return failed(written.error());
  if (tally.wrong > 0 || (options.strict && tally.refused > 0)) return kNo;
  return tally.machines == 0 || references.broken() ? kFailed : kDone;
}

}  // namespace ronde::topo::tool
