// Operands to slots.
#include <bit>

#include <fmt/core.h>

#include "gpu-emulator/ptx/build.h"

namespace emu {

using ptx::Binding;
using ptx::Space;
using ptx::Type;

namespace {

void run_not_predicate(Warp& warp, const Instruction& in) { set_predicate(warp, in.d, warp.mask, ~*warp.at<uint32_t>(in.a)); }

void run_local_address(Warp& warp, const Instruction& in) {
  const uint64_t address = warp.frame->local + static_cast<uint64_t>(in.immediate);
  lanes(warp.mask, [&](unsigned i) { set_value(warp, in.d, in.count, i, address); });
}

template <class T>
void run_negate(Warp& warp, const Instruction& in) {
  lanes(warp.mask, [&](unsigned i) { warp.at<T>(in.d)[i] = static_cast<T>(-warp.at<T>(in.a)[i]); });
}

}  // namespace

void Decoder::wrong(std::string what) {
  if (error_.empty()) error_ = std::move(what);
}

const ptx::Operand& Decoder::operand(size_t i) {
  static const ptx::Operand none;
  if (i < statement_->operands.size()) return statement_->operands[i];
  wrong("an operand is missing");
  return none;
}

Type Decoder::type(size_t i) const {
  for (const std::string_view modifier : statement_->modifiers) {
    const Type named = ptx::type_named(modifier);
    if (named.kind != Type::Kind::none && i-- == 0) return named;
  }
  return {};
}

Slot Decoder::constant(uint64_t value, unsigned bits) { return builder_->constant(value, bits); }
Slot Decoder::temporary(unsigned bits) { return builder_->add_register(bits); }

void Decoder::ahead(const Instruction& instruction) {
  builder_->code.instructions.push_back(instruction);
  Instruction& kept = builder_->code.instructions.back();
  kept.guard = true_predicate();
  kept.place = static_cast<uint32_t>(builder_->code.places.size() - 1);
}

uint32_t Decoder::list(const std::vector<Slot>& slots) {
  auto& lists = builder_->code.lists;
  lists.insert(lists.end(), slots.begin(), slots.end());
  return static_cast<uint32_t>(lists.size() - slots.size());
}

bool Decoder::is_register(const ptx::Operand& operand) {
  return operand.kind == ptx::Operand::Kind::name &&
         builder_->text.find(operand.name, statement_->scope).kind == Binding::Kind::register_;
}

unsigned Decoder::width(const ptx::Operand& operand) {
  if (!is_register(operand)) return 0;
  return builder_->text.registers[builder_->text.find(operand.name, statement_->scope).index].bytes() == 0
             ? 1
             : builder_->text.registers[builder_->text.find(operand.name, statement_->scope).index].bytes() * 8;
}

Slot Decoder::result(const ptx::Operand& operand) {
  if (operand.kind == ptx::Operand::Kind::name && operand.name == "_") return kNoSlot;
  if (!is_register(operand)) {
    wrong(fmt::format("'{}' is no register that can be written", operand.name));
    return 0;
  }
  return builder_->registers[builder_->text.find(operand.name, statement_->scope).index];
}

Slot Decoder::source(const ptx::Operand& operand, Type type) {
  using Kind = ptx::Operand::Kind;
  const unsigned bits = type.kind == Type::Kind::pred ? 1 : type.bytes() * 8;
  switch (operand.kind) {
    case Kind::integer:
      return constant(operand.bits, bits);
    case Kind::float32: {
      if (bits != 64) return constant(operand.bits, bits);
      return constant(std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(operand.bits))}), 64);
    }
    case Kind::float64: {
      if (bits == 64) return constant(operand.bits, 64);
      return constant(std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits))), bits);
    }
    case Kind::name:
      break;
    default:
      wrong("an operand is a vector or an address, where a value is wanted");
      return 0;
  }
  if (operand.name == "WARP_SZ") return constant(kLanes, bits);
  if (!is_register(operand)) return symbol(operand, bits);
  const Slot slot = result(operand);
  if (width(operand) != bits) wrong(fmt::format("'{}' has {} bits, {} are read", operand.name, width(operand), bits));
  if (!operand.negated) return slot;
  Instruction in;
  in.a = slot;
  in.d = temporary(bits);
  in.run = bits == 1 ? run_not_predicate : bits == 32 ? run_negate<uint32_t> : run_negate<uint64_t>;
  ahead(in);
  return in.d;
}

Slot Decoder::symbol(const ptx::Operand& operand, unsigned bits) {
  Symbol found{false, 0, operand.offset};
  const Binding binding = builder_->text.find(operand.name, statement_->scope);
  if (binding.kind == Binding::Kind::variable) {
    const Builder::Place& place = builder_->variables[binding.index];
    if (place.space == Space::local) {
      Instruction in;
      in.run = run_local_address;
      in.d = temporary(bits);
      in.immediate = place.offset + operand.offset;
      in.count = static_cast<uint16_t>(bits);
      ahead(in);
      return in.d;
    }
    if (place.space == Space::param) return constant(place.offset + static_cast<uint64_t>(operand.offset), bits);
    found.shared = true;
    found.variable = place.offset;
  } else if (const auto variable = builder_->names.variables.find(operand.name); variable != builder_->names.variables.end()) {
    found.shared = variable->second.space == Space::shared;
    found.variable = variable->second.index;
  } else if (const auto function = builder_->names.functions.find(operand.name); function != builder_->names.functions.end()) {
    builder_->code.callees.push_back(function->second);
    return constant(kFunctionWindow + 16 * uint64_t{function->second}, bits);
  } else {
    wrong(fmt::format("'{}' is not known", operand.name));
    return 0;
  }
  const auto next = static_cast<uint32_t>(builder_->code.symbols.size());
  const auto [at, added] = builder_->symbols.emplace(std::tuple{found.shared, found.variable, found.addend}, next);
  if (added) builder_->code.symbols.push_back(found);
  return kSymbolBase + at->second * kSymbolBytes + (bits == 64 ? 0 : kLanes * 8);
}

void Decoder::address(const ptx::Operand& operand, Space space, Instruction& in) {
  if (operand.kind != ptx::Operand::Kind::address) return wrong("an address [...] is missing");
  const bool entry = builder_->text.entry;
  in.space = space == Space::param && !entry ? Space::local : space;
  in.immediate = operand.offset;
  in.wide = false;
  ptx::Operand base;
  base.name = operand.name;
  if (base.name.empty()) {
    in.wide = true;
    in.a = constant(0, 64);
    return;
  }
  if (is_register(base)) {
    in.a = result(base);
    in.wide = width(base) == 64;
    if (width(base) != 64 && width(base) != 32) wrong(fmt::format("'{}' is no address", base.name));
    return;
  }
  const Binding binding = builder_->text.find(base.name, statement_->scope);
  if (binding.kind == Binding::Kind::variable) {
    const Builder::Place& place = builder_->variables[binding.index];
    if (place.space != Space::shared) {
      in.space = place.space;
      in.framed = place.space == Space::local;
      in.immediate += place.offset;
      in.a = constant(0, 32);
      return;
    }
    in.space = Space::shared;
  } else if (const auto variable = builder_->names.variables.find(base.name); variable != builder_->names.variables.end()) {
    in.space = variable->second.space;
  }
  in.wide = true;
  in.a = symbol(base, 64);
}

void Decoder::branch(std::string_view label, Instruction& in) {
  const Binding binding = builder_->text.find(label, statement_->scope);
  if (binding.kind != Binding::Kind::label) return wrong(fmt::format("there is no label '{}'", label));
  in.immediate = binding.index;
  builder_->fixes.push_back({~uint32_t{0}, binding.index});  // the instruction's index is filled in when it is appended
}

uint32_t Decoder::table(std::string_view name) {
  const Binding binding = builder_->text.find(name, statement_->scope);
  if (binding.kind != Binding::Kind::targets) {
    wrong(fmt::format("there are no .branchtargets '{}'", name));
    return 0;
  }
  return binding.index;
}

void Decoder::call(Instruction& in) {
  Call made;
  const auto passed = [&](const ptx::Operand& from, std::vector<Passed>& to) {
    for (const ptx::Operand& part : from.parts) {
      const Binding binding = builder_->text.find(part.name, statement_->scope);
      if (binding.kind != Binding::Kind::variable || builder_->variables[binding.index].space != Space::local)
        return wrong(fmt::format("'{}' is passed to a function, but is no variable in the space .param", part.name));
      to.push_back(
          {builder_->variables[binding.index].offset, static_cast<uint32_t>(builder_->text.variables[binding.index].bytes)});
    }
  };
  size_t next = 0;
  if (operand(0).kind == ptx::Operand::Kind::list) passed(operand(next++), made.returns);
  const ptx::Operand& target = operand(next++);
  if (next < operands() && operand(next).kind == ptx::Operand::Kind::list) passed(operand(next), made.parameters);
  const auto function = builder_->names.functions.find(target.name);
  if (function != builder_->names.functions.end()) {
    made.target = static_cast<int>(function->second);
    builder_->code.callees.push_back(function->second);
  } else {
    in.a = source(target, ptx::type_named("u64"));
    builder_->code.calls_by_address = true;
  }
  in.immediate = static_cast<int64_t>(builder_->code.calls.size());
  builder_->code.calls.push_back(std::move(made));
}

}  // namespace emu
