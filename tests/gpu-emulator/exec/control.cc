// Branches, calls, and the end of threads.
#include <time.h>

#include <fmt/core.h>

#include "gpu-emulator/exec/instructions.h"
#include "gpu-emulator/exec/model.h"

namespace emu {

void run_label(Warp& warp, const Instruction&) {
  if (warp.groups.size() > 1) warp.event = Event::reselect;
}

namespace {

void run_branch(Warp& warp, const Instruction& in) {
  const Instruction* target = warp.frame->code->instructions.data() + in.immediate;
  const uint32_t rest = warp.active & ~warp.mask;
  if (rest == 0) {
    warp.pc = target;
    return;
  }
  // The group goes on at the lower place, where lanes meet again soonest.
  if (target < warp.pc) {
    warp.split(rest, warp.pc);
    warp.pc = target;
  } else {
    warp.split(warp.mask, target);
  }
  if (warp.launch->options.any_order) warp.event = Event::reselect;
}

void run_indexed_branch(Warp& warp, const Instruction& in) {
  const std::vector<uint32_t>& table = warp.frame->code->tables[static_cast<size_t>(in.immediate)];
  const uint32_t* index = warp.at<uint32_t>(in.a);
  const Instruction* base = warp.frame->code->instructions.data();
  if (warp.active != warp.mask) warp.split(warp.active & ~warp.mask, warp.pc);
  uint32_t left = warp.mask;
  while (left != 0) {
    const uint32_t chosen = index[std::countr_zero(left)];
    if (chosen >= table.size())
      return warp.fault(in, static_cast<unsigned>(std::countr_zero(left)),
                        fmt::format("branch {} of a table of {}", chosen, table.size()));
    uint32_t same = 0;
    lanes(left, [&](unsigned i) { same |= uint32_t{index[i] == chosen} << i; });
    left &= ~same;
    if (left == 0) {
      warp.pc = base + table[chosen];
    } else {
      warp.split(same, base + table[chosen]);
      warp.event = Event::reselect;
    }
  }
}

void end_threads(Warp& warp) { warp.end_lanes(warp.mask); }

void run_exit(Warp& warp, const Instruction&) { end_threads(warp); }

void copy_passed(Warp& warp, uint32_t mask, const std::vector<Passed>& from, uint32_t from_base, const std::vector<Passed>& to,
                 uint32_t to_base) {
  for (size_t p = 0; p < std::min(from.size(), to.size()); p++) {
    const uint32_t bytes = std::min(from[p].bytes, to[p].bytes);
    lanes(mask, [&](unsigned i) {
      std::byte* lane = warp.local.data() + size_t{i} * warp.local_stride;
      std::memcpy(lane + to_base + to[p].offset, lane + from_base + from[p].offset, bytes);
    });
  }
}

void run_return(Warp& warp, const Instruction&) {
  Frame* from = warp.frame;
  if (from->parent == nullptr) return end_threads(warp);
  if (warp.mask != warp.active) warp.split(warp.active & ~warp.mask, warp.pc);
  copy_passed(warp, warp.mask, from->code->returns, from->local, from->call->returns, from->parent->local);
  Group& group = warp.groups[warp.current];
  group.frame = from->parent;
  group.pc = warp.pc = from->back;
  const uint32_t mask = warp.mask;
  warp.leave(from, mask);
  warp.load_group();
  if (warp.groups.size() > 1) warp.event = Event::reselect;
}

void enter_function(Warp& warp, const Instruction& in, const Call& call, const Function& function) {
  const Code& code = *function.code;
  if (!code.missing.empty()) return warp.fault(in, static_cast<unsigned>(std::countr_zero(warp.mask)), code.missing);
  if (warp.frame->depth > 2000)
    return warp.fault(in, static_cast<unsigned>(std::countr_zero(warp.mask)), "calls are nested too deep");
  if (warp.mask != warp.active) warp.split(warp.active & ~warp.mask, warp.pc);
  Frame* parent = warp.frame;
  Frame* made = warp.enter(code, parent, warp.mask);
  made->back = warp.pc;
  made->call = &call;
  copy_passed(warp, warp.mask, call.parameters, parent->local, code.parameters, made->local);
  Group& group = warp.groups[warp.current];
  group.frame = made;
  group.pc = code.instructions.data();
  warp.load_group();
}

void run_call(Warp& warp, const Instruction& in) {
  const Call& call = warp.frame->code->calls[static_cast<size_t>(in.immediate)];
  const auto& functions = warp.launch->module->functions;
  if (call.target >= 0) return enter_function(warp, in, call, *functions[static_cast<size_t>(call.target)]);
  const uint64_t* addresses = warp.at<uint64_t>(in.a);
  const auto first = static_cast<unsigned>(std::countr_zero(warp.mask));
  const uint64_t chosen = addresses[first];
  const uint64_t number = (chosen - kFunctionWindow) / 16;
  if (chosen < kFunctionWindow || number >= functions.size() || chosen % 16 != 0)
    return warp.fault(in, first, fmt::format("a call of {:#x}, where no function is", chosen));
  uint32_t same = 0;
  lanes(warp.mask, [&](unsigned i) { same |= uint32_t{addresses[i] == chosen} << i; });
  if (same != warp.mask) {  // the others call theirs when they are picked
    warp.split(warp.mask & ~same, &in);
    warp.mask = same;
  }
  enter_function(warp, in, call, *functions[number]);
}

void run_trap(Warp& warp, const Instruction& in) { warp.fault(in, static_cast<unsigned>(std::countr_zero(warp.mask)), "trap"); }

void run_sleep(Warp& warp, const Instruction&) {
  warp.event = Event::yield;
  warp.fruitless = true;
}

void run_nothing(Warp&, const Instruction&) {}

enum Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  clock32,
  clock_hi,
  clock64,
  globaltimer,
  globaltimer_lo,
  globaltimer_hi,
  dynamic_smem,
  total_smem,
  cluster_zero,
  cluster_one,
};

struct SpecialName {
  std::string_view name;
  Special which;
};
constexpr SpecialName kSpecials[] = {
    {"%tid.x", tid_x},
    {"%tid.y", tid_y},
    {"%tid.z", tid_z},
    {"%ntid.x", ntid_x},
    {"%ntid.y", ntid_y},
    {"%ntid.z", ntid_z},
    {"%ctaid.x", ctaid_x},
    {"%ctaid.y", ctaid_y},
    {"%ctaid.z", ctaid_z},
    {"%nctaid.x", nctaid_x},
    {"%nctaid.y", nctaid_y},
    {"%nctaid.z", nctaid_z},
    {"%laneid", laneid},
    {"%warpid", warpid},
    {"%nwarpid", nwarpid},
    {"%smid", smid},
    {"%nsmid", nsmid},
    {"%gridid", gridid},
    {"%lanemask_eq", lanemask_eq},
    {"%lanemask_le", lanemask_le},
    {"%lanemask_lt", lanemask_lt},
    {"%lanemask_ge", lanemask_ge},
    {"%lanemask_gt", lanemask_gt},
    {"%clock", clock32},
    {"%clock_hi", clock_hi},
    {"%clock64", clock64},
    {"%globaltimer", globaltimer},
    {"%globaltimer_lo", globaltimer_lo},
    {"%globaltimer_hi", globaltimer_hi},
    {"%dynamic_smem_size", dynamic_smem},
    {"%total_smem_size", total_smem},
    {"%cluster_ctaid.x", cluster_zero},
    {"%cluster_ctaid.y", cluster_zero},
    {"%cluster_ctaid.z", cluster_zero},
    {"%cluster_ctarank", cluster_zero},
    {"%cluster_nctaid.x", cluster_one},
    {"%cluster_nctaid.y", cluster_one},
    {"%cluster_nctaid.z", cluster_one},
    {"%cluster_nctarank", cluster_one},
    {"%is_explicit_cluster", cluster_zero},
};

uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t of_thread(const Warp& warp, uint8_t which, unsigned lane) {
  const auto& threads = warp.launch->grid->threads;
  const uint32_t thread = warp.index * kLanes + lane, bit = uint32_t{1} << lane;
  switch (which) {
    case tid_x:
      return thread % threads[0];
    case tid_y:
      return thread / threads[0] % threads[1];
    case tid_z:
      return thread / threads[0] / threads[1];
    case laneid:
      return lane;
    case lanemask_eq:
      return bit;
    case lanemask_le:
      return bit | (bit - 1);
    case lanemask_lt:
      return bit - 1;
    case lanemask_ge:
      return ~(bit - 1);
    default:
      return ~(bit | (bit - 1));
  }
}

uint64_t of_warp(const Warp& warp, uint8_t which) {
  const Grid& grid = *warp.launch->grid;
  switch (which) {
    case ntid_x:
      return grid.threads[0];
    case ntid_y:
      return grid.threads[1];
    case ntid_z:
      return grid.threads[2];
    case ctaid_x:
      return warp.block->index[0];
    case ctaid_y:
      return warp.block->index[1];
    case ctaid_z:
      return warp.block->index[2];
    case nctaid_x:
      return grid.blocks[0];
    case nctaid_y:
      return grid.blocks[1];
    case nctaid_z:
      return grid.blocks[2];
    case warpid:
      return warp.index;
    case nwarpid:
      return 64;
    case smid:
      return warp.block->number % 128;
    case nsmid:
      return 128;
    case clock32:
    case clock64:
      return nanoseconds(CLOCK_MONOTONIC);
    case clock_hi:
      return nanoseconds(CLOCK_MONOTONIC) >> 32;
    case globaltimer:
    case globaltimer_lo:
      return nanoseconds(CLOCK_REALTIME);
    case globaltimer_hi:
      return nanoseconds(CLOCK_REALTIME) >> 32;
    case dynamic_smem:
      return grid.shared_bytes;
    case total_smem:
      return warp.launch->shared_bytes;
    case cluster_one:
      return 1;
    default:
      return 0;
  }
}

template <class T>
void run_special(Warp& warp, const Instruction& in) {
  T* d = warp.at<T>(in.d);
  if (in.kind <= tid_z || in.kind == laneid || (in.kind >= lanemask_eq && in.kind <= lanemask_gt)) {
    lanes(warp.mask, [&](unsigned i) { d[i] = static_cast<T>(of_thread(warp, in.kind, i)); });
  } else {
    const auto value = static_cast<T>(of_warp(warp, in.kind));
    lanes(warp.mask, [&](unsigned i) { d[i] = value; });
  }
}

void run_activemask(Warp& warp, const Instruction& in) {
  uint32_t* d = warp.at<uint32_t>(in.d);
  const uint32_t mask = warp.mask;
  lanes(mask, [&](unsigned i) { d[i] = mask; });
}

bool decode_special(Decoder& d, Instruction& in) {
  if (d.statement().opcode != "mov" || d.operands() != 2) return false;
  const ptx::Operand& from = d.operand(1);
  if (from.kind != ptx::Operand::Kind::name || from.name.empty() || from.name[0] != '%') return false;
  for (const SpecialName& special : kSpecials) {
    if (special.name != from.name) continue;
    in.kind = special.which;
    in.d = d.result(0);
    in.run = d.width(d.operand(0)) == 64 ? run_special<uint64_t> : run_special<uint32_t>;
    return true;
  }
  return false;
}

}  // namespace

bool decode_control(Decoder& d, Instruction& in) {
  const std::string_view opcode = d.statement().opcode;
  if (decode_special(d, in)) return true;
  if (opcode == "bra") {
    in.run = run_branch;
    d.branch(d.operand(0).name, in);
  } else if (opcode == "brx") {
    in.run = run_indexed_branch;
    in.a = d.source(0, ptx::type_named("u32"));
    in.immediate = d.table(d.operand(1).name);
  } else if (opcode == "call") {
    in.run = run_call;
    d.call(in);
  } else if (opcode == "ret") {
    in.run = run_return;
  } else if (opcode == "exit") {
    in.run = run_exit;
  } else if (opcode == "trap" || opcode == "brkpt") {
    in.run = run_trap;
  } else if (opcode == "nanosleep") {
    in.run = run_sleep;
  } else if (opcode == "activemask") {
    in.run = run_activemask;
    in.d = d.result(0);
  } else if (opcode == "griddepcontrol" || opcode == "setmaxnreg" || opcode == "prefetch" || opcode == "prefetchu" ||
             opcode == "discard" || opcode == "applypriority" || opcode == "pmevent") {
    in.run = run_nothing;
  } else {
    return false;
  }
  return true;
}

}  // namespace emu
