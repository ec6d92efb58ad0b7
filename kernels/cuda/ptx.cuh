// All inline PTX of the kernels.
#pragma once

#include <cstdint>

namespace ronde::gpu::ptx {

// Words that other GPUs and the host write while a kernel runs. Addresses are generic.

__device__ inline uint64_t load_acquire(uint64_t at) {
  uint64_t value;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
  return value;
}
__device__ inline void store_release(uint64_t at, uint64_t value) {
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
__device__ inline uint32_t load_relaxed_u32(uint64_t at) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
__device__ inline void store_relaxed_u32(uint64_t at, uint32_t value) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline void store_release_u32(uint64_t at, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
/// Adds 1 to a word of this GPU, ordered with what all threads of the GPU do around it; returns what it was.
__device__ inline uint32_t count_up(uint64_t at) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(at) : "memory");
  return before;
}
/// Sets a word of this GPU from 0 to 1; true for the one who did.
__device__ inline bool claim(uint64_t at) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], 0, 1;" : "=r"(before) : "l"(at) : "memory");
  return before == 0;
}

/// The GPU's clock; a tick may be a microsecond.
__device__ inline uint64_t nanoseconds() {
  uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}

/// 16 bytes: the widest access that all GPUs have.
struct alignas(16) Vec {
  uint32_t word[4];
};
// Data, in units of 16 to 1 bytes. Ordered by the acquires, releases and barriers around them alone.
__device__ inline void load(uint64_t at, Vec* v) {
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v->word[0]), "=r"(v->word[1]), "=r"(v->word[2]), "=r"(v->word[3])
               : "l"(at)
               : "memory");
}
__device__ inline void load(uint64_t at, uint64_t* v) { asm volatile("ld.global.u64 %0, [%1];" : "=l"(*v) : "l"(at) : "memory"); }
__device__ inline void load(uint64_t at, uint32_t* v) { asm volatile("ld.global.u32 %0, [%1];" : "=r"(*v) : "l"(at) : "memory"); }
__device__ inline void load(uint64_t at, uint16_t* v) { asm volatile("ld.global.u16 %0, [%1];" : "=h"(*v) : "l"(at) : "memory"); }
__device__ inline void load(uint64_t at, uint8_t* v) {
  uint32_t wide;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(wide) : "l"(at) : "memory");
  *v = static_cast<uint8_t>(wide);
}
__device__ inline void store(uint64_t at, const Vec& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(at), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}
__device__ inline void store(uint64_t at, uint64_t v) { asm volatile("st.global.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory"); }
__device__ inline void store(uint64_t at, uint32_t v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory"); }
__device__ inline void store(uint64_t at, uint16_t v) { asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "h"(v) : "memory"); }
__device__ inline void store(uint64_t at, uint8_t v) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(at), "r"(static_cast<uint32_t>(v)) : "memory");
}

/// Waits for `threads` threads (a multiple of a warp) at barrier `id`; what they stored before, all of them see after it.
__device__ inline void barrier(uint32_t id, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ inline float widen_half(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ inline uint16_t narrow_half(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

#if __CUDA_ARCH__ >= 890
/// Two floats to 8-bit floats, too large ones to the largest: `a` in the low byte.
__device__ inline uint16_t narrow_e4m3(float a, float b) {
  uint16_t bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(bits) : "f"(a), "f"(b));
  return bits;
}
__device__ inline uint16_t narrow_e5m2(float a, float b) {
  uint16_t bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %2, %1;" : "=h"(bits) : "f"(a), "f"(b));
  return bits;
}
#endif

}  // namespace ronde::gpu::ptx
