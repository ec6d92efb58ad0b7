#include "kernels/cpu/float_mode.h"

namespace ronde {
namespace {

#if defined(__x86_64__)
constexpr uint64_t kDefaultMode = 0x1f80;  // all exceptions masked, round to nearest, no flushing
constexpr uint64_t kControlBits = 0xffc0;  // the rest are sticky exception flags
uint64_t get_mode() { return __builtin_ia32_stmxcsr(); }
void set_mode(uint64_t mode) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode)); }
#elif defined(__aarch64__)
constexpr uint64_t kDefaultMode = 0;
constexpr uint64_t kControlBits = ~uint64_t{0};
uint64_t get_mode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_mode(uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
#else
constexpr uint64_t kDefaultMode = 0;
constexpr uint64_t kControlBits = 0;
uint64_t get_mode() { return 0; }
void set_mode(uint64_t) {}
#endif

bool is_default(uint64_t mode) { return (mode & kControlBits) == kDefaultMode; }

}  // namespace

FloatMode::FloatMode() : saved_(get_mode()) {
  if (!is_default(saved_)) set_mode(kDefaultMode);
}

FloatMode::~FloatMode() {
  if (!is_default(saved_)) set_mode(saved_);
}

}  // namespace ronde
