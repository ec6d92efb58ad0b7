// The tree of a host: bars that span what is below them, devices in one row.
#include <fmt/core.h>

#include <algorithm>

#include "tools/topo/svg_parts.h"

namespace ronde::topo::tool {
namespace {

constexpr double kGap = 8;        ///< between neighbours
constexpr double kPad = 6;        ///< of a bar beyond what is below it
constexpr double kBar = 30;       ///< height of bars
constexpr double kWay = 34;       ///< between levels, for lines and their labels
constexpr double kDevice = 46;    ///< height of devices
constexpr double kBetween = 84;   ///< between NUMA nodes, for the line between two
constexpr size_t kMostPorts = 4;  ///< lines of an adapter
constexpr double kPortLine = 13;

struct Looks {
  const char* fill;
  const char* stroke;
};

Looks looks_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::numa:
      return {"#e8e4f3", "#7a68ae"};
    case NodeKind::pci_switch:
      return {"#eeeeee", "#888"};
    case NodeKind::gpu:
      return {"#dcefd2", "#4c8a2e"};
    case NodeKind::cpu_rank:
      return {"#fbe9cf", "#b97a1d"};
    case NodeKind::nic:
      return {"#d6ecf5", "#2b7fa3"};
    default:
      return {"#f7f7f7", "#aaa"};
  }
}

/// "02:00.0" of "0000:02:00.0".
std::string short_address(const Machine& m, NodeId id) {
  const Pci* pci = m.pci_of(id);
  if (pci == nullptr) return "";
  const std::string text = to_string(pci->address);
  return pci->address.domain == 0 ? text.substr(5) : text;
}

class Host {
 public:
  Host(Canvas& canvas, const Machine& machine, const Family& family, int32_t host, Placed& placed)
      : canvas_(canvas), m_(machine), family_(family), placed_(placed) {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      const auto id = static_cast<NodeId>(i);
      if (m_.nodes[i].host != host) continue;
      if (m_.nodes[i].kind == NodeKind::numa) roots_.push_back(id);
      if (is_leaf(id)) depth_ = std::max(depth_, depth_of(id));
    }
    for (const NodeId id : roots_) depth_ = std::max(depth_, family_.below(id).empty() ? 0 : 1);
  }

  void draw(double x, double y) {
    top_ = y;
    for (const NodeId id : roots_) {
      place(id, x, 0);
      x = placed_.boxes[id].right() + kBetween;
    }
    for (const NodeId id : roots_) node(id);
  }

 private:
  /// Ports are lines in their adapter.
  std::vector<NodeId> parts(NodeId id) const {
    std::vector<NodeId> nodes;
    for (const NodeId child : family_.below(id)) {
      if (m_.node(child).kind != NodeKind::port) nodes.push_back(child);
    }
    return nodes;
  }

  bool is_leaf(NodeId id) const {
    const NodeKind kind = m_.node(id).kind;
    return kind != NodeKind::numa && kind != NodeKind::port && parts(id).empty();
  }

  int depth_of(NodeId id) const { return m_.node(id).parent == kNone ? 0 : 1 + depth_of(m_.node(id).parent); }

  std::vector<std::string> lines_of(NodeId id) const {
    const NodeKind kind = m_.node(id).kind;
    std::string name = describe(m_, id);
    name = name.substr(0, name.find(" of host "));
    if (kind == NodeKind::nic) {
      std::vector<std::string> lines = {"nic " + short_address(m_, id)};
      const auto& ports = family_.below(id);
      for (size_t i = 0; i < ports.size() && i < kMostPorts; ++i)
        lines.push_back(i + 1 == kMostPorts && ports.size() > kMostPorts ? fmt::format("+ {} more", ports.size() - i)
                                                                         : m_.port(ports[i]).name);
      return lines;
    }
    if (kind == NodeKind::gpu) {
      const Gpu& gpu = m_.gpu(id);
      return {gpu.dev >= 0 ? name : "gpu", gpu.sm > 0 && gpu.gcn.empty() ? fmt::format("sm {}", gpu.sm) : gpu.gcn,
              short_address(m_, id)};
    }
    if (kind == NodeKind::cpu_rank) {
      const CpuRank& rank = m_.cpu_rank(id);
      return {name, rank.cores > 0 ? counted(static_cast<size_t>(rank.cores), "core") : ""};
    }
    if (kind == NodeKind::numa) {
      const Numa& numa = m_.numa(id);
      return {name, numa.cpus.empty() ? numa.arch : "CPUs " + cpu_list(numa.cpus)};
    }
    return {kind == NodeKind::pci_switch ? "switch" : to_string(kind), short_address(m_, id)};
  }

  double own_width(NodeId id) const {
    const auto lines = lines_of(id);
    double width = std::max(48.0, text_width(lines[0], 12) + 8);
    for (const std::string& line : lines) width = std::max(width, text_width(line, 10) + 8);
    return std::min(width, 170.0);
  }

  double width_of(NodeId id) const {
    double width = 0;
    const auto below = parts(id);
    for (const NodeId child : below) width += width_of(child) + kGap;
    if (!below.empty()) width += 2 * kPad - kGap;
    return std::max(width, own_width(id));
  }

  void place(NodeId id, double x, int depth) {
    const bool leaf = is_leaf(id);
    const int row = leaf ? depth_ : depth;
    Box box{x, top_ + row * (kBar + kWay), width_of(id), kBar};
    if (leaf) box.height = std::max(kDevice, 20 + kPortLine * static_cast<double>(lines_of(id).size() - 1));
    placed_.boxes[id] = box;
    placed_.right = std::max(placed_.right, box.right());
    placed_.bottom = std::max(placed_.bottom, box.bottom());
    double inner = 0;
    const auto below = parts(id);
    for (const NodeId child : below) inner += width_of(child) + kGap;
    double at = x + (box.width - (inner - kGap)) / 2;
    for (const NodeId child : below) {
      place(child, at, depth + 1);
      at += width_of(child) + kGap;
    }
  }

  void node(NodeId id) {
    const Box box = placed_.boxes[id];
    for (const NodeId child : parts(id)) {
      const Box below = placed_.boxes[child];
      const Link& link = m_.link(family_.up[static_cast<size_t>(child)]);
      canvas_.line(below.centre(), box.bottom(), below.centre(), below.y, stroke_of(link));
      canvas_.label(below.centre(), below.y - 5, label_of(link));
      node(child);
    }
    const Looks looks = looks_of(m_.node(id).kind);
    canvas_.box(box, looks.fill, looks.stroke, hint_of(id));
    const auto lines = lines_of(id);
    if (is_leaf(id)) {
      for (size_t i = 0; i < lines.size(); ++i)
        canvas_.text(box.centre(), box.y + 14 + kPortLine * static_cast<double>(i), lines[i], Align::centre, i == 0 ? 11 : 10,
                     i == 0);
    } else {
      bar_text(box, lines);
    }
  }

  /// In one line where there is room.
  void bar_text(const Box& box, const std::vector<std::string>& lines) {
    std::string all = lines[0];
    for (size_t i = 1; i < lines.size(); ++i) all += lines[i].empty() ? "" : "   " + lines[i];
    if (text_width(all) < box.width || lines.size() == 1)
      return canvas_.text(box.centre(), box.y + 19, all, Align::centre, 11, true);
    canvas_.text(box.centre(), box.y + 13, lines[0], Align::centre, 11, true);
    canvas_.text(box.centre(), box.y + 25, lines[1], Align::centre, 10);
  }

  /// All that is known, for a pointer that rests on it.
  std::string hint_of(NodeId id) const {
    std::string text = describe(m_, id);
    for (const Fact& fact : facts_of(m_, id)) text += ", " + fact.name + " " + text_of(fact);
    return text;
  }

  Canvas& canvas_;
  const Machine& m_;
  const Family& family_;
  Placed& placed_;
  std::vector<NodeId> roots_;
  int depth_ = 0;  ///< of the row of devices
  double top_ = 0;
};

}  // namespace

std::string colour_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvlink:
    case LinkKind::xgmi:
      return "#3f9b1f";
    case LinkKind::c2c:
      return "#d9731a";
    case LinkKind::socket:
      return "#7a3fb5";
    case LinkKind::network:
      return "#1b86b8";
    case LinkKind::memory:
      return "#b97a1d";
    default:
      return "#777";
  }
}

Stroke stroke_of(const Link& link) {
  const double width = link.rate >= 200000 ? 4 : link.rate >= 40000 ? 2.5 : link.rate >= 20000 ? 1.8 : 1.2;
  return {colour_of(link.kind), width, link.source == Source::assumed, false};
}

std::string label_of(const Link& link) { return gbps(link.rate) + (link.source == Source::assumed ? "?" : ""); }

void draw_host(Canvas& canvas, const Machine& machine, const Family& family, int32_t host, double x, double y, Placed& placed) {
  Host(canvas, machine, family, host, placed).draw(x, y);
}

}  // namespace ronde::topo::tool
