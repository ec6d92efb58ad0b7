// Instructions that do the same for each lane alone: an operation is a type with a static function of one lane's values.
#pragma once

#include "gpu-emulator/exec/instructions.h"

namespace emu {

template <class D, class A, class Operation>
void run_unary(Warp& warp, const Instruction& in) {
  D* d = warp.at<D>(in.d);
  const A* a = warp.at<A>(in.a);
  lanes(warp.mask, [=](unsigned i) { d[i] = static_cast<D>(Operation::of(a[i])); });
}

template <class D, class A, class B, class Operation>
void run_binary(Warp& warp, const Instruction& in) {
  D* d = warp.at<D>(in.d);
  const A* a = warp.at<A>(in.a);
  const B* b = warp.at<B>(in.b);
  lanes(warp.mask, [=](unsigned i) { d[i] = static_cast<D>(Operation::of(a[i], b[i])); });
}

template <class D, class A, class B, class C, class Operation>
void run_ternary(Warp& warp, const Instruction& in) {
  D* d = warp.at<D>(in.d);
  const A* a = warp.at<A>(in.a);
  const B* b = warp.at<B>(in.b);
  const C* c = warp.at<C>(in.c);
  lanes(warp.mask, [=](unsigned i) { d[i] = static_cast<D>(Operation::of(a[i], b[i], c[i])); });
}

/// Fills in d, a, b, c from the operands 0 and on, all sources of one type.
inline void plain_operands(Decoder& d, Instruction& in, ptx::Type type, unsigned sources) {
  in.d = d.result(0);
  in.a = d.source(1, type);
  if (sources > 1) in.b = d.source(2, type);
  if (sources > 2) in.c = d.source(3, type);
}

}  // namespace emu
