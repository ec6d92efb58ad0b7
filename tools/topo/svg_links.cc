// Links between GPUs, between NUMA nodes, to their CPUs, to switches of NVLink and to the network.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/topo/svg_parts.h"

namespace ronde::topo::tool {
namespace {

constexpr double kHub = 26;       ///< height of the bars of NVLink switches and of the network
constexpr double kWay = 36;       ///< above them
constexpr double kDeepest = 110;  ///< of arcs

class Links {
 public:
  Links(Canvas& canvas, const Machine& machine, const Family& family, Placed& placed)
      : canvas_(canvas), m_(machine), family_(family), placed_(placed) {
    for (const auto& [id, box] : placed_.boxes) {
      row_ = std::max(row_, box.bottom());
    }
  }

  void draw() {
    for (const Link& link : m_.links) {
      if (!drawn(link.a) || !drawn(link.b)) continue;
      if (link.kind == LinkKind::c2c || to_own_cpu(link)) coherent(link);
      if (link.kind == LinkKind::pci && m_.node(link.a).parent != link.b) beside(link);
    }
    sockets();
    peers();
    std::vector<Hub> hubs;
    for (const NodeKind kind : {NodeKind::nv_switch, NodeKind::network}) {
      for (const NodeId id : m_.of_kind(kind)) {
        hubs.push_back(hub(id));
        if (hubs.back().ends.empty()) {
          hubs.pop_back();
        } else {
          row_ = hubs.back().bar.bottom();
        }
      }
    }
    placed_.bottom = std::max(placed_.bottom, row_);
    // Lines to lower bars pass behind higher ones.
    for (auto hub = hubs.rbegin(); hub != hubs.rend(); ++hub) draw_hub(*hub);
  }

 private:
  bool drawn(NodeId id) const { return placed_.boxes.count(id) != 0; }
  const Box& box(NodeId id) const { return placed_.boxes.at(id); }
  bool to_own_cpu(const Link& link) const {
    return link.kind == LinkKind::nvlink && (m_.node(link.a).kind == NodeKind::numa || m_.node(link.b).kind == NodeKind::numa);
  }

  /// From a GPU up to its CPU, beside its PCI link.
  void coherent(const Link& link) {
    const bool up = m_.node(link.b).kind == NodeKind::numa;
    const Box& gpu = box(up ? link.a : link.b);
    const Box& cpu = box(up ? link.b : link.a);
    const double x = gpu.right() - 8;
    canvas_.line(x, cpu.bottom(), x, gpu.y, stroke_of(link));
    canvas_.label(x, cpu.bottom() + 13, label_of(link), colour_of(link.kind));
  }

  /// Between two switches.
  void beside(const Link& link) {
    const double y = std::max(box(link.a).bottom(), box(link.b).bottom());
    canvas_.arc(box(link.a).centre(), box(link.b).centre(), y, 16, stroke_of(link));
    canvas_.label((box(link.a).centre() + box(link.b).centre()) / 2, y + 18, label_of(link));
  }

  /// Between NUMA nodes: neighbours by a line, others by arcs above; where all pairs are alike, one line for all.
  void sockets() {
    std::vector<Link> links;
    std::set<int64_t> rates;
    std::set<NodeId> ends;
    for (const Link& link : m_.links) {
      if (link.kind != LinkKind::socket || !drawn(link.a) || !drawn(link.b)) continue;
      links.push_back(link);
      rates.insert(link.rate);
      ends.insert({link.a, link.b});
    }
    if (ends.size() > 2 && rates.size() == 1 && links.size() == ends.size() * (ends.size() - 1) / 2) {
      const double y = box(*ends.begin()).y - 14;
      double left = box(*ends.begin()).centre();
      double right = left;
      for (const NodeId id : ends) {
        canvas_.line(box(id).centre(), y, box(id).centre(), box(id).y, stroke_of(links[0]));
        left = std::min(left, box(id).centre());
        right = std::max(right, box(id).centre());
      }
      canvas_.line(left, y, right, y, stroke_of(links[0]));
      canvas_.label((left + right) / 2, y - 5, label_of(links[0]) + " between each two", colour_of(LinkKind::socket));
      return;
    }
    for (const Link& link : links) socket(link);
  }

  void socket(const Link& link) {
    const bool in_order = box(link.a).x < box(link.b).x;
    const Box& left = box(in_order ? link.a : link.b);
    const Box& right = box(in_order ? link.b : link.a);
    const bool neighbours = std::none_of(placed_.boxes.begin(), placed_.boxes.end(), [&](const auto& other) {
      return m_.node(other.first).kind == NodeKind::numa && other.second.x > left.x && other.second.x < right.x;
    });
    const double x = (left.right() + right.x) / 2;
    if (neighbours) {
      const double y = left.y + left.height / 2;
      canvas_.line(left.right(), y, right.x, y, stroke_of(link));
      canvas_.label(x, y - 6, label_of(link), colour_of(link.kind));
    } else {
      canvas_.arc(left.centre(), right.centre(), left.y, -20, stroke_of(link));
      canvas_.label((left.centre() + right.centre()) / 2, left.y - 17, label_of(link), colour_of(link.kind));
    }
  }

  /// Links between devices, as arcs below them.
  void peers() {
    double deepest = 0;
    for (const Link& link : m_.links) {
      if (!is_peer_link(link.kind) || !drawn(link.a) || !drawn(link.b) || to_own_cpu(link)) continue;
      const double x1 = box(link.a).centre();
      const double x2 = box(link.b).centre();
      const double height = std::min(12 + std::abs(x2 - x1) / 9, kDeepest);
      deepest = std::max(deepest, height);
      Stroke stroke = stroke_of(link);
      stroke.width = std::min(1.0 + 0.9 * (link.count - 1), 5.0);
      canvas_.arc(x1, x2, row_, height, stroke);
    }
    if (deepest > 0) row_ += deepest + 10;
  }

  /// What many lines lead to: a bar below all that is drawn.
  struct Hub {
    NodeId id;
    Box bar;
    std::map<NodeId, std::vector<Link>> ends;  ///< by what is drawn: a port is part of its adapter
  };

  Hub hub(NodeId id) {
    Hub hub{id, {0, row_ + kWay, 0, kHub}, {}};
    double right = 0;
    for (const LinkId l : family_.across[static_cast<size_t>(id)]) {
      NodeId end = other_end(m_.link(l), id);
      if (!drawn(end)) end = m_.node(end).parent;
      if (end == kNone || !drawn(end)) continue;
      hub.bar.x = hub.ends.empty() ? box(end).x : std::min(hub.bar.x, box(end).x);
      right = std::max(right, box(end).right());
      hub.ends[end].push_back(m_.link(l));
    }
    hub.bar.width = right - hub.bar.x;
    return hub;
  }

  void draw_hub(const Hub& hub) {
    const NodeId id = hub.id;
    const Box& bar = hub.bar;
    std::string colour;
    for (const auto& [end, links] : hub.ends) {
      colour = colour_of(links[0].kind);
      canvas_.line(box(end).centre(), box(end).bottom(), box(end).centre(), bar.y, stroke_of(links[0]));
      const std::string count = links.size() > 1 ? fmt::format("{} x ", links.size()) : "";
      canvas_.label(box(end).centre(), bar.y - 6, count + label_of(links[0]), colour);
    }
    int64_t total = 0;
    const auto& all = family_.across[static_cast<size_t>(id)];
    for (const LinkId l : all) total += m_.link(l).rate;
    const bool network = m_.node(id).kind == NodeKind::network;
    canvas_.box(bar, network ? "#d6ecf5" : "#dcefd2", colour);
    std::string text = describe(m_, id);
    if (m_.node(id).host == kNone && m_.hosts.size() > 1 && !network) text += " of all hosts";
    text += ": " + (network ? counted(all.size(), "port") : counted(all.size(), "GPU"));
    const std::string sum = fmt::format(", {} GB/s in all", gbps(total));
    if (text_width(text + sum, 12) < bar.width) text += sum;
    canvas_.text(bar.centre(), bar.y + 17, text, Align::centre, 11, true);
  }

  Canvas& canvas_;
  const Machine& m_;
  const Family& family_;
  Placed& placed_;
  double row_ = 0;  ///< below what is drawn so far
};

}  // namespace

void draw_links(Canvas& canvas, const Machine& machine, const Family& family, Placed& placed) {
  Links(canvas, machine, family, placed).draw();
}

void draw_legend(Canvas& canvas, const Machine& machine, Placed& placed) {
  // One entry for each kind of link that has no label of its own, or whose colour says what it is.
  std::vector<std::pair<std::string, Stroke>> entries;
  std::set<std::string> known;
  bool assumed = false;
  for (const Link& link : machine.links) {
    assumed |= link.source == Source::assumed;
    const bool peer =
        is_peer_link(link.kind) && machine.node(link.a).kind == NodeKind::gpu && machine.node(link.b).kind == NodeKind::gpu;
    std::string text = to_string(link.kind);
    if (link.kind == LinkKind::internal) continue;
    if (peer) text += fmt::format(" x{}: {} GB/s", link.count, label_of(link));
    if (!known.insert(text).second) continue;
    Stroke stroke = stroke_of(link);
    stroke.dashed = false;
    if (peer) stroke.width = std::min(1.0 + 0.9 * (link.count - 1), 5.0);
    entries.emplace_back(text, stroke);
  }
  if (assumed) entries.emplace_back("assumed (?)", Stroke{"#777", 1.5, true, false});
  double x = 16;
  const double y = placed.bottom + 26;
  canvas.text(x, y + 4, "GB/s in each direction:", Align::left, 10);
  x += text_width("GB/s in each direction:", 10) + 12;
  for (const auto& [text, stroke] : entries) {
    canvas.line(x, y, x + 26, y, stroke);
    canvas.text(x + 32, y + 4, text, Align::left, 10);
    x += 32 + text_width(text, 10) + 16;
  }
  placed.bottom = y + 8;
}

}  // namespace ronde::topo::tool
