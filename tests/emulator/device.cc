#include "emulator/device.h"

#include <fstream>
#include <sstream>

#include <fmt/core.h>

namespace emu::test {

std::string entry(std::string_view statements, std::string_view before) {
  return fmt::format(R"(
.version 8.6
.target sm_100
.address_size 64
{}
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u32 n)
{{
  .reg .pred %p<32>;
  .reg .b16 %h<32>;
  .reg .b32 %r<32>;
  .reg .b64 %d<32>;
  .reg .f32 %f<32>;
  .reg .f64 %g<32>;
  ld.param.u64 %d0, [p0];
  ld.param.u64 %d1, [p1];
  ld.param.u64 %d2, [p2];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %d3, %r1, 4;
  add.s64 %d3, %d3, %d0;
{}
  ret;
}}
)",
                     before, statements);
}

std::string kernels(const std::string& name, int compute) {
#ifdef RONDE_TEST_KERNELS
  std::ifstream file(fmt::format("{}/{}-{}.ptx", RONDE_TEST_KERNELS, name, compute));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
#else
  (void)name, (void)compute;
  return "";
#endif
}

std::vector<int> compiled_targets(const std::string& name) {
  std::vector<int> made;
  for (const int compute : {75, 80, 90, 100, 120})
    if (!kernels(name, compute).empty()) made.push_back(compute);
  return made;
}

Device::Device(const std::string& ptx, int number, std::shared_ptr<Memory> shared) : memory(std::move(shared)), number_(number) {
  if (!memory) {
    auto made = Memory::make(4, size_t{256} << 20);
    REQUIRE(made.ok());
    memory = std::move(*made);
  }
  auto loaded = load_module(ptx);
  if (!loaded.ok()) FAIL(loaded.error().what);
  module = std::move(*loaded);
  options.limit_ms = 20000;
  for (const Variable& variable : module->variables()) {
    variables_[variable.name] = allocate(variable.bytes + 1);
    std::memcpy(view(variables_[variable.name]), variable.initial.data(), variable.initial.size());
  }
  for (const Variable& variable : module->variables()) {
    for (const Relocation& relocation : variable.relocations) {
      const uint64_t address = variables_[relocation.target] + relocation.addend;
      std::memcpy(view(variables_[variable.name]) + relocation.offset, &address, 8);
    }
  }
}

uint64_t Device::allocate(size_t bytes) {
  auto made = memory->allocate(number_, bytes);
  REQUIRE(made.ok());
  return *made;
}

std::byte* Device::view(uint64_t address) {
  const auto found = memory->at(address);
  REQUIRE(found.has_value());
  return found->host + (address - found->address);
}

void Device::put(std::vector<std::byte>& to, const Parameter& parameter, const void* from, size_t bytes) {
  REQUIRE(bytes == parameter.bytes);
  std::memcpy(to.data() + parameter.offset, from, bytes);
}

std::string Device::launch(const Function& function, unsigned blocks, unsigned threads,
                           const std::vector<std::byte>& parameters) {
  Grid grid;
  grid.module = module.get();
  grid.function = &function;
  grid.blocks = {blocks, 1, 1};
  grid.threads = {threads, 1, 1};
  grid.shared_bytes = dynamic_shared;
  grid.parameters = parameters;
  grid.device = number_;
  grid.address_of = [this](const Variable& variable) { return variables_.at(variable.name); };
  return emu::run(grid, *memory, options, stop);
}

std::vector<uint32_t> run_words(std::string_view statements, const std::vector<uint32_t>& first,
                                const std::vector<uint32_t>& second, size_t words, unsigned threads) {
  Device device(entry(statements));
  const uint64_t p0 = device.allocate(4096), p1 = device.allocate(4096), p2 = device.allocate(words * 4 + 4096);
  std::memcpy(device.at<uint32_t>(p0), first.data(), first.size() * 4);
  std::memcpy(device.at<uint32_t>(p1), second.data(), second.size() * 4);
  const std::string wrong = device.run("k", 1, threads, p0, p1, p2, 7u);
  INFO(statements);
  REQUIRE(wrong == "");
  const uint32_t* out = device.at<uint32_t>(p2);
  return {out, out + words};
}

}  // namespace emu::test
