// Single instructions against what the PTX manual says.
#include <cmath>

#include "emulator/device.h"

using namespace emu;
using namespace emu::test;

namespace {

/// `statements` computes %r9 from %r2 (the thread's word at p0) and %r3 (that at p1); the results of 32 threads.
std::vector<uint32_t> of_words(const std::string& statements, std::vector<uint32_t> a, std::vector<uint32_t> b = {}) {
  a.resize(32);
  b.resize(32);
  return run_words(
      "mul.wide.u32 %d4, %r1, 4; add.s64 %d5, %d0, %d4; add.s64 %d6, %d1, %d4; add.s64 %d7, %d2, %d4;"
      "ld.global.u32 %r2, [%d5]; ld.global.u32 %r3, [%d6];\n" +
          statements + "\nst.global.u32 [%d7], %r9;",
      a, b);
}

uint32_t one(const std::string& statements, uint32_t a, uint32_t b = 0) {
  return of_words(statements, std::vector<uint32_t>(32, a), std::vector<uint32_t>(32, b))[0];
}
uint32_t bits(float f) { return std::bit_cast<uint32_t>(f); }

struct Row {
  const char* statements;
  uint32_t a, b, result;
};

void check(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    CAPTURE(row.statements, row.a, row.b);
    CHECK(one(row.statements, row.a, row.b) == row.result);
  }
}

}  // namespace

TEST_CASE("integer arithmetic", "[emulator][instructions]") {
  check({
      {"add.u32 %r9, %r2, %r3;", 0xffffffff, 2, 1},
      {"add.sat.s32 %r9, %r2, %r3;", 0x7fffffff, 2, 0x7fffffff},
      {"sub.s32 %r9, %r2, -5;", 1, 0, 6},
      {"mul.lo.s32 %r9, %r2, %r3;", uint32_t(-3), 5, uint32_t(-15)},
      {"mul.hi.u32 %r9, %r2, %r3;", 0x80000000, 6, 3},
      {"mul.hi.s32 %r9, %r2, %r3;", 0x80000000, 6, uint32_t(-3)},
      {"mul.wide.s32 %d9, %r2, %r3; shr.u64 %d9, %d9, 32; cvt.u32.u64 %r9, %d9;", uint32_t(-3), 5, 0xffffffff},
      {"mad.lo.u32 %r9, %r2, %r3, 1;", 7, 9, 64},
      {"mad.wide.u32 %d9, %r2, %r3, 1; shr.u64 %d9, %d9, 4; cvt.u32.u64 %r9, %d9;", 0x80000000, 0x20, 0},
      {"mul24.lo.u32 %r9, %r2, %r3;", 0xff000003, 5, 15},
      {"div.s32 %r9, %r2, %r3;", uint32_t(-7), 2, uint32_t(-3)},
      {"rem.s32 %r9, %r2, %r3;", uint32_t(-7), 2, uint32_t(-1)},
      {"div.u32 %r9, %r2, %r3;", 7, 0, 0xffffffff},
      {"div.s32 %r9, %r2, %r3;", 0x80000000, uint32_t(-1), 0x80000000},
      {"min.s32 %r9, %r2, %r3;", uint32_t(-7), 2, uint32_t(-7)},
      {"max.u32 %r9, %r2, %r3;", uint32_t(-7), 2, uint32_t(-7)},
      {"abs.s32 %r9, %r2;", uint32_t(-7), 0, 7},
      {"neg.s32 %r9, %r2;", 7, 0, uint32_t(-7)},
      {"sad.u32 %r9, %r2, %r3, 1;", 3, 10, 8},
      {"dp4a.s32.s32 %r9, %r2, %r3, 1;", 0xff020301, 0x02010101, 5},
      {"max.u16x2 %r9, %r2, %r3;", 0x00050009, 0x00070002, 0x00070009},
      {"min.s16x2 %r9, %r2, %r3;", 0xffff0009, 0x00070002, 0xffff0002},
      {"add.cc.u32 %r4, %r2, %r3; addc.u32 %r9, 0, 0;", 0xffffffff, 1, 1},
      {"sub.cc.u32 %r4, %r2, %r3; subc.u32 %r9, 5, 0;", 0, 1, 4},
      {"sub.cc.u32 %r4, %r2, %r3; addc.u32 %r9, 0, 0;", 0, 1, 0},
      {"sub.cc.u32 %r4, %r2, %r3; addc.u32 %r9, 0, 0;", 1, 1, 1},
      {"mad.lo.cc.u32 %r4, %r2, %r3, 0xffffffff; madc.hi.u32 %r9, %r2, %r3, 0;", 1, 1, 1},
  });
}

TEST_CASE("bits", "[emulator][instructions]") {
  check({
      {"and.b32 %r9, %r2, %r3;", 0b1100, 0b1010, 0b1000},
      {"xor.b32 %r9, %r2, %r3;", 0b1100, 0b1010, 0b0110},
      {"not.b32 %r9, %r2;", 0, 0, 0xffffffff},
      {"cnot.b32 %r9, %r2;", 5, 0, 0},
      {"shl.b32 %r9, %r2, %r3;", 1, 32, 0},
      {"shr.s32 %r9, %r2, %r3;", 0x80000000, 40, 0xffffffff},
      {"shr.u32 %r9, %r2, %r3;", 0x80000000, 31, 1},
      {"shf.l.wrap.b32 %r9, %r2, %r3, 36;", 0x80000000, 1, 0x18},
      {"shf.r.clamp.b32 %r9, %r2, %r3, 36;", 0x80000000, 1, 1},
      {"bfe.u32 %r9, %r2, 4, 8;", 0x12345678, 0, 0x67},
      {"bfe.s32 %r9, %r2, 4, 4;", 0x000000f0, 0, 0xffffffff},
      {"bfi.b32 %r9, %r2, %r3, 8, 4;", 0xff, 0, 0xf00},
      {"prmt.b32 %r9, %r2, %r3, 0x7632;", 0x03020100, 0x07060504, 0x07060302},
      {"prmt.b32 %r9, %r2, %r3, 0x0008;", 0x03020180, 0, 0x808080ff},
      {"lop3.b32 %r9, %r2, %r3, 0xff, 0xe8;", 0x0f, 0x33, 0x3f},
      {"lop3.b32 %r9, %r2, %r3, 0x55, 0x96;", 0x0f, 0x33, 0x69},
      {"popc.b32 %r9, %r2;", 0xf0f0, 0, 8},
      {"clz.b32 %r9, %r2;", 0, 0, 32},
      {"brev.b32 %r9, %r2;", 1, 0, 0x80000000},
      {"bfind.u32 %r9, %r2;", 0x10, 0, 4},
      {"bfind.s32 %r9, %r2;", 0xffffffff, 0, 0xffffffff},
      {"bfind.shiftamt.u32 %r9, %r2;", 0x10, 0, 27},
      {"mov.b32 {%h0, %h1}, %r2; mov.b32 %r9, {%h1, %h0};", 0x12345678, 0, 0x56781234},
      {"mov.b32 {_, %h1}, %r2; cvt.u32.u16 %r9, %h1;", 0x12345678, 0, 0x1234},
      {"mov.b64 %d9, {%r2, %r3}; mov.b64 {%r4, %r9}, %d9;", 1, 2, 2},
  });
}

TEST_CASE("predicates and choices", "[emulator][instructions]") {
  check({
      {"setp.lt.s32 %p1, %r2, %r3; selp.u32 %r9, 1, 2, %p1;", uint32_t(-1), 0, 1},
      {"setp.lo.s32 %p1, %r2, %r3; selp.u32 %r9, 1, 2, %p1;", uint32_t(-1), 0, 2},
      {"setp.eq.u32 %p1|%p2, %r2, %r3; selp.u32 %r9, 1, 2, %p2;", 4, 4, 2},
      {"setp.ne.u32 %p1, %r2, 0; setp.gt.and.u32 %p2, %r3, 1, !%p1; selp.u32 %r9, 1, 2, %p2;", 0, 4, 1},
      {"setp.ne.u32 %p1, %r2, 0; not.pred %p1, %p1; @!%p1 bra A; mov.u32 %r9, 1; bra B; A: mov.u32 %r9, 2; B:", 0, 0, 1},
      {"set.gt.u32.u32 %r9, %r2, %r3;", 4, 3, 0xffffffff},
      {"set.gt.f32.u32 %f9, %r2, %r3; mov.b32 %r9, %f9;", 4, 3, 0x3f800000},
      {"slct.u32.s32 %r9, 1, 2, %r2;", 0x80000000, 0, 2},
      {"mov.b32 %f1, %r2; setp.ltu.f32 %p1, %f1, 0f00000000; selp.u32 %r9, 1, 2, %p1;", 0x7fc00000, 0, 1},
      {"mov.b32 %f1, %r2; setp.ne.f32 %p1, %f1, %f1; selp.u32 %r9, 1, 2, %p1;", 0x7fc00000, 0, 2},
      {"mov.b32 %f1, %r2; setp.nan.f32 %p1, %f1, %f1; selp.u32 %r9, 1, 2, %p1;", 0x7fc00000, 0, 1},
      {"mov.b32 %f1, %r2; testp.subnormal.f32 %p1, %f1; selp.u32 %r9, 1, 2, %p1;", 1, 0, 1},
      {"setp.lt.f16x2 %p1|%p2, %r2, %r3; selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 2, 0, %p2; add.u32 %r9, %r4, %r5;", 0x3c003c00,
       0x40003800, 2},
      {"set.lt.f16x2.f16x2 %r9, %r2, %r3;", 0x3c003c00, 0x40003800, 0x3c000000},
  });
}

TEST_CASE("floats: arithmetic, roundings, NaN", "[emulator][instructions]") {
  const std::string in = "mov.b32 %f1, %r2; mov.b32 %f2, %r3; ", out = " mov.b32 %r9, %f9;";
  const auto f = [&](const std::string& s, float a, float b) {
    return std::bit_cast<float>(one(in + s + out, bits(a), bits(b)));
  };
  CHECK(f("add.f32 %f9, %f1, %f2;", 1, 0x1p-25f) == 1);
  CHECK(f("add.rp.f32 %f9, %f1, %f2;", 1, 0x1p-25f) == std::nextafter(1.f, 2.f));
  CHECK(f("fma.rn.f32 %f9, %f1, %f1, %f2;", 1 + 0x1p-23f, -1) == 0x1p-22f + 0x1p-46f);
  CHECK(f("mul.sat.f32 %f9, %f1, %f2;", 3, 2) == 1);
  CHECK(f("mul.ftz.f32 %f9, %f1, %f2;", 0x1p-100f, 0x1p-40f) == 0);
  CHECK(f("mul.f32 %f9, %f1, %f2;", 0x1p-100f, 0x1p-40f) == 0x1p-140f);
  CHECK(f("min.f32 %f9, %f1, %f2;", NAN, 2) == 2);
  CHECK(std::isnan(f("min.NaN.f32 %f9, %f1, %f2;", NAN, 2)));
  CHECK(std::signbit(f("min.f32 %f9, %f1, %f2;", 0, -0.f)));
  CHECK(f("div.rn.f32 %f9, %f1, %f2;", 1, 3) == 1.f / 3);
  CHECK(f("sqrt.rn.f32 %f9, %f1;", 2, 0) == std::sqrt(2.f));
  CHECK(f("rcp.rn.f32 %f9, %f1;", 3, 0) == 1.f / 3);
  CHECK(f("ex2.approx.f32 %f9, %f1;", 3, 0) == 8);
  CHECK(f("neg.f32 %f9, %f1;", 3, 0) == -3);
  check({
      {"add.f16x2 %r9, %r2, %r3;", 0x3c004000, 0x3c003c00, 0x40004200},
      {"fma.rn.f16x2 %r9, %r2, %r2, %r3;", 0x40004000, 0x3c003c00, 0x45004500},
      {"fma.rn.relu.f16x2 %r9, %r2, %r2, %r3;", 0x40004000, 0xcc00cc00, 0},
      // 1 + 2^-10 squared plus 2^-24: the sum lies just above the middle of two halves, which a rounding in between would lose.
      {"fma.rn.f16x2 %r9, %r2, %r2, %r3;", 0x3c013c01, 0x00010001, 0x3c023c02},
      {"mul.bf16x2 %r9, %r2, %r3;", 0x3f804000, 0x40404040, 0x404040c0},
      {"max.NaN.bf16x2 %r9, %r2, %r3;", 0x7fc03f80, 0x3f804000, 0x7fff4000},
      {"abs.bf16x2 %r9, %r2;", 0xbf80bf80, 0, 0x3f803f80},
      {"neg.f16x2 %r9, %r2;", 0x3c00bc00, 0, 0xbc003c00},
      {"add.f16x2 %r9, %r2, %r3;", 0x7bff7bff, 0x7bff7bff, 0x7c007c00},
      {"add.f16x2 %r9, %r2, %r3;", 0x00010001, 0x00010001, 0x00020002},
  });
}

TEST_CASE("conversions", "[emulator][instructions]") {
  const std::string f = "mov.b32 %f1, %r2; ";
  check({
      {"cvt.s32.s8 %r9, %r2;", 0x80, 0, 0xffffff80},
      {"cvt.u32.u8 %r9, %r2;", 0x180, 0, 0x80},
      {"cvt.sat.u8.s32 %r9, %r2;", uint32_t(-5), 0, 0},
      {"cvt.sat.s8.s32 %r9, %r2;", 300, 0, 127},
      {"cvt.s8.s32 %r9, %r2;", 0x1ff, 0, 0xffffffff},
      {"cvt.s64.s32 %d9, %r2; shr.u64 %d9, %d9, 32; cvt.u32.u64 %r9, %d9;", 0x80000000, 0, 0xffffffff},
      {"cvt.rn.f32.s32 %f9, %r2; mov.b32 %r9, %f9;", 16777217, 0, 0x4b800000},
      {"cvt.rp.f32.s32 %f9, %r2; mov.b32 %r9, %f9;", 16777217, 0, 0x4b800001},
      {"mov.b32 %f1, %r2; cvt.rzi.s32.f32 %r9, %f1;", bits(-1.9f), 0, uint32_t(-1)},
      {"mov.b32 %f1, %r2; cvt.rni.s32.f32 %r9, %f1;", bits(2.5f), 0, 2},
      {"mov.b32 %f1, %r2; cvt.rzi.u32.f32 %r9, %f1;", bits(-4.f), 0, 0},
      {"mov.b32 %f1, %r2; cvt.rzi.s32.f32 %r9, %f1;", bits(1e20f), 0, 0x7fffffff},
      {"mov.b32 %f1, %r2; cvt.rzi.s32.f32 %r9, %f1;", 0x7fc00000, 0, 0},
      {"mov.b32 %f1, %r2; cvt.rmi.f32.f32 %f9, %f1; mov.b32 %r9, %f9;", bits(-1.5f), 0, bits(-2.f)},
      {"mov.b32 %f1, %r2; cvt.f64.f32 %g1, %f1; cvt.rn.f32.f64 %f9, %g1; mov.b32 %r9, %f9;", bits(0.1f), 0, bits(0.1f)},
      {"mov.b32 %f1, %r2; cvt.rn.f16.f32 %h9, %f1; cvt.u32.u16 %r9, %h9;", bits(65520.f), 0, 0x7c00},
      {"mov.b32 %f1, %r2; cvt.rz.f16.f32 %h9, %f1; cvt.u32.u16 %r9, %h9;", bits(65520.f), 0, 0x7bff},
      {"mov.b32 %f1, %r2; cvt.rn.f16.f32 %h9, %f1; cvt.u32.u16 %r9, %h9;", bits(0x1.8p-24f), 0, 2},
      {"cvt.u16.u32 %h1, %r2; cvt.f32.f16 %f9, %h1; mov.b32 %r9, %f9;", 0x0001, 0, bits(0x1p-24f)},
      {"mov.b32 %f1, %r2; cvt.rn.bf16.f32 %h9, %f1; cvt.u32.u16 %r9, %h9;", 0x3f808000, 0, 0x3f80},
      {"mov.b32 %f1, %r2; cvt.rn.bf16.f32 %h9, %f1; cvt.u32.u16 %r9, %h9;", 0x3f818000, 0, 0x3f82},
      {"mov.b32 %f1, %r2; mov.b32 %f2, %r3; cvt.rn.f16x2.f32 %r9, %f1, %f2;", bits(1), bits(2), 0x3c004000},
      {"mov.b32 %f1, %r2; mov.b32 %f2, %r3; cvt.rn.satfinite.e4m3x2.f32 %h9, %f1, %f2; cvt.u32.u16 %r9, %h9;", bits(1000),
       bits(-1.5f), 0x7ebc},
      {"mov.b32 %f1, %r2; mov.b32 %f2, %r3; cvt.rn.satfinite.e5m2x2.f32 %h9, %f1, %f2; cvt.u32.u16 %r9, %h9;", bits(1e9f),
       bits(1), 0x7b3c},
      {"cvt.u16.u32 %h1, %r2; cvt.rn.f16x2.e4m3x2 %r9, %h1;", 0x7e01, 0, 0x5f001800},
      {"cvt.u16.u32 %h1, %r2; cvt.rn.f16x2.e5m2x2 %r9, %h1;", 0x7c3c, 0, 0x7c003c00},
      {"cvt.rn.satfinite.e4m3x2.f16x2 %h9, %r2; cvt.u32.u16 %r9, %h9;", 0x7c003c00, 0, 0x7e38},
      {"mov.b32 %f1, %r2; cvt.rna.tf32.f32 %r9, %f1;", 0x3f801000, 0, 0x3f802000},
  });
}

TEST_CASE("every value of the small floats goes to fp32 and back", "[emulator][instructions]") {
  // 16-bit values in the two halves of a word; NaN aside.
  for (const std::string type : {"f16", "bf16"}) {
    for (uint32_t begin = 0; begin < 0x10000; begin += 0x1000 - 37) {
      std::vector<uint32_t> a(32);
      for (uint32_t i = 0; i < 32; i++) a[i] = (begin + i * 61) & 0xffff;
      const auto out = of_words(
          "cvt.u16.u32 %h1, %r2; cvt.f32." + type + " %f1, %h1; cvt.rn." + type + ".f32 %h2, %f1; cvt.u32.u16 %r9, %h2;", a);
      for (uint32_t i = 0; i < 32; i++) {
        const bool nan = (a[i] & 0x7fff) > (type == "f16" ? 0x7c00u : 0x7f80u);
        CHECK(out[i] == (nan ? 0x7fff : a[i]));
      }
    }
  }
  for (const std::string type : {"e4m3x2", "e5m2x2"}) {
    for (uint32_t begin = 0; begin < 256; begin += 32) {
      std::vector<uint32_t> a(32);
      for (uint32_t i = 0; i < 32; i++) a[i] = (begin + i) | (255 - begin - i) << 8;
      const auto out = of_words(
          "cvt.u16.u32 %h1, %r2; cvt.rn.f16x2." + type + " %r4, %h1; cvt.rn." + type + ".f16x2 %h2, %r4; cvt.u32.u16 %r9, %h2;",
          a);
      for (uint32_t i = 0; i < 32; i++) {
        const auto same = [&](uint32_t byte) { return (byte & 0x7f) > (type == "e4m3x2" ? 0x7eu : 0x7cu) ? 0x7fu : byte; };
        CHECK(out[i] == (same(a[i] & 0xff) | same(a[i] >> 8) << 8));
      }
    }
  }
}

TEST_CASE("memory: sizes, vectors, spaces, atomics", "[emulator][instructions]") {
  check({
      {"ld.global.s8 %r9, [%d0];", 0xfe, 0, 0xfffffffe},
      {"ld.global.u16 %h9, [%d0+2]; cvt.u32.u16 %r9, %h9;", 0x12345678, 0, 0x1234},
      {"{ .shared .align 16 .b8 s[64]; .reg .b32 a; mov.u32 a, s; st.shared.v2.b32 [a], {%r2, %r3}; add.u32 a, a, -4; "
       "ld.shared.b32 %r9, [a+8]; }",
       5, 6, 6},
      {"{ .shared .align 16 .b8 s[64]; .reg .b64 a; mov.u64 a, s; cvta.shared.u64 a, a; st.u32 [a+4], %r2; ld.shared.b32 %r9, "
       "[s+4]; }",
       5, 6, 5},
      {"{ .local .align 4 .b8 l[128]; .reg .b64 a; mov.u64 a, l; cvta.local.u64 a, a; st.u32 [a+4], %r2; ld.local.b32 %r9, "
       "[l+4]; }",
       5, 6, 5},
      {"isspacep.shared %p1, %d0; isspacep.global %p2, %d0; selp.u32 %r4, 1, 0, %p1; selp.u32 %r5, 2, 0, %p2; add.u32 %r9, %r4, "
       "%r5;",
       0, 0, 2},
      {"atom.global.add.u32 %r4, [%d6], %r2; ld.global.u32 %r9, [%d6];", 5, 7, 12},
      {"atom.global.min.s32 %r4, [%d6], %r2; ld.global.u32 %r9, [%d6];", uint32_t(-5), 7, uint32_t(-5)},
      {"atom.global.inc.u32 %r4, [%d6], 7; ld.global.u32 %r9, [%d6];", 0, 7, 0},
      {"atom.global.dec.u32 %r4, [%d6], 9; ld.global.u32 %r9, [%d6];", 0, 0, 9},
      {"atom.global.cas.b32 %r9, [%d6], 7, %r2; ld.global.u32 %r4, [%d6]; add.u32 %r9, %r9, %r4;", 5, 7, 12},
      {"atom.global.exch.b32 %r9, [%d6], %r2;", 5, 7, 7},
      {"red.global.add.noftz.f16x2 [%d6], %r2; ld.global.u32 %r9, [%d6];", 0x3c004000, 0x3c003c00, 0x40004200},
      {"red.relaxed.gpu.global.max.noftz.bf16x2 [%d6], %r2; ld.global.u32 %r9, [%d6];", 0x3f804000, 0x40003f80, 0x40004000},
      {"mov.b32 %f1, %r2; red.global.add.f32 [%d6], %f1; ld.global.u32 %r9, [%d6];", bits(1.5f), bits(2), bits(3.5f)},
  });
  // 16 and 32 bytes at once.
  const auto out = run_words(R"(
  ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d0]; st.global.v4.u32 [%d2], {%r5, %r4, %r3, %r2};
  ld.global.L1::no_allocate.L2::128B.v2.u64 {%d8, %d9}, [%d0+16]; st.global.v2.u64 [%d2+16], {%d9, %d8};
  ld.global.v8.b32 {%r2, %r3, %r4, %r5, %r6, %r7, %r8, _}, [%d0]; st.global.v8.b32 [%d2+32], {%r8, %r7, %r6, %r5, %r4, %r3, %r2, 9};
  ld.volatile.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d0]; st.volatile.global.v4.u32 [%d2+64], {%r5, %r4, %r3, %r2};)",
                             {1, 2, 3, 4, 5, 6, 7, 8}, {}, 20, 1);
  CHECK(out == std::vector<uint32_t>{4, 3, 2, 1, 7, 8, 5, 6, 7, 6, 5, 4, 3, 2, 1, 9, 4, 3, 2, 1});
}

TEST_CASE("memory that several devices share as one address", "[emulator][instructions]") {
  Device device(entry(R"(
  multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%f1, %f2, %f3, %f4}, [%d0];
  st.global.v4.f32 [%d2], {%f1, %f2, %f3, %f4};
  multimem.ld_reduce.weak.global.max.s32 %r2, [%d0+32];
  st.global.u32 [%d2+16], %r2;
  multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v2.f16x2 {%r3, %r4}, [%d0+40];
  st.global.v2.u32 [%d2+24], {%r3, %r4};
  multimem.red.relaxed.sys.global.add.u32 [%d0+64], 5;
  multimem.st.release.sys.global.u32 [%d0+68], 9;)"));
  const uint64_t one = device.allocate(4096), two = device.allocate(4096), out = device.allocate(64);
  auto address = device.memory->reserve(2 << 20, 0, 0);
  REQUIRE(address.ok());
  REQUIRE(device.memory->map_multicast(*address, 2 << 20, {device.at<std::byte>(one), device.at<std::byte>(two)}).ok());
  REQUIRE(device.memory->set_access(*address, 2 << 20, 0, true));
  for (uint32_t i = 0; i < 4; i++) {
    device.at<float>(one)[i] = float(i);
    device.at<float>(two)[i] = 0.5f;
  }
  device.at<int>(one)[8] = -3;
  device.at<int>(two)[8] = -5;
  for (const uint64_t copy : {one, two}) device.at<uint32_t>(copy)[10] = device.at<uint32_t>(copy)[11] = 0x3c004000;
  device.at<uint32_t>(two)[16] = 7;
  REQUIRE(device.run("k", 1, 1, *address, out, out, 0u) == "");
  const float* sums = device.at<float>(out);
  CHECK(std::vector<float>(sums, sums + 4) == std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f});
  CHECK(device.at<int>(out)[4] == -3);
  CHECK(device.at<uint32_t>(out)[6] == 0x40004400);
  CHECK(device.at<uint32_t>(one)[16] == 5);
  CHECK(device.at<uint32_t>(two)[16] == 12);
  CHECK(device.at<uint32_t>(one)[17] == 9);
  CHECK(device.at<uint32_t>(two)[17] == 9);
  CHECK(ronde::test::contains(Device(entry("ld.global.u32 %r2, [%d0];"), 0, device.memory).run("k", 1, 1, *address, out, out, 0u),
                              "multimem"));
  CHECK(ronde::test::contains(
      Device(entry("multimem.red.relaxed.sys.global.add.u32 [%d0], 5;"), 0, device.memory).run("k", 1, 1, one, out, out, 0u),
      "no multicast"));
}
