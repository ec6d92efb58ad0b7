// One function: registers and variables to places, statements to instructions, labels to indices.
#include "gpu-emulator/ptx/build.h"

#include <cstring>

#include <fmt/core.h>

namespace emu {

using ptx::Binding;
using ptx::Space;
using ronde::Result;

namespace {

uint32_t round_up(uint32_t value, uint32_t align) { return (value + align - 1) / align * align; }

/// One statement's decoding.
class StatementDecoder : public Decoder {
 public:
  StatementDecoder(Builder& builder, const ptx::Statement& statement) {
    builder_ = &builder;
    statement_ = &statement;
  }

  /// What is wrong; empty: nothing.
  std::string run() {
    const ptx::Statement& s = *statement_;
    Instruction in;
    in.guard = true_predicate();
    if (!s.guard.empty()) {
      ptx::Operand guard;
      guard.name = s.guard;
      in.guard = source(guard, ptx::type_named("pred"));
      in.flip = s.guard_negated ? ~uint32_t{0} : 0;
    }
    builder_->code.places.push_back({s.line, s.location});
    in.place = static_cast<uint32_t>(builder_->code.places.size() - 1);
    const size_t fixes = builder_->fixes.size();
    const bool known = decode_control(*this, in) || decode_memory(*this, in) || decode_atomic(*this, in) ||
                       decode_move(*this, in) || decode_integer(*this, in) || decode_bits(*this, in) ||
                       decode_compare(*this, in) || decode_convert(*this, in) || decode_float(*this, in) ||
                       decode_sync(*this, in);
    if (!known) return "the instruction is not known";
    if (!ok()) return error_;
    if (fixes != builder_->fixes.size())
      builder_->fixes.back().instruction = static_cast<uint32_t>(builder_->code.instructions.size());
    builder_->code.instructions.push_back(in);
    // Lanes that did not take a branch wait after it for those that come later, as at a label.
    if (s.opcode == "bra" && !s.guard.empty()) builder_->add_label(in.place);
    return "";
  }
};

}  // namespace

Slot Builder::add_register(unsigned bits) {
  const uint32_t bytes = bits == 1 ? 4 : bits * kLanes / 8;
  // Whole cache lines: no register's lanes share one with another's.
  code.register_bytes = round_up(code.register_bytes, bits == 1 ? 4 : 64);
  const Slot slot = kFrameBase + code.register_bytes;
  code.register_bytes += bytes;
  return slot;
}

Slot Builder::constant(uint64_t value, unsigned bits) {
  if (bits == 1) value = (value & 1) != 0 ? 0xffffffff : 0;
  if (bits > 1 && bits < 64) value &= (uint64_t{1} << bits) - 1;
  const auto [at, added] = constants.emplace(std::pair{value, bits}, 0);
  if (!added) return at->second;
  at->second = kConstantBase + static_cast<Slot>(code.constants.size() * 8);
  const unsigned unit = bits == 1 ? 32 : std::min(bits, 64u), copies = bits == 1 ? 2 : kLanes;
  std::vector<uint64_t> words(copies * unit / 64);
  for (unsigned i = 0; i < copies; i++) std::memcpy(reinterpret_cast<std::byte*>(words.data()) + i * unit / 8, &value, unit / 8);
  code.constants.insert(code.constants.end(), words.begin(), words.end());
  return at->second;
}

void Builder::add_label(uint32_t place) {
  Instruction in;
  in.run = run_label;
  in.guard = constant(1, 1);
  in.place = place;
  code.instructions.push_back(in);
}

void Builder::place_variables() {
  uint32_t parameter = 0;
  const size_t formals = text.returns.size() + text.parameters.size();
  for (size_t v = 0; v < text.variables.size(); v++) {
    const ptx::Declaration& variable = text.variables[v];
    const auto bytes = static_cast<uint32_t>(variable.bytes);
    if (variable.space == Space::shared) {
      variables.push_back({Space::shared, static_cast<uint32_t>(parts.shared.size())});
      parts.shared.push_back({variable.bytes, variable.align, false});
    } else if (text.entry && v < formals) {
      parameter = round_up(parameter, variable.align);
      variables.push_back({Space::param, parameter});
      parameter += bytes;
    } else {
      code.local_bytes = round_up(code.local_bytes, std::max(variable.align, 4u));
      variables.push_back({Space::local, code.local_bytes});
      if (v < text.returns.size())
        code.returns.push_back({code.local_bytes, bytes});
      else if (v < formals)
        code.parameters.push_back({code.local_bytes, bytes});
      code.local_bytes += bytes;
    }
  }
  code.local_bytes = round_up(code.local_bytes, 16);
}

Result<> Builder::run() {
  for (const ptx::Type& type : text.registers)
    registers.push_back(add_register(type.kind == ptx::Type::Kind::pred ? 1 : type.bytes() * 8));
  place_variables();
  labels.resize(text.labels);
  for (const ptx::Statement& statement : text.statements) {
    if (statement.opcode.empty()) {
      labels[text.find(statement.label, statement.scope).index] = static_cast<uint32_t>(code.instructions.size());
      code.places.push_back({statement.line, statement.location});
      add_label(static_cast<uint32_t>(code.places.size() - 1));
      continue;
    }
    const std::string wrong = StatementDecoder(*this, statement).run();
    if (wrong.empty()) continue;
    std::string opcode(statement.opcode);
    for (const std::string_view modifier : statement.modifiers) opcode += "." + std::string(modifier);
    std::string source;
    if (statement.location.file < parts.files.size() && statement.location.file != 0)
      source = fmt::format(", {}:{}", parts.files[statement.location.file], statement.location.line);
    return ronde::fail(ronde::Code::invalid_argument,
                       fmt::format("PTX line {} ({}), function {}{}: {}", statement.line, opcode, text.name, source, wrong));
  }
  ptx::Statement end;
  end.opcode = "ret";
  if (!text.statements.empty()) end.line = text.statements.back().line;
  StatementDecoder(*this, end).run();
  return fix_branches();
}

Result<> Builder::fix_branches() {
  for (const Fix& fix : fixes) code.instructions[fix.instruction].immediate = labels[fix.label];
  for (const auto& targets : text.targets) {
    std::vector<uint32_t> table;
    for (const std::string_view target : targets) {
      const Binding binding = text.find(target, 1);
      if (binding.kind != Binding::Kind::label)
        return ronde::fail(ronde::Code::invalid_argument, fmt::format("function {}: there is no label '{}'", text.name, target));
      table.push_back(labels[binding.index]);
    }
    code.tables.push_back(std::move(table));
  }
  return {};
}

}  // namespace emu
