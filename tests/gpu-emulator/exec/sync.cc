// What lanes and warps do together: shuffles, votes, matches, reductions, barriers.
#include <fmt/core.h>

#include "gpu-emulator/exec/instructions.h"
#include "gpu-emulator/exec/model.h"

namespace emu {
namespace {

enum Exchange : uint8_t {
  shuffle_up,
  shuffle_down,
  shuffle_bfly,
  shuffle_idx,
  vote_all,
  vote_any,
  vote_uni,
  vote_ballot,
  match_any,
  match_all,
  warp_barrier,
  elect,
  redux_add,
  redux_min_u,
  redux_min_s,
  redux_max_u,
  redux_max_s,
  redux_and,
  redux_or,
  redux_xor,
};

/// What the lanes bring and take.
struct Meeting {
  std::array<uint64_t, kLanes> a{}, b{}, c{}, result{};
  uint32_t predicate = 0;
  uint32_t members = 0;  ///< lanes that are here
};

/// False: the source is absent; `from` says who.
bool shuffle(Meeting& m, uint8_t kind, unsigned lane, unsigned* from) {
  const unsigned b = m.b[lane] & 31, clamp = m.c[lane] & 31, segment = m.c[lane] >> 8 & 31;
  const unsigned lowest = lane & segment, most = lowest | (clamp & ~segment & 31);
  unsigned source = lane;
  bool inside = true;
  switch (kind) {
    case shuffle_up:
      inside = static_cast<int>(lane) - static_cast<int>(b) >= static_cast<int>(most);
      source = lane - b;
      break;
    case shuffle_down:
      source = lane + b;
      inside = source <= most;
      break;
    case shuffle_bfly:
      source = lane ^ b;
      inside = source <= most;
      break;
    default:
      source = lowest | (b & ~segment & 31);
      inside = source <= most;
  }
  if (!inside) source = lane;
  *from = source;
  if ((m.members >> source & 1) == 0) return false;
  m.result[lane] = m.a[source];
  m.predicate |= uint32_t{inside} << lane;
  return true;
}

uint64_t reduce(const Meeting& m, uint8_t kind) {
  bool first = true;
  uint32_t r = 0;
  lanes(m.members, [&](unsigned i) {
    const auto v = static_cast<uint32_t>(m.a[i]);
    if (first) {
      r = v;
      first = false;
      return;
    }
    switch (kind) {
      case redux_add:
        r += v;
        break;
      case redux_min_u:
        r = std::min(r, v);
        break;
      case redux_max_u:
        r = std::max(r, v);
        break;
      case redux_min_s:
        r = static_cast<uint32_t>(std::min(static_cast<int32_t>(r), static_cast<int32_t>(v)));
        break;
      case redux_max_s:
        r = static_cast<uint32_t>(std::max(static_cast<int32_t>(r), static_cast<int32_t>(v)));
        break;
      case redux_and:
        r &= v;
        break;
      case redux_or:
        r |= v;
        break;
      default:
        r ^= v;
    }
  });
  return r;
}

void vote(Meeting& m, uint8_t kind) {
  uint32_t yes = 0;
  lanes(m.members, [&](unsigned i) { yes |= static_cast<uint32_t>(m.a[i] & 1) << i; });
  const bool all = yes == m.members, any = yes != 0;
  if (kind == vote_ballot) {
    m.result.fill(yes);
  } else {
    m.predicate = (kind == vote_all ? all : kind == vote_any ? any : all || !any) ? ~uint32_t{0} : 0;
  }
}

void match(Meeting& m, uint8_t kind) {
  lanes(m.members, [&](unsigned i) {
    uint32_t same = 0;
    lanes(m.members, [&](unsigned k) { same |= uint32_t{m.a[k] == m.a[i]} << k; });
    const bool all = same == m.members;
    m.result[i] = kind == match_any || all ? same : 0;
    m.predicate |= uint32_t{all} << i;
  });
}

void compute(Warp& warp, const Instruction& in, Meeting& m) {
  if (in.kind <= shuffle_idx) {
    lanes(m.members, [&](unsigned i) {
      unsigned from = 0;
      if (!shuffle(m, in.kind, i, &from))
        warp.fault(in, i,
                   fmt::format("the lane reads from lane {}, which is absent: only lanes {:08x} are here", from, m.members));
    });
  } else if (in.kind <= vote_ballot) {
    vote(m, in.kind);
  } else if (in.kind <= match_all) {
    match(m, in.kind);
  } else if (in.kind == elect) {
    m.result.fill(static_cast<uint64_t>(std::countr_zero(m.members)));
    m.predicate = m.members & (~m.members + 1);
  } else if (in.kind != warp_barrier) {
    m.result.fill(reduce(m, in.kind));
  }
}

void bring(Warp& warp, const Instruction& in, uint32_t mask, Meeting& m) {
  m.members |= mask;
  if (in.a == kNoSlot) return;
  const unsigned bits = static_cast<unsigned>(in.immediate);
  lanes(mask, [&](unsigned i) { m.a[i] = value_of(warp, in.a, bits, i); });
  if (in.kind > shuffle_idx) return;
  lanes(mask, [&](unsigned i) {
    m.b[i] = warp.at<uint32_t>(in.b)[i];
    m.c[i] = warp.at<uint32_t>(in.c)[i];
  });
}

void take(Warp& warp, const Instruction& in, uint32_t mask, const Meeting& m) {
  if (in.d != kNoSlot) lanes(mask, [&](unsigned i) { warp.at<uint32_t>(in.d)[i] = static_cast<uint32_t>(m.result[i]); });
  set_predicate(warp, in.e, mask, m.predicate);
}

void run_exchange(Warp& warp, const Instruction& in) {
  const uint32_t* named = warp.at<uint32_t>(warp.entry(in, 0));
  const uint32_t members = named[std::countr_zero(warp.mask)];
  lanes(warp.mask, [&](unsigned i) {
    if (named[i] != members) warp.fault(in, i, "the lanes of a group name different lanes as members");
    if ((members >> i & 1) == 0)
      warp.fault(in, i, fmt::format("the lane is not among the members {:08x} that it names itself", members));
  });
  if (warp.event == Event::fault) return;
  if (warp.mask != warp.active) warp.split(warp.active & ~warp.mask, warp.pc);
  if ((warp.mask & members & warp.live) == (members & warp.live)) {
    Meeting m;
    bring(warp, in, warp.mask, m);
    compute(warp, in, m);
    take(warp, in, warp.mask, m);
    if (in.kind == warp_barrier && warp.launch->model) warp.launch->model->warp_barrier(warp, warp.mask);
    return;
  }
  Group& group = warp.groups[warp.current];
  group.wait = Wait::lanes;
  group.at = &in;
  group.members = members;
  warp.event = Event::blocked;
}

}  // namespace

void meet(Warp& warp, const std::vector<size_t>& groups) {
  Meeting m;
  const Instruction* in = nullptr;
  for (const bool before : {true, false}) {
    for (const size_t g : groups) {
      Group& group = warp.groups[g];
      in = group.at;
      warp.current = g;
      warp.load_group();
      if (before) {
        bring(warp, *in, group.mask, m);
      } else {
        take(warp, *in, group.mask, m);
        group.wait = Wait::ready;
        group.fruitless = 0;
      }
    }
    if (before) compute(warp, *in, m);
  }
  if (in->kind == warp_barrier && warp.launch->model) warp.launch->model->warp_barrier(warp, m.members);
}

// Barriers of the block.

namespace {

enum BarrierKind : uint8_t { barrier_sync, barrier_arrive, barrier_popc, barrier_and, barrier_or };

void release(Block& block, uint32_t id) {
  Barrier& barrier = block.barriers[id];
  if (block.launch->model) block.launch->model->barrier_release(block, id);
  for (auto& warp : block.warps) {
    for (Group& group : warp->groups) {
      if (group.wait != Wait::barrier || group.barrier != id) continue;
      group.wait = Wait::ready;
      group.fruitless = 0;
      const Instruction& in = *group.at;
      if (in.kind < barrier_popc) continue;
      std::byte* registers = group.frame->registers.get();
      if (in.kind == barrier_popc) {
        auto* d = reinterpret_cast<uint32_t*>(registers + in.d);
        lanes(group.mask, [&](unsigned i) { d[i] = barrier.count; });
      } else {
        const bool yes = in.kind == barrier_and ? barrier.count == barrier.expected : barrier.count > 0;
        auto* d = reinterpret_cast<uint32_t*>(registers + in.d);
        *d = (*d & ~group.mask) | (yes ? group.mask : 0);
      }
    }
  }
  barrier = {};
}

void run_barrier(Warp& warp, const Instruction& in) {
  Group* group = &warp.groups[warp.current];
  const auto first = static_cast<unsigned>(std::countr_zero(warp.mask));
  const uint32_t id = warp.at<uint32_t>(in.a)[first], count = warp.at<uint32_t>(in.b)[first];
  uint32_t same = 0;
  lanes(warp.mask, [&](unsigned i) { same |= uint32_t{warp.at<uint32_t>(in.a)[i] == id} << i; });
  if (same != warp.mask && in.immediate != 0) return warp.fault(in, first, "lanes of a warp name different barriers");
  if (same != warp.mask) {  // not aligned: those of another barrier come to it on their own
    warp.split(warp.mask & ~same, &in);
    warp.mask = same;
  }
  if (warp.mask != warp.active) {
    warp.split(warp.active & ~warp.mask, warp.pc);
  }
  group = &warp.groups[warp.current];
  const bool aligned = in.immediate != 0;
  if (aligned && warp.active != warp.live && group->members != ~uint32_t{0}) {
    group->wait = Wait::warp;
    group->at = &in;
    warp.pc = &in;
    warp.event = Event::blocked;
    return;
  }
  group->members = 0;
  const uint32_t truth = in.c == kNoSlot ? 0 : *warp.at<uint32_t>(in.c) & warp.mask;
  arrive(warp, in, warp.mask, id, count, truth, in.kind != barrier_arrive);
}

}  // namespace

void arrive(Warp& warp, const Instruction& in, uint32_t mask, uint32_t id, uint32_t count, uint32_t true_lanes, bool waits) {
  Block& block = *warp.block;
  const auto lane = static_cast<unsigned>(std::countr_zero(mask));
  if (id >= block.barriers.size()) return warp.fault(in, lane, fmt::format("there is no barrier {}", id));
  if (count == 0) count = block.threads;
  if (count % kLanes != 0 && count != block.threads)
    return warp.fault(in, lane, fmt::format("{} threads at a barrier are no whole warps", count));
  Barrier& barrier = block.barriers[id];
  if (barrier.arrived != 0 && barrier.expected != count)
    return warp.fault(in, lane,
                      fmt::format("barrier {} is for {} threads here, for {} where others arrived", id, count, barrier.expected));
  barrier.expected = count;
  barrier.arrived += static_cast<uint32_t>(std::popcount(mask));
  barrier.count += static_cast<uint32_t>(std::popcount(true_lanes));
  if (warp.launch->model) warp.launch->model->barrier_arrive(warp, mask, id);
  if (waits) {
    Group& group = warp.groups[warp.current];
    group.wait = Wait::barrier;
    group.at = &in;
    group.barrier = id;
    warp.event = Event::blocked;
  }
  if (barrier.arrived > count)
    return warp.fault(in, lane, fmt::format("{} threads arrived at barrier {}, which is for {}", barrier.arrived, id, count));
  if (barrier.arrived == count) release(block, id);
}

namespace {

void decode_barrier(Decoder& d, Instruction& in, bool aligned) {
  const ptx::Type u32 = ptx::type_named("u32");
  in.run = run_barrier;
  in.immediate = aligned;
  in.c = kNoSlot;
  size_t next = 0;
  if (d.has("red")) {
    in.kind = d.has("popc") ? barrier_popc : d.has("and") ? barrier_and : barrier_or;
    in.d = d.result(next++);
  } else {
    in.kind = d.has("arrive") ? barrier_arrive : barrier_sync;
  }
  in.a = d.source(next++, u32);
  // The last of a reduction is its predicate; a count may stand before it.
  const size_t counts = d.operands() - next - (in.kind >= barrier_popc ? 1 : 0);
  in.b = counts > 0 ? d.source(next++, u32) : d.constant(0, 32);
  if (in.kind >= barrier_popc) in.c = d.source(next, ptx::type_named("pred"));
}

void decode_shuffle(Decoder& d, Instruction& in) {
  const ptx::Type b32 = ptx::type_named("b32");
  in.kind = d.has("up") ? shuffle_up : d.has("down") ? shuffle_down : d.has("bfly") ? shuffle_bfly : shuffle_idx;
  const ptx::Operand& to = d.operand(0);
  in.d = d.result(to.kind == ptx::Operand::Kind::pair ? to.parts[0] : to);
  if (to.kind == ptx::Operand::Kind::pair) in.e = d.result(to.parts[1]);
  in.a = d.source(1, b32);
  in.b = d.source(2, b32);
  in.c = d.source(3, b32);
  in.immediate = 32;
  in.list = d.list({d.source(4, b32)});
}

void decode_vote(Decoder& d, Instruction& in) {
  in.kind = d.has("ballot") ? vote_ballot : d.has("all") ? vote_all : d.has("any") ? vote_any : vote_uni;
  (in.kind == vote_ballot ? in.d : in.e) = d.result(0);
  in.a = d.source(1, ptx::type_named("pred"));
  in.immediate = 1;
  in.list = d.list({d.source(2, ptx::type_named("b32"))});
}

void decode_match(Decoder& d, Instruction& in) {
  in.kind = d.has("any") ? match_any : match_all;
  const ptx::Operand& to = d.operand(0);
  in.d = d.result(to.kind == ptx::Operand::Kind::pair ? to.parts[0] : to);
  if (to.kind == ptx::Operand::Kind::pair) in.e = d.result(to.parts[1]);
  in.a = d.source(1, d.type());
  in.immediate = d.type().width;
  in.list = d.list({d.source(2, ptx::type_named("b32"))});
}

void decode_redux(Decoder& d, Instruction& in) {
  const bool is_signed = d.type().kind == ptx::Type::Kind::signed_;
  if (d.type().kind == ptx::Type::Kind::real) d.wrong("floats are not known here");
  in.kind = d.has("add")   ? redux_add
            : d.has("min") ? (is_signed ? redux_min_s : redux_min_u)
            : d.has("max") ? (is_signed ? redux_max_s : redux_max_u)
            : d.has("and") ? redux_and
            : d.has("or")  ? redux_or
                           : redux_xor;
  in.d = d.result(0);
  in.a = d.source(1, d.type());
  in.immediate = 32;
  in.list = d.list({d.source(2, ptx::type_named("b32"))});
}

}  // namespace

bool decode_sync(Decoder& d, Instruction& in) {
  const std::string_view opcode = d.statement().opcode;
  if (opcode == "barrier" && d.has("cluster")) return false;
  if (opcode == "bar" && d.has("warp")) {
    in.run = run_exchange;
    in.kind = warp_barrier;
    in.a = in.d = in.e = kNoSlot;
    in.list = d.list({d.source(0, ptx::type_named("b32"))});
    return true;
  }
  if (opcode == "bar" || opcode == "barrier") {
    decode_barrier(d, in, opcode == "bar" || d.has("aligned"));
    return true;
  }
  in.d = in.e = kNoSlot;
  if (opcode == "shfl") {
    decode_shuffle(d, in);
  } else if (opcode == "vote") {
    decode_vote(d, in);
  } else if (opcode == "match") {
    decode_match(d, in);
  } else if (opcode == "redux") {
    decode_redux(d, in);
  } else if (opcode == "elect") {
    in.kind = elect;
    const ptx::Operand& to = d.operand(0);
    in.d = d.result(to.kind == ptx::Operand::Kind::pair ? to.parts[0] : to);
    if (to.kind == ptx::Operand::Kind::pair) in.e = d.result(to.parts[1]);
    in.a = kNoSlot;
    in.list = d.list({d.source(1, ptx::type_named("b32"))});
  } else {
    return false;
  }
  if (!d.has("sync")) d.wrong("only the forms with .sync are known");
  in.run = run_exchange;
  return true;
}

}  // namespace emu
