// The machine: what there is to compute and communicate with, and the links between it. Plain data, the same whether it was
// detected, read from a file or written by hand; equal inputs give equal Machines on every host.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ronde::topo {

/// Indices into Machine::nodes and Machine::links; kNone: no such node, link or table entry.
using NodeId = int32_t;
using LinkId = int32_t;
inline constexpr int32_t kNone = -1;

enum class NodeKind : uint8_t {
  numa,          ///< a NUMA node: cores, their memory, and the root of the PCI functions near it
  pci_switch,    ///< a PCI bridge, or a switch as one bridge
  pci_function,  ///< a PCI function that nothing more is known of; or a GPU's function that several GPUs (its parts) share
  gpu,
  cpu_rank,   ///< cores of one NUMA node that act as a device
  nic,        ///< a network adapter: its ports share its way to the host
  port,       ///< a port of a network adapter: what a transport opens
  nv_switch,  ///< all NVLink switches of a host, or of an NVLink domain of several hosts, as one
  network,    ///< whatever lies behind the ports
};

enum class LinkKind : uint8_t {
  internal,  ///< inside a package, an adapter or a host, where no bus is known: ports to their NIC, parts to their GPU, a virtual
             ///< NIC
  pci,
  nvlink,
  xgmi,     ///< between AMD GPUs
  c2c,      ///< coherent chip-to-chip: GPU to its CPU
  socket,   ///< between NUMA nodes: UPI, QPI, xGMI, Infinity Fabric
  memory,   ///< cores to their memory
  network,  ///< a port to the network
};

/// Links of GPUs with each other and with their switches.
constexpr bool is_peer_link(LinkKind kind) { return kind == LinkKind::nvlink || kind == LinkKind::xgmi; }
/// Those, and what is inside a package: no bus and no CPU has a part in them.
constexpr bool is_near_link(LinkKind kind) { return is_peer_link(kind) || kind == LinkKind::internal; }

/// Where a link's bandwidth comes from.
enum class Source : uint8_t {
  given,    ///< stated or measured
  derived,  ///< PCI: from the stated speed and width
  table,    ///< from a table by model (speeds.cc)
  assumed,  ///< not known, or stated and impossible: a conservative value
};

const char* to_string(NodeKind kind);
const char* to_string(LinkKind kind);
const char* to_string(Source source);

/// domain:bus:device.function. NVLink targets use domains of more than 16 bits, as do some hosts (VMD).
struct PciAddress {
  uint32_t domain = 0;
  uint8_t bus = 0;
  uint8_t device = 0;
  uint8_t function = 0;
  auto operator<=>(const PciAddress&) const = default;
};
/// "0000:0f:02.0", or without the domain "0f:02.0"; nothing for any other text.
std::optional<PciAddress> parse_pci_address(std::string_view text);
std::string to_string(const PciAddress& address);

/// A set of CPUs, as Linux writes it: hexadecimal words of 32 bits, highest first, between commas.
class CpuMask {
 public:
  static constexpr int kMaxCpus = 65536;

  /// "ff,ffffffff"; "" is the empty set. Nothing for any other text and for CPUs beyond kMaxCpus.
  static std::optional<CpuMask> parse(std::string_view text);
  /// Without leading zero words; "0" for the empty set.
  std::string text() const;
  /// `cpu` in 0..kMaxCpus-1.
  void set(int cpu);
  bool test(int cpu) const;
  int count() const;
  bool empty() const { return words_.empty(); }
  /// The CPUs, lowest first.
  std::vector<int> list() const;
  CpuMask operator&(const CpuMask& other) const;
  CpuMask operator|(const CpuMask& other) const;
  bool operator==(const CpuMask&) const = default;

 private:
  void trim();
  std::vector<uint32_t> words_;  ///< lowest first, the last one not 0
};

/// Identity of a host; 0: not stated.
struct Host {
  uint64_t hash = 0;
  bool operator==(const Host&) const = default;
};

// The details of nodes. -1, 0 where 0 means nothing, and empty texts are "unknown".

struct Numa {
  int id = -1;
  CpuMask cpus;
  std::string arch;    ///< "x86_64", "arm64", "ppc64"
  std::string vendor;  ///< as CPUID gives it: "GenuineIntel", "AuthenticAMD", "CentaurHauls", "  Shanghai  "
  int family = -1;
  int model = -1;
  bool operator==(const Numa&) const = default;
};

/// What a PCI function says of itself and of its link upwards.
struct Pci {
  PciAddress address;
  int32_t device_class = -1;  ///< 0x060400 bridge, 0x03xxxx GPU, 0x02xxxx NIC, 0x120000 accelerator
  int32_t vendor = -1;
  int32_t device = -1;
  int32_t subsystem_vendor = -1;
  int32_t subsystem_device = -1;
  int32_t speed = 0;  ///< mega-transfers per second and lane (16000 for "16.0 GT/s PCIe")
  int32_t width = 0;  ///< lanes
  bool operator==(const Pci&) const = default;
};

struct Gpu {
  int dev = -1;       ///< number with the driver
  int rank = -1;      ///< of the communicator that the machine was written down for
  int sm = 0;         ///< compute capability (90 for 9.0); for AMD the number of compute units
  std::string gcn;    ///< AMD's architecture: "906", "gfx942"
  int arch = -1;      ///< RCCL's arch attribute
  int gdr = -1;       ///< 1: NICs may access its memory
  int part = -1;      ///< number of the part, where several GPUs are one function's parts
  int c2c_links = 0;  ///< coherent links to its CPU, and what each carries in MB/s; parts of one function share them
  int64_t c2c_rate = 0;
  uint64_t domain = 0;  ///< identity of the NVLink domain, of one host or several, that its links to NVLink switches are in; 0:
                        ///< not stated
  bool operator==(const Gpu&) const = default;
};

struct CpuRank {
  int rank = -1;
  CpuMask cpus;
  int cores = 0;
  int64_t l2_bytes = 0;  ///< of all caches of that level which its CPUs use, alone or not
  int64_t l3_bytes = 0;
  int64_t rate = 0;  ///< memory bandwidth of its cores in MB/s
  bool operator==(const CpuRank&) const = default;
};

struct Port {
  std::string name;
  int dev = -1;       ///< number with the transport
  int64_t speed = 0;  ///< Mbit/s
  int port = -1;
  double latency = 0;  ///< microseconds
  std::optional<uint64_t> guid;
  int maxconn = -1;
  int gdr = -1;
  int coll = -1;
  int net = -1;
  int gin = -1;
  int rma = -1;
  int rail = -1;
  int plane = -1;
  bool operator==(const Port&) const = default;
};

struct Node {
  NodeKind kind = NodeKind::numa;
  int32_t host = kNone;    ///< index into Machine::hosts; kNone: of no single host
  NodeId parent = kNone;   ///< towards the NUMA node; kNone: numa, nv_switch, network
  int32_t pci = kNone;     ///< index into Machine::pci
  int32_t detail = kNone;  ///< index into the table of its kind: numas, gpus, cpu_ranks or ports
  bool operator==(const Node&) const = default;
};

/// Full duplex: carries `rate` from a to b and as much from b to a at once.
struct Link {
  NodeId a = kNone;  ///< of a node and its parent, the node
  NodeId b = kNone;
  LinkKind kind = LinkKind::internal;
  Source source = Source::assumed;
  int32_t count = 1;  ///< physical links (NVLink, xGMI, C2C) or lanes (PCI) that it consists of
  int64_t rate = 0;   ///< MB/s (10^6 bytes per second) in each direction, as payload arrives; never 0. An integer: all ranks
                      ///< compute the same.
  double gbps() const { return static_cast<double>(rate) / 1000; }  ///< GB/s
  bool operator==(const Link&) const = default;
};

/// Nodes are in preorder (a parent before its children), then nv_switch nodes, then the network. Links to parents come first, in
/// the order of their nodes; then those between GPUs, to NVLink switches and to CPUs; then between NUMA nodes; then to the
/// network. Made by an Assembly.
struct Machine {
  std::vector<Host> hosts;
  std::vector<Node> nodes;
  std::vector<Link> links;
  std::vector<Numa> numas;
  std::vector<Pci> pci;
  std::vector<Gpu> gpus;
  std::vector<CpuRank> cpu_ranks;
  std::vector<Port> ports;
  bool operator==(const Machine&) const = default;

  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  const Link& link(LinkId id) const { return links[static_cast<size_t>(id)]; }
  /// The details of a node of the right kind.
  const Numa& numa(NodeId id) const { return numas[static_cast<size_t>(node(id).detail)]; }
  const Gpu& gpu(NodeId id) const { return gpus[static_cast<size_t>(node(id).detail)]; }
  const CpuRank& cpu_rank(NodeId id) const { return cpu_ranks[static_cast<size_t>(node(id).detail)]; }
  const Port& port(NodeId id) const { return ports[static_cast<size_t>(node(id).detail)]; }
  /// nullptr where the node has no PCI function.
  const Pci* pci_of(NodeId id) const { return node(id).pci == kNone ? nullptr : &pci[static_cast<size_t>(node(id).pci)]; }

  /// All nodes of a kind, in order.
  std::vector<NodeId> of_kind(NodeKind kind) const;
  /// The NUMA node at the root of a node; kNone for switches of NVLink and the network.
  NodeId numa_of(NodeId id) const;
  /// The device with that rank, or kNone.
  NodeId device_of_rank(int rank) const;
};

/// What a source of Machines gives.
struct Reading {
  Machine machine;
  /// What the source leaves open, contradicts itself in or states although it cannot be, and what was taken instead: for the log,
  /// once.
  std::vector<std::string> notes;
};

/// A short name for messages: "gpu 3", "port mlx5_0", "switch 0000:0f:02.0", with the host where there are several.
std::string describe(const Machine& machine, NodeId id);

/// What is wrong with a Machine as data: indices, order, parents, rates. Empty for every Machine that this library made.
std::vector<std::string> check(const Machine& machine);

}  // namespace ronde::topo
