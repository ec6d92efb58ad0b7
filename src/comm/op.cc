#include "comm/op.h"

#include <cstring>
#include <fmt/core.h>

namespace ronde {
namespace {

/// Whether this rank's call reads `send` or writes `recv`, and how many elements.
struct Touch {
  size_t send = 0, recv = 0;
};
Touch touched(const Op& op) {
  const auto n = static_cast<size_t>(op.comm->ranks());
  const bool root = op.comm->rank() == op.root;
  switch (op.coll) {
    case Coll::all_reduce: return {op.count, op.count};
    case Coll::broadcast: return {root ? op.count : 0, op.count};
    case Coll::reduce: return {op.count, root ? op.count : 0};
    case Coll::all_gather: return {op.count, op.count * n};
    case Coll::reduce_scatter: return {op.count * n, op.count};
    case Coll::all_to_all: return {op.count * n, op.count * n};
    case Coll::gather: return {op.count, root ? op.count * n : 0};
    case Coll::scatter: return {root ? op.count * n : 0, op.count};
    case Coll::send: return {op.count, 0};
    case Coll::recv: return {0, op.count};
  }
  return {};
}

/// Whether kernels of the rank's GPU reach the memory: of a GPU, or of the host and pinned.
Result<> check_reached(const Op& op, const void* pointer, std::string_view argument) {
  const device::Gpu& gpu = *op.comm->gpu_rank()->gpu();
  const device::Current current(gpu);
  cu::CUdeviceptr address = 0;
  if (gpu.driver().cuPointerGetAttribute(&address, cu::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, reinterpret_cast<uintptr_t>(pointer)) == cu::CUDA_SUCCESS) return {};
  return fail(Code::invalid_argument, fmt::format("{}: {} {} is no memory that {} reaches; take it from cudaMalloc or ncclMemAlloc, or pin it", name_of(op.coll), argument,
                                                  pointer, gpu.name()));
}

void add_lanes(Part& part, const Program& program) {
  for (const auto& moves : program.lanes) part.lanes.push_back(Lane{&moves});
}

Result<> fill_collective(const Op& op, Work& work) {
  if (op.count == 0) return {};  // nothing moves, but the call is compared
  RONDE_TRY(std::shared_ptr<const Chosen> chosen, op.comm->plans().find(shape_of(op)));
  const Choice& choice = chosen->choice;
  work.call.algorithm = static_cast<uint8_t>(chosen->algorithm_index);
  work.call.choice = chosen->choice_hash;
  size_t scratch = 0;
  const size_t capacity = op.comm->plans().inputs().slot_capacity;
  const size_t slice = std::max(size_of(op.type), std::min(choice.slice, capacity) / size_of(op.type) * size_of(op.type));
  work.rule = {slice, capacity, chosen->plan->most_blocks, choice.merged};
  for (size_t c = 0; c < chosen->plan->bound.size(); ++c) {
    const Program& program = chosen->plan->programs[c];
    Part part;
    part.bound = &chosen->plan->bound[c];
    part.table = channel_table(work.buffers, static_cast<uint32_t>(c), static_cast<uint32_t>(choice.channels), program.blocks);
    part.slicing = slicing_of(part.table, work.rule);
    add_lanes(part, program);
    scratch += to_granule(program.scratch_blocks * part.table.block);
    work.parts.push_back(std::move(part));
  }
  if (scratch != 0) {
    work.copy.resize(scratch);
    auto at = reinterpret_cast<uintptr_t>(work.copy.data());
    for (Part& part : work.parts) {
      part.table.base[static_cast<size_t>(Buf::scratch)] = at;
      at += to_granule(part.bound->program->scratch_blocks * part.table.block);
    }
  }
  work.keeps = chosen;
  return {};
}

/// The Program of one of a message's two ends.
Program message_end(bool sends) {
  Move move;
  move.out_count = sends ? 1 : 0;
  move.in_count = sends ? 0 : 1;
  (sends ? move.src : move.dst) = sends ? Buf::input : Buf::output;
  Program program;
  program.blocks = 1;
  program.lanes = {{move}};
  return program;
}

const Program& message_program(Coll coll) {
  // Never destroyed: library threads may send while the process exits.
  static const Program& sender = *new Program(message_end(true));
  static const Program& receiver = *new Program(message_end(false));
  return coll == Coll::send ? sender : receiver;
}

Result<> fill_message(const Op& op, Work& work) {
  RONDE_TRY(Port * port, op.comm->seat().port(op.root, op.comm->message_link(), op.coll == Coll::send));
  auto bound = std::make_shared<BoundProgram>();
  bound->program = &message_program(op.coll);
  bound->ports = {port};
  Part part;
  part.bound = bound.get();
  const size_t capacity = op.comm->plans().inputs().slot_capacity;
  work.rule = {std::max(size_of(op.type), capacity / size_of(op.type) * size_of(op.type)), capacity, 1, false};
  part.table = channel_table(work.buffers, 0, 1, 1);
  part.slicing = slicing_of(part.table, work.rule);
  add_lanes(part, *bound->program);
  work.parts.push_back(std::move(part));
  work.keeps = bound;
  return {};
}

}  // namespace

Result<> check_op(const Op& op) {
  const int n = op.comm->ranks();
  const std::string_view name = name_of(op.coll);
  const bool message = op.coll == Coll::send || op.coll == Coll::recv;
  if ((has_root(op.coll) || message) && (op.root < 0 || op.root >= n)) {
    return fail(Code::invalid_argument, fmt::format("{}: {} {} is outside the communicator's ranks 0 to {}", name, message ? "peer" : "root", op.root, n - 1));
  }
  const size_t most = SIZE_MAX / 2 / size_of(op.type) / static_cast<size_t>(n);
  if (op.count > most) {
    return fail(Code::invalid_argument, fmt::format("{}: a count of {} {} elements on {} ranks is more than memory can hold", name, op.count, name_of(op.type), n));
  }
  const Touch touch = touched(op);
  if (touch.send != 0 && op.send == nullptr) {
    return fail(Code::invalid_argument, fmt::format("{}: sendbuff is NULL and would be read for {} elements", name, touch.send));
  }
  if (touch.recv != 0 && op.recv == nullptr) {
    return fail(Code::invalid_argument, fmt::format("{}: recvbuff is NULL and would be written with {} elements", name, touch.recv));
  }
  if (op.comm->gpu_rank() != nullptr && op.comm->config().flag(Setting::check_pointers)) {
    if (touch.send != 0) RONDE_TRY(check_reached(op, op.send, "sendbuff"));
    if (touch.recv != 0) RONDE_TRY(check_reached(op, op.recv, "recvbuff"));
  }
  return {};
}

CallShape shape_of(const Op& op) {
  CallShape shape;
  shape.spec = CollSpec{op.coll, op.comm->ranks(), has_root(op.coll) ? op.root : 0};
  shape.count = op.count;
  shape.type = op.type;
  shape.op = op.op;
  return shape;
}

Result<std::unique_ptr<Work>> make_work(const Op& op, bool lend) {
  auto work = std::make_unique<Work>();
  work->seat = op.comm->seat_ptr();
  work->may_lend = lend;
  work->call.coll = op.coll;
  work->call.type = op.type;
  work->call.op = has_reduction(op.coll) ? op.op : ReduceOp::sum;
  work->call.root = has_root(op.coll) || op.coll == Coll::send || op.coll == Coll::recv ? op.root : -1;
  work->call.count = op.count;
  work->scale.factor = op.factor;
  work->factor_at = op.factor_at;
  work->scale.divisor = op.comm->ranks();
  work->buffers = {reinterpret_cast<uintptr_t>(op.send), reinterpret_cast<uintptr_t>(op.recv), bytes_of(op), op.comm->rank(), op.coll};
  if (work->call.message()) {
    RONDE_TRY(fill_message(op, *work));
  } else {
    RONDE_TRY(fill_collective(op, *work));
  }
  return work;
}

void number(Work& work) noexcept {
  Seat& seat = *work.seat;
  seat.begin_work();
  if (work.call.message()) {
    Port& port = *work.parts.front().bound->ports.front();
    work.call.sequence = work.call.coll == Coll::send ? port.send_issued++ : port.recv_issued++;
  } else {
    work.call.sequence = seat.collectives_issued++;
  }
  work.fingerprint = work.call.fingerprint();
}

void detach(Work& work) {
  BlockTable& table = work.parts.front().table;
  uintptr_t& input = table.base[static_cast<size_t>(Buf::input)];
  work.copy.resize(table.total);
  if (table.total != 0) memcpy(work.copy.data(), reinterpret_cast<const void*>(input), table.total);
  input = reinterpret_cast<uintptr_t>(work.copy.data());
}

}  // namespace ronde
