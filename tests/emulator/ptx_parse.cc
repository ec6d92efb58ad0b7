// PTX text: what is read, and what errors say.
#include "emulator/device.h"

using namespace emu;
using namespace emu::test;
using ronde::test::contains;

namespace {

std::string error_of(const std::string& ptx) {
  auto loaded = load_module(ptx);
  return loaded.ok() ? "" : loaded.error().what;
}

std::string functions(const std::string& text) { return ".version 8.6\n.target sm_90\n.address_size 64\n" + text; }

}  // namespace

TEST_CASE("an unknown instruction is named with its line when the module is loaded", "[emulator][ptx]") {
  const std::string wrong = error_of(functions(R"(.entry k()
{
  .reg .b32 %r<2>;
  .loc 1 42 5
  frobnicate.rn.u32 %r0, %r1;
}
.file 1 "/somewhere/kernel.cu"
)"));
  INFO(wrong);
  CHECK(contains(wrong, "PTX line 8"));
  CHECK(contains(wrong, "frobnicate.rn.u32"));
  CHECK(contains(wrong, "kernel.cu:42"));
}

TEST_CASE("what is wrong in a text is said with its line", "[emulator][ptx]") {
  CHECK(contains(error_of("hello"), "directive is missing") == false);
  CHECK(contains(error_of("hello"), "PTX line 1"));
  CHECK(contains(error_of(functions(".entry k() { .reg .b32 a; add.u32 a, a, b; }")), "'b' is not known"));
  CHECK(
      contains(error_of(functions(".entry k() { .reg .b32 a; .reg .b64 w; add.u32 a, a, w; }")), "'w' has 64 bits, 32 are read"));
  CHECK(contains(error_of(functions(".entry k() { .reg .b32 a; .reg .b32 a; }")), "declared twice"));
  CHECK(contains(error_of(functions(".entry k() { bra nowhere; }")), "no label 'nowhere'"));
  CHECK(contains(error_of(functions(".entry k() { .reg .b32 a; ld.global.u32 a, b; }")), "address"));
  CHECK(contains(error_of(functions(".entry k() {")), "no end"));
  CHECK(contains(error_of(functions(".entry k() { .surprise 4; }")), ".surprise"));
  CHECK(contains(error_of(functions(".global .u32 x = ;")), "PTX line 4"));
  CHECK(contains(error_of(".entry k() { }"), "no .version"));
}

TEST_CASE("an entry's parameters, limits and memory are told", "[emulator][ptx]") {
  auto loaded = load_module(functions(R"(
.global .align 8 .u64 pointer = generic(words)+4;
.global .align 4 .b8 words[8] = {1, 2, 3};
.const .f32 half = 0f3F000000;
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u8 a, .param .align 8 .b8 b[12], .param .u64 .ptr .global .align 16 c)
.maxntid 64, 2, 1
.minnctapersm 1
{
  .shared .align 4 .b8 fixed[20];
  .shared .align 4 .b8 unused[400];
  .local .align 8 .b8 depot[24];
  .reg .b32 %r<3>;
  mov.u32 %r1, fixed;
  mov.u32 %r2, dynamic;
  ret;
}
)"));
  if (!loaded.ok()) FAIL(loaded.error().what);
  const Module& module = **loaded;
  CHECK(module.target() == 90);
  CHECK(module.version() == 86);
  const Function* k = module.function("k");
  REQUIRE(k != nullptr);
  CHECK(k->entry);
  REQUIRE(k->parameters.size() == 3);
  CHECK(k->parameters[1].offset == 8);
  CHECK(k->parameters[1].bytes == 12);
  CHECK(k->parameters[2].offset == 24);
  CHECK(k->parameter_bytes == 32);
  CHECK(k->max_threads == 128);
  CHECK(k->shared_bytes == 32);  // 20, and what aligns the dynamic part; what nobody uses takes nothing
  CHECK(k->local_bytes >= 24);
  CHECK(module.function("nobody") == nullptr);
  REQUIRE(module.variables().size() == 3);
  const Variable& pointer = module.variables()[0];
  REQUIRE(pointer.relocations.size() == 1);
  CHECK(pointer.relocations[0].target == "words");
  CHECK(pointer.relocations[0].addend == 4);
  CHECK(module.variables()[1].initial.size() == 3);
  CHECK(module.variables()[1].bytes == 8);
  CHECK(module.variables()[2].constant);
}

TEST_CASE("scopes hide names, and several statements share a line", "[emulator][ptx]") {
  const auto out = run_words(R"(
  .reg .b32 a; mov.u32 a, 1;
  { .reg .b32 a; mov.u32 a, 10; { .reg .b32 a, b; .reg .pred q; mov.u32 a, 5; setp.eq.u32 q, a, 5; @q add.u32 b, a, 2; mov.u32 %r5, b; }
    add.u32 %r5, %r5, a; /* a comment, and ; in it */ bra L; mov.u32 %r5, 0; L: }
  { bra L; L: }  // a label of its own
  add.u32 %r5, %r5, a;
  st.global.u32 [%d2], %r5;)",
                             {}, {}, 1);
  CHECK(out[0] == 18);
}

TEST_CASE("immediates of all kinds", "[emulator][ptx]") {
  const auto out = run_words(R"(
  mov.b32 %r2, 0x1F; st.global.b32 [%d2], %r2;
  mov.b32 %r2, 0b101; st.global.b32 [%d2+4], %r2;
  mov.b32 %r2, 017; st.global.b32 [%d2+8], %r2;
  mov.b32 %r2, -3; st.global.b32 [%d2+12], %r2;
  mov.f32 %f2, 0f40490FDB; st.global.f32 [%d2+16], %f2;
  mov.f32 %f2, 1.5; st.global.f32 [%d2+20], %f2;
  mov.f64 %g2, 0d4000000000000000; st.global.f64 [%d2+24], %g2;
  mov.u32 %r2, WARP_SZ; st.global.b32 [%d2+32], %r2;
  st.global.v2.b32 [%d2+36+4], {7, 4294967295U};)",
                             {}, {}, 12);
  CHECK(out == std::vector<uint32_t>{31, 5, 15, uint32_t(-3), 0x40490FDB, 0x3fc00000, 0, 0x40000000, 32, 0, 7, 0xffffffff});
}

TEST_CASE("modules of one text share what was decoded, while one of them lives", "[emulator][ptx]") {
  const std::string text = functions(".entry k() { ret; }");
  auto one = load_module(text), two = load_module(text), other = load_module(functions(".entry k() { exit; }"));
  REQUIRE((one.ok() && two.ok() && other.ok()));
  CHECK((*one)->function("k") == (*two)->function("k"));
  CHECK((*one)->function("k") != (*other)->function("k"));
  one->reset();
  CHECK((*two)->function("k")->name == "k");
}
