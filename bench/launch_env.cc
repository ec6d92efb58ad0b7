#include "bench/launch_env.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string_view>

#include "bench/failure.h"

namespace ronde::bench {
namespace {

using Names = std::array<const char*, 3>;  // in order of preference; "" fills up

/// The variables of one kind of launcher.
struct Source {
  const char* launcher;
  const char* rank;
  Names size;
  const char* local_size;         // processes of the job on this host
  Names hosts;                    // number of hosts
  Names job;                      // what tells one job from another on this host
  bool size_alone_is_no_process;  // the size stands in an allocation's shell too
};

constexpr std::array<Source, 4> kSources = {{
    {"torchrun or ronde-run", "RANK", {"WORLD_SIZE", "", ""}, "LOCAL_WORLD_SIZE", {"", "", ""}, {"MASTER_PORT", "", ""}, false},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE", "", ""},
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"", "", ""},
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", ""},
     false},
    {"MPICH (PMI)", "PMI_RANK", {"PMI_SIZE", "", ""}, "MPI_LOCALNRANKS", {"", "", ""}, {"PMI_JOBID", "", ""}, false},
    {"Slurm",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
     "",
     {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"},
     {"SLURM_JOB_ID", "", ""},
     true},
}};

std::string value_of(const Environment& environment, std::string_view name) {
  const auto found = environment.find(std::string(name));
  return found == environment.end() ? "" : found->second;
}

/// The first of `names` that is set: its name and value.
std::pair<std::string, std::string> first_set(const Environment& environment, const Names& names) {
  for (const char* name : names) {
    if (std::string value = value_of(environment, name); !value.empty()) return {name, value};
  }
  return {};
}

std::optional<int> whole_number(const std::string& text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse(const std::string& why) { throw TestFailure(Exit::invalid_usage, why); }

/// What one launcher's variables say.
struct Claim {
  const Source* source = nullptr;
  std::string rank_text;
  std::string size_name;
  std::string size_text;
  size_t depth = 0;  // ancestors that were started with the same rank and size

  bool complete() const { return !rank_text.empty() && !size_text.empty(); }
  std::string text() const {
    std::string both;
    if (!rank_text.empty()) both = fmt::format("{}={}", source->rank, rank_text);
    if (!size_text.empty()) both += fmt::format("{}{}={}", both.empty() ? "" : " ", size_name, size_text);
    return both;
  }
};

std::optional<Claim> claim_of(const Source& source, const Environment& environment) {
  Claim claim{&source, value_of(environment, source.rank), {}, {}, 0};
  std::tie(claim.size_name, claim.size_text) = first_set(environment, source.size);
  if (claim.rank_text.empty() && (claim.size_text.empty() || source.size_alone_is_no_process)) return std::nullopt;
  return claim;
}

size_t depth_of(const Claim& claim, const std::vector<Ancestor>& ancestors) {
  size_t depth = 0;
  for (const Ancestor& ancestor : ancestors) {
    if (!ancestor.environment) break;
    const auto older = claim_of(*claim.source, *ancestor.environment);
    if (!older || older->rank_text != claim.rank_text || older->size_text != claim.size_text) break;
    ++depth;
  }
  return depth;
}

/// Rank and size of a claim, checked.
std::pair<int, int> numbers_of(const Claim& claim) {
  if (!claim.complete()) {
    const Source& source = *claim.source;
    const std::string lacking = claim.rank_text.empty() ? std::string(source.rank) : std::string(source.size[0]);
    refuse(fmt::format("{} is set, but {} is not ({} sets both): set both, or unset both for a single process", claim.text(),
                       lacking, source.launcher));
  }
  const auto rank = whole_number(claim.rank_text);
  const auto size = whole_number(claim.size_text);
  if (!rank || !size || *size < 1 || *rank < 0 || *rank >= *size) {
    refuse(fmt::format("{} makes no sense: the rank has to be a number from 0 to one less than the size", claim.text()));
  }
  return {*rank, *size};
}

struct Chosen {
  Claim claim;
  int rank = 0;
  int size = 1;
};

std::optional<Chosen> choose(const Environment& mine, const std::vector<Ancestor>& ancestors) {
  std::vector<Claim> claims;
  for (const Source& source : kSources) {
    if (auto claim = claim_of(source, mine)) {
      claim->depth = depth_of(*claim, ancestors);
      claims.push_back(*claim);
    }
  }
  if (claims.empty()) return std::nullopt;
  size_t innermost = claims[0].depth;
  for (const Claim& claim : claims) innermost = std::min(innermost, claim.depth);
  std::optional<Chosen> chosen;
  for (const Claim& claim : claims) {
    if (claim.depth != innermost) continue;
    const auto [rank, size] = numbers_of(claim);
    if (!chosen) {
      chosen = Chosen{claim, rank, size};
    } else if (chosen->rank != rank || chosen->size != size) {
      refuse(fmt::format(
          "the variables of two launchers contradict each other: {} ({}) and {} ({}); unset those that do not belong to this job",
          chosen->claim.text(), chosen->claim.source->launcher, claim.text(), claim.source->launcher));
    }
  }
  return chosen;
}

/// "host:port", "[ipv6]:port".
MeetingPlace address(const std::string& variable, const std::string& host, const std::string& port_text, int shift) {
  const auto port = whole_number(port_text);
  if (host.empty() || !port || *port < 1 || *port + shift > 65535) {
    refuse(fmt::format("{} gives no address to meet at: host '{}', port '{}'", variable, host, port_text));
  }
  return {host, *port + shift, ""};
}

/// The library's own root listens at NCCL_COMM_ID; the benchmark's processes meet at the port behind it.
MeetingPlace beside_comm_id(const std::string& id) {
  const size_t colon = id.rfind(':');
  std::string host = id.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return address("NCCL_COMM_ID", host, colon == std::string::npos ? "" : id.substr(colon + 1), 1);
}

uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// A name that the processes of this job on this host have in common, and other jobs of this user do not.
MeetingPlace local_name(const Environment& mine, const Chosen& chosen, const std::vector<Ancestor>& ancestors) {
  const Source& source = *chosen.claim.source;
  std::string what = fmt::format("{} {}", source.launcher, chosen.size);
  const auto [job_name, job] = first_set(mine, source.job);
  if (!job.empty()) {
    what += fmt::format(" {}={}", job_name, job);
    for (const char* more : {"MASTER_ADDR", "SLURM_STEP_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}) {
      what += fmt::format(" {}", value_of(mine, more));
    }
  } else if (!ancestors.empty()) {
    // No name for the job: the process that set the variables started all of its ranks on this host.
    const Ancestor& parent = ancestors[std::min(chosen.claim.depth, ancestors.size() - 1)];
    what += fmt::format(" started by {} {}", parent.pid, parent.start_time);
  }
  return {"", 0, fmt::format("ronde-bench-{}-{:016x}", getuid(), hash_of(what))};
}

MeetingPlace meeting_place(const Environment& mine, const Chosen& chosen, const std::vector<Ancestor>& ancestors) {
  const Source& source = *chosen.claim.source;
  const auto on_this_host = whole_number(value_of(mine, source.local_size));
  const auto hosts = whole_number(first_set(mine, source.hosts).second);
  const bool one_host = (on_this_host && *on_this_host == chosen.size) || (hosts && *hosts == 1);
  if (one_host) return local_name(mine, chosen, ancestors);
  const std::string master = value_of(mine, "MASTER_ADDR");
  if (!master.empty()) {
    // torchrun's agent may itself listen at the port that it announces.
    const int shift = value_of(mine, "TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0;
    return address("MASTER_ADDR and MASTER_PORT", master, value_of(mine, "MASTER_PORT"), shift);
  }
  if (const std::string id = value_of(mine, "NCCL_COMM_ID"); !id.empty()) return beside_comm_id(id);
  if (on_this_host || hosts) {
    refuse(
        fmt::format("this job of {} processes ({}) runs on several hosts and nothing says where to meet: set MASTER_ADDR and "
                    "MASTER_PORT to an "
                    "address and a free port of rank 0's host for all processes (or NCCL_COMM_ID=host:port)",
                    chosen.size, source.launcher));
  }
  return local_name(mine, chosen, ancestors);
}

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Environment environment_from(const std::string& block) {
  Environment environment;
  std::istringstream entries(block);
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const size_t equals = entry.find('=');
    if (equals != std::string::npos) environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return environment;
}

}  // namespace

Launch detect_launch(const Environment& mine, const std::vector<Ancestor>& ancestors) {
  const auto chosen = choose(mine, ancestors);
  if (!chosen) {
    if (const std::string rank = value_of(mine, "PMIX_RANK"); !rank.empty()) {
      refuse(fmt::format(
          "PMIX_RANK={} is set, but nothing says how many processes there are (OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS or "
          "WORLD_SIZE)",
          rank));
    }
    return {};
  }
  Launch launch{chosen->rank, chosen->size, chosen->claim.source->launcher, {}};
  if (launch.size > 1) launch.place = meeting_place(mine, *chosen, ancestors);
  return launch;
}

Environment own_environment() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return environment;
}

std::vector<Ancestor> own_ancestors() {
  constexpr int kMost = 64;
  std::vector<Ancestor> ancestors;
  int pid = getppid();
  for (int i = 0; i < kMost && pid > 0; ++i) {
    const std::string stat = file_text(fmt::format("/proc/{}/stat", pid));
    const size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) break;
    // Behind the name: state, parent, 17 more, start time.
    std::istringstream rest(stat.substr(name_end + 1));
    const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
    if (fields.size() < 20) break;
    Ancestor ancestor{pid, std::stoull(fields[19]), std::nullopt};
    const std::string block = file_text(fmt::format("/proc/{}/environ", pid));
    if (!block.empty()) ancestor.environment = environment_from(block);
    ancestors.push_back(std::move(ancestor));
    pid = std::stoi(fields[1]);
  }
  return ancestors;
}

}  // namespace ronde::bench
