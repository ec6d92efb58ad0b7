#include "base/config.h"

namespace ronde {
namespace {

constexpr double kBig = 9e15;
constexpr const char* kDistances = "auto,LOC,NVL,NVB,C2C,PIX,PXB,P2C,PXN,PHB,SYS";

// clang-format off
constexpr Option kTable[kSettings] = {
  {Setting::debug, "DEBUG", "NCCL_DEBUG", Kind::choice, "WARN", 0, 0, "NONE,VERSION,WARN,INFO,ABORT,TRACE", "what is logged"},
  {Setting::debug_subsys, "DEBUG_SUBSYS", "NCCL_DEBUG_SUBSYS", Kind::text, "INIT,BOOTSTRAP,ENV", 0, 0, "", "subsystems whose INFO lines are logged; a leading ^ inverts the list"},
  {Setting::debug_file, "DEBUG_FILE", "NCCL_DEBUG_FILE", Kind::text, "", 0, 0, "", "file for the log instead of stderr; %h host, %p process"},
  {Setting::device, "DEVICE", nullptr, Kind::choice, "auto", 0, 0, "auto,cpu,cuda", "device of ranks for which the program chose none"},
  {Setting::cuda_library, "CUDA_LIBRARY", nullptr, Kind::text, "", 0, 0, "", "the library that is taken for CUDA's driver instead of libcuda.so.1"},
  {Setting::isa, "ISA", nullptr, Kind::text, "auto", 0, 0, "", "instruction set of CPU reductions: auto, or the name of a table"},
  {Setting::stream_threads, "STREAM_THREADS", nullptr, Kind::integer, "2", 1, 256, "", "threads of the process that run host streams"},
  {Setting::spin, "SPIN", nullptr, Kind::integer, "-1", -1, 1e9, "", "looks at what a thread waits for before it sleeps; -1: by the number of ranks and cores"},
  {Setting::comm_id, "COMM_ID", "NCCL_COMM_ID", Kind::text, "", 0, 0, "", "fixed address of rank 0 instead of the unique id's: ip:port, [ipv6]:port or host:port"},
  {Setting::socket_ifname, "SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", Kind::text, "", 0, 0, "", "interfaces to use: prefixes, =exact names, ^ excludes"},
  {Setting::socket_family, "SOCKET_FAMILY", "NCCL_SOCKET_FAMILY", Kind::choice, "any", 0, 0, "any,AF_INET,AF_INET6", "address family to use"},
  {Setting::port_range, "PORT_RANGE", nullptr, Kind::text, "", 0, 0, "", "lo-hi: every listening port lies in it; each process takes two where ranks are on several hosts"},
  {Setting::hostid, "HOSTID", "NCCL_HOSTID", Kind::text, "", 0, 0, "", "identity of this host instead of boot id and name"},
  {Setting::hosts, "HOSTS", nullptr, Kind::text, "", 0, 0, "", "pretends that ranks are on several hosts: their number, or the host of each rank (0,1,1,0)"},
  {Setting::net, "NET", "NCCL_NET", Kind::text, "", 0, 0, "", "network to use between hosts, by name, instead of the configuration's `netName`; empty: the best that works"},
  {Setting::net_plugin, "NET_PLUGIN", "NCCL_NET_PLUGIN", Kind::text, "", 0, 0, "", "network plugins, the first that works of a list: a library, NAME of libnccl-net-NAME.so, STATIC_PLUGIN or none; unset: libnccl-net.so where there is one (docs/network.md)"},
  {Setting::traffic_class, "TRAFFIC_CLASS", nullptr, Kind::integer, "-1", -1, 1e9, "", "traffic class that networks are asked for, instead of the configuration's `trafficClass`; -1: leave that"},
  {Setting::init_timeout, "INIT_TIMEOUT", nullptr, Kind::seconds, "600", 0, 1e9, "", "seconds until an init, Split or Shrink gives up; 0: never"},
  {Setting::timeout, "TIMEOUT", nullptr, Kind::seconds, "0", 0, 1e9, "", "seconds an operation may wait without progress; 0: for ever"},
  {Setting::warn_after, "WARN_AFTER", nullptr, Kind::seconds, "60", 0, 1e9, "", "seconds without progress after which a wait reports itself; 0: never"},
  {Setting::socket_nthreads, "SOCKET_NTHREADS", "NCCL_SOCKET_NTHREADS", Kind::integer, "0", 0, 16, "", "times NSOCKS_PERTHREAD: TCP sockets of one connection of the network Socket; both 0: by the link's speed"},
  {Setting::nsocks_perthread, "NSOCKS_PERTHREAD", "NCCL_NSOCKS_PERTHREAD", Kind::integer, "0", 0, 64, "", "see SOCKET_NTHREADS; at most 64 together"},
  {Setting::socket_sndbuf, "SOCKET_SNDBUF", "NCCL_SOCKET_SNDBUF", Kind::bytes, "-1", -1, 1e9, "", "bytes of the kernel's send buffer of a socket; -1: the kernel's choice"},
  {Setting::socket_rcvbuf, "SOCKET_RCVBUF", "NCCL_SOCKET_RCVBUF", Kind::bytes, "-1", -1, 1e9, "", "the same for the receive buffer"},
  {Setting::socket_retry_cnt, "SOCKET_RETRY_CNT", "NCCL_SOCKET_RETRY_CNT", Kind::integer, "34", 0, 1e6, "", "times that connecting over the network Socket is tried again after it was refused or timed out"},
  {Setting::socket_retry_sleep_msec, "SOCKET_RETRY_SLEEP_MSEC", "NCCL_SOCKET_RETRY_SLEEP_MSEC", Kind::integer, "100", 0, 1e6, "", "milliseconds before the first of these, n times as much before the nth"},
  {Setting::ib_disable, "IB_DISABLE", "NCCL_IB_DISABLE", Kind::flag, "0", 0, 1, "", "1: no RDMA adapters"},
  {Setting::ib_hca, "IB_HCA", "NCCL_IB_HCA", Kind::text, "", 0, 0, "", "RDMA adapters to use: name or name:port, as beginnings, =exact names, ^ excludes"},
  {Setting::ibverbs_lib, "IBVERBS_LIB", "NCCL_IBVERBS_LIB", Kind::text, "", 0, 0, "", "file of libibverbs; empty: libibverbs.so.1"},
  {Setting::ib_gid_index, "IB_GID_INDEX", "NCCL_IB_GID_INDEX", Kind::integer, "-1", -1, 255, "", "entry of the GID table to use; -1: chosen for each peer"},
  {Setting::ib_addr_family, "IB_ADDR_FAMILY", "NCCL_IB_ADDR_FAMILY", Kind::choice, "AF_INET", 0, 0, "AF_INET,AF_INET6", "address family of GIDs to prefer"},
  {Setting::ib_addr_range, "IB_ADDR_RANGE", "NCCL_IB_ADDR_RANGE", Kind::text, "", 0, 0, "", "network in which the GIDs to choose from lie: 10.0.0.0/8, 2001:db8::/32"},
  {Setting::ib_roce_version_num, "IB_ROCE_VERSION_NUM", "NCCL_IB_ROCE_VERSION_NUM", Kind::integer, "2", 1, 2, "", "version of RoCE to prefer"},
  {Setting::ib_timeout, "IB_TIMEOUT", "NCCL_IB_TIMEOUT", Kind::integer, "20", 0, 31, "", "time until an RDMA adapter sends again what was not acknowledged: 4.096 us times 2 to this power; 0: for ever"},
  {Setting::ib_retry_cnt, "IB_RETRY_CNT", "NCCL_IB_RETRY_CNT", Kind::integer, "7", 0, 7, "", "times that it does so"},
  {Setting::ib_pkey, "IB_PKEY", "NCCL_IB_PKEY", Kind::integer, "0", 0, 65535, "", "place of the partition key in the port's table"},
  {Setting::ib_partition, "IB_PARTITION", nullptr, Kind::integer, "-1", -1, 65535, "", "the partition key itself, whose place is looked up; -1: IB_PKEY counts"},
  {Setting::ib_sl, "IB_SL", "NCCL_IB_SL", Kind::integer, "0", -1, 15, "", "InfiniBand service level"},
  {Setting::ib_tc, "IB_TC", "NCCL_IB_TC", Kind::integer, "0", -1, 255, "", "InfiniBand or RoCE traffic class, where the configuration's `trafficClass` says none"},
  {Setting::ib_fifo_tc, "IB_FIFO_TC", "NCCL_IB_FIFO_TC", Kind::integer, "-1", -1, 255, "", "traffic class of the messages that tell of free slots; -1: that of the data"},
  {Setting::ib_mtu, "IB_MTU", nullptr, Kind::integer, "0", 0, 4096, "", "largest RDMA MTU to use; 0: what both ports have"},
  {Setting::ib_qps_per_connection, "IB_QPS_PER_CONNECTION", "NCCL_IB_QPS_PER_CONNECTION", Kind::integer, "1", 1, 128, "", "queue pairs of one connection"},
  {Setting::ib_split_data_on_qps, "IB_SPLIT_DATA_ON_QPS", "NCCL_IB_SPLIT_DATA_ON_QPS", Kind::flag, "0", 0, 1, "", "1: each message goes over all of them; 0: they take turns"},
  {Setting::ib_use_inline, "IB_USE_INLINE", "NCCL_IB_USE_INLINE", Kind::flag, "1", 0, 1, "", "0: small messages are not put into the work request"},
  {Setting::ib_adaptive_routing, "IB_ADAPTIVE_ROUTING", "NCCL_IB_ADAPTIVE_ROUTING", Kind::integer, "-1", -1, 1, "", "the network routes packets adaptively; -1: where it is InfiniBand"},
  {Setting::ib_ar_threshold, "IB_AR_THRESHOLD", "NCCL_IB_AR_THRESHOLD", Kind::bytes, "8192", 0, kBig, "", "then, longer messages are told of apart from their data"},
  {Setting::ib_pci_relaxed_ordering, "IB_PCI_RELAXED_ORDERING", "NCCL_IB_PCI_RELAXED_ORDERING", Kind::integer, "2", 0, 2, "", "writes to memory may pass each other on the PCI bus: 0 no, 1 yes, 2 where the adapter can"},
  {Setting::ib_return_async_events, "IB_RETURN_ASYNC_EVENTS", "NCCL_IB_RETURN_ASYNC_EVENTS", Kind::flag, "1", 0, 1, "", "0: fatal events of an RDMA adapter are logged only"},
  {Setting::ib_rebuild_window, "IB_REBUILD_WINDOW", nullptr, Kind::seconds, "20", 0, 1e6, "", "seconds in which a broken RDMA connection is made anew; 0: never"},
  {Setting::algo, "ALGO", "NCCL_ALGO", Kind::text, "", 0, 0, "", "algorithms to choose from: [collective:]names separated by commas, ^ inverts; entries separated by ;"},
  {Setting::algo_file, "ALGO_FILE", nullptr, Kind::text, "", 0, 0, "", "file of Programs that run, once proven, for the calls that they are for (docs/programs.md)"},
  {Setting::proto, "PROTO", "NCCL_PROTO", Kind::text, "", 0, 0, "", "protocols to choose from, in the syntax of ALGO"},
  {Setting::strict, "STRICT", nullptr, Kind::flag, "0", 0, 1, "", "1: a forced choice that cannot be had is an error instead of a warning"},
  {Setting::deterministic, "DETERMINISTIC", nullptr, Kind::flag, "0", 0, 1, "", "1: only algorithms whose result depends on data and rank order alone"},
  {Setting::tuner_plugin, "TUNER_PLUGIN", "NCCL_TUNER_PLUGIN", Kind::text, "", 0, 0, "", "tuner plugin: a library, NAME of libnccl-tuner-NAME.so, STATIC_PLUGIN or none; unset: libnccl-tuner.so where there is one, else a tuner in the network plugin's library"},
  {Setting::tune_file, "TUNE_FILE", nullptr, Kind::text, "", 0, 0, "", "file with constants of the cost model, as `ronde-plan calibrate` writes it; replaces what it names (docs/tuning.md)"},
  {Setting::min_channels, "MIN_NCHANNELS", "NCCL_MIN_NCHANNELS", Kind::integer, "1", 1, 16, "", "least number of channels"},
  {Setting::max_channels, "MAX_NCHANNELS", "NCCL_MAX_NCHANNELS", Kind::integer, "16", 1, 1024, "", "largest number of channels"},
  {Setting::min_ctas, "MIN_CTAS", "NCCL_MIN_CTAS", Kind::integer, "0", 0, 64, "", "least number of channels, instead of the configuration's `minCTAs`; 0: leave that"},
  {Setting::max_ctas, "MAX_CTAS", "NCCL_MAX_CTAS", Kind::integer, "0", 0, 64, "", "largest number of channels, instead of the configuration's `maxCTAs`; 0: leave that"},
  {Setting::buffsize, "BUFFSIZE", "NCCL_BUFFSIZE", Kind::bytes, "262144", 4096, 1e9, "", "bytes of slots of one connection; fewer where all connections of a rank would need more than 8 MiB"},
  {Setting::slots, "SLOTS", nullptr, Kind::integer, "4", 2, 64, "", "slots of one connection"},
  {Setting::slice, "SLICE", nullptr, Kind::bytes, "0", 0, 1e9, "", "bytes of a slice; 0: by size and algorithm, at most one slot"},
  {Setting::lend_threshold, "LEND_THRESHOLD", nullptr, Kind::bytes, "16384", 0, kBig, "", "bytes from which a slot lends the address of the data instead of carrying it"},
  {Setting::eager_limit, "EAGER_LIMIT", nullptr, Kind::bytes, "4194304", 0, kBig, "", "bytes per pair of ranks that Send may copy and return before the Recv comes"},
  {Setting::shm_disable, "SHM_DISABLE", "NCCL_SHM_DISABLE", Kind::flag, "0", 0, 1, "", "1: no shared memory between processes, and no host memory between GPUs"},
  {Setting::p2p_disable, "P2P_DISABLE", "NCCL_P2P_DISABLE", Kind::flag, "0", 0, 1, "", "1: never read a peer's own buffer, always go through slots; those between GPUs are in host memory"},
  {Setting::vm_readv, "VM_READV", nullptr, Kind::flag, "1", 0, 1, "", "0: do not use process_vm_readv to read a peer's buffer"},
  {Setting::cumem_enable, "CUMEM_ENABLE", "NCCL_CUMEM_ENABLE", Kind::flag, "1", 0, 1, "", "0: memory of GPUs is shared between processes by CUDA's legacy handles, even where there are descriptors"},
  {Setting::comm_blocking, "COMM_BLOCKING", "NCCL_COMM_BLOCKING", Kind::integer, "-1", -1, 1, "", "1 or 0 overrides the configuration's `blocking`; -1: leave it"},
  {Setting::check_pointers, "CHECK_POINTERS", "NCCL_CHECK_POINTERS", Kind::flag, "0", 0, 1, "", "1: buffers given to a rank on a GPU are checked to be memory that it reaches"},
  {Setting::check_mode, "CHECK_MODE", "NCCL_CHECK_MODE", Kind::choice, "DEFAULT", 0, 0, "DEFAULT,DEBUG_LOCAL,DEBUG_GLOBAL", "accepted; ronde always checks that ranks agree"},
  {Setting::topo_file, "TOPO_FILE", "NCCL_TOPO_FILE", Kind::text, "", 0, 0, "", "what is known of this host: a topology file of NCCL, a file of hwloc, a text form, or a folder with a copy of sys and proc; detection adds what it lacks"},
  {Setting::topo_dump_file, "TOPO_DUMP_FILE", "NCCL_TOPO_DUMP_FILE", Kind::text, "", 0, 0, "", "file that the machine is written to, as a topology file of NCCL"},
  {Setting::topo_dump_file_rank, "TOPO_DUMP_FILE_RANK", "NCCL_TOPO_DUMP_FILE_RANK", Kind::integer, "0", 0, 1e9, "", "rank that writes TOPO_DUMP_FILE"},
  {Setting::graph_file, "GRAPH_FILE", "NCCL_GRAPH_FILE", Kind::text, "", 0, 0, "", "graph file of NCCL with channels to take instead of searching"},
  {Setting::graph_dump_file, "GRAPH_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", Kind::text, "", 0, 0, "", "file that the channels are written to, as a graph file of NCCL"},
  {Setting::graph_dump_file_rank, "GRAPH_DUMP_FILE_RANK", "NCCL_GRAPH_DUMP_FILE_RANK", Kind::integer, "0", 0, 1e9, "", "rank that writes GRAPH_DUMP_FILE"},
  {Setting::rings, "RINGS", "NCCL_RINGS", Kind::text, "", 0, 0, "", "rings to take instead of searching: ranks in order between blanks, rings between bars (0 1 2 3\\|3 2 1 0)"},
  {Setting::p2p_level, "P2P_LEVEL", "NCCL_P2P_LEVEL", Kind::distance, "auto", 0, 0, kDistances, "how far apart devices may be that reach each other's memory directly"},
  {Setting::net_gdr_level, "NET_GDR_LEVEL", "NCCL_NET_GDR_LEVEL", Kind::distance, "auto", 0, 0, kDistances, "how far a network adapter may be from a device whose memory it reaches directly; NCCL_IB_GDR_LEVEL, its old name, is read too", "NCCL_IB_GDR_LEVEL"},
  {Setting::cross_nic, "CROSS_NIC", "NCCL_CROSS_NIC", Kind::integer, "2", 0, 2, "", "may a ring or tree change adapters between hosts: 0 no, 1 yes, 2 where that is no loss not"},
  {Setting::pxn_disable, "PXN_DISABLE", "NCCL_PXN_DISABLE", Kind::flag, "0", 0, 1, "", "1: no way to a network adapter leads over another device"},
  {Setting::nvb_disable, "NVB_DISABLE", "NCCL_NVB_DISABLE", Kind::flag, "0", 0, 1, "", "1: no way between devices leads over NVLinks of a third one"},
  {Setting::ignore_cpu_affinity, "IGNORE_CPU_AFFINITY", "NCCL_IGNORE_CPU_AFFINITY", Kind::flag, "0", 0, 1, "", "1: threads go to the CPUs near their device whatever CPUs the process was given"},
  {Setting::hwloc, "HWLOC", nullptr, Kind::flag, "1", 0, 1, "", "0: libhwloc is not loaded, even where it would know more of this host"},
};
// clang-format on

constexpr bool in_order() {
  for (int i = 0; i < kSettings; ++i) {
    if (static_cast<int>(kTable[i].id) != i) return false;
  }
  return true;
}
static_assert(in_order(), "one row per Setting, in the order of the enumeration");

}  // namespace

std::span<const Option> options() { return kTable; }

}  // namespace ronde
