// Settings: one table of options, read once into an immutable Config.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ronde {

/// Every setting. One row of the table in options.cc belongs to each, in this order.
enum class Setting : uint8_t {
  debug, debug_subsys, debug_file,
  device, cuda_library, isa, stream_threads, spin,
  comm_id, socket_ifname, socket_family, port_range, hostid, hosts, net, net_plugin, traffic_class, init_timeout, timeout, warn_after,
  socket_nthreads, nsocks_perthread, socket_sndbuf, socket_rcvbuf, socket_retry_cnt, socket_retry_sleep_msec,
  ib_disable, ib_hca, ibverbs_lib, ib_gid_index, ib_addr_family, ib_addr_range, ib_roce_version_num, ib_timeout, ib_retry_cnt, ib_pkey,
  ib_partition, ib_sl, ib_tc, ib_fifo_tc, ib_mtu, ib_qps_per_connection, ib_split_data_on_qps, ib_use_inline, ib_adaptive_routing, ib_ar_threshold,
  ib_pci_relaxed_ordering, ib_return_async_events, ib_rebuild_window,
  algo, algo_file, proto, strict, deterministic, tuner_plugin, tune_file, min_channels, max_channels, min_ctas, max_ctas,
  buffsize, slots, slice, lend_threshold, eager_limit, shm_disable, p2p_disable, vm_readv, cumem_enable,
  comm_blocking, check_pointers, check_mode,
  topo_file, topo_dump_file, topo_dump_file_rank, graph_file, graph_dump_file, graph_dump_file_rank, rings,
  p2p_level, net_gdr_level, cross_nic, pxn_disable, nvb_disable, ignore_cpu_affinity, hwloc,
  count_,
};
inline constexpr int kSettings = static_cast<int>(Setting::count_);

/// How a value is written: integer (decimal, 0x, leading-0 octal), flag (0 or 1), bytes (integer with K, M or G), seconds (decimal, may have a
/// fraction), text, choice (one of the words in `words`, case-insensitive), distance (a choice as well, or NCCL's old number for one; as an
/// integer the word's place in `words`, from -1 for the first).
enum class Kind : uint8_t { integer, flag, bytes, seconds, text, choice, distance };

/// One setting. Its names are RONDE_<name> and, where NCCL has the same, `alias` (NCCL_...), and what NCCL called it before. The first
/// of these that is set counts.
struct Option {
  Setting id;
  const char* name;
  const char* alias;     ///< nullptr where NCCL has none
  Kind kind;
  const char* fallback;  ///< the default, written as a user would
  double low, high;      ///< admitted range of numbers
  const char* words;     ///< of a choice: "a,b,c"
  const char* help;
  const char* former = nullptr;  ///< NCCL_...; nullptr where NCCL never called it otherwise
};

/// The table, by Setting.
std::span<const Option> options();
/// Names that NCCL reads and ronde accepts without effect (prefix NCCL_ left out).
std::span<const std::string_view> accepted_nccl_names();

/// Where values come from: returns nullptr for an unset name.
using GetEnv = std::function<const char*(const char*)>;
/// The process's environment: the only place in the library that reads it by name.
const char* process_variable(const char* name);

/// The settings of one communicator, fixed once read. Cheap to share; thread-safe, since const.
class Config {
 public:
  int64_t integer(Setting s) const { return at(s).integer; }
  size_t bytes(Setting s) const { return static_cast<size_t>(at(s).integer); }
  bool flag(Setting s) const { return at(s).integer != 0; }
  double seconds(Setting s) const { return at(s).number; }
  const std::string& text(Setting s) const { return at(s).text; }
  /// "default", the variable's name, or the file it came from.
  const std::string& source(Setting s) const { return at(s).source; }
  bool is_set(Setting s) const { return at(s).source != "default"; }
  /// The same with another text, or another number.
  Config with(Setting s, std::string text, std::string source) const;
  Config with(Setting s, int64_t number, std::string source) const;

 private:
  friend class ConfigReader;
  struct Value {
    int64_t integer = 0;
    double number = 0;
    std::string text;
    std::string source;
  };
  const Value& at(Setting s) const { return values_[static_cast<size_t>(s)]; }
  std::array<Value, kSettings> values_;
};

/// What reading found wrong: sentences to be reported once (unknown names, values that fit nothing and the default used instead).
struct ConfigReport {
  std::vector<std::string> warnings;
};

/// The lines NAME=VALUE of a file in nccl.conf's format: '#' in the first column is a comment, nothing is trimmed or unquoted, CR at the end
/// goes. Later lines do not replace earlier ones. A line that is none of this goes to `report`, named by `path` and number, unless it is blank.
std::map<std::string, std::string> parse_conf(std::string_view text, std::string_view path, ConfigReport* report);

/// Reads every option through `get`, then from the `files` (earlier wins). A bad value becomes the default and a warning.
Config read_config(const GetEnv& get, std::span<const std::map<std::string, std::string>> files, ConfigReport* report);

/// Warnings for names starting with RONDE_ or NCCL_ in `names` that nothing here knows, with the nearest known name.
std::vector<std::string> unknown_names(std::span<const std::string> names);

/// The process's configuration, read now from the environment and the files (RONDE_CONF_FILE, else NCCL_CONF_FILE, else ~/.nccl.conf; then
/// /etc/nccl.conf). Files are read once a process; the environment each time. Logs nothing: by it the log reads its own settings.
Config process_config(ConfigReport* report);
/// The same for all others. What is wrong with names, values and files is logged, each the first time only.
std::shared_ptr<const Config> current_config();

}  // namespace ronde
