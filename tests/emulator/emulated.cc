#include "emulator/emulated.h"

#include <dlfcn.h>

#include <cstdlib>

#include "base/symbols.h"

namespace ronde::test {

const Emulated& emulated() {
  static const Emulated all = [] {
    Emulated found;
    found.library = dlopen(RONDE_TEST_EMULATOR, RTLD_NOW | RTLD_LOCAL);
    INFO((found.library == nullptr ? dlerror() : ""));
    REQUIRE(found.library != nullptr);
#define RONDE_TEST_FIND(name, suffix, since, parameters) find_symbol(found.library, #name #suffix, found.name##suffix);
    RONDE_CU_ENTRIES(RONDE_TEST_FIND)
#undef RONDE_TEST_FIND
    find_symbol(found.library, "emuLastError", found.emuLastError);
    return found;
  }();
  return all;
}

const Emulated& started() {
  static const bool once = [] {
    setenv("RONDE_EMU_DEVICES", "4", 0);
    REQUIRE_CU(emulated().cuInit(0));
    return true;
  }();
  (void)once;
  return emulated();
}

Primary::Primary(CUdevice device) : device_(device) {
  REQUIRE_CU(started().cuDevicePrimaryCtxRetain(&handle, device));
  REQUIRE_CU(started().cuCtxPushCurrent_v2(handle));
}

Primary::~Primary() {
  CHECK_CU(started().cuCtxPopCurrent_v2(nullptr));
  CHECK_CU(started().cuDevicePrimaryCtxRelease_v2(device_));
}

OwnContext::OwnContext(CUdevice device) { REQUIRE_CU(started().cuCtxCreate_v2(&handle, 0, device)); }
OwnContext::~OwnContext() { CHECK_CU(started().cuCtxDestroy_v2(handle)); }

Buffer::Buffer(size_t bytes) { REQUIRE_CU(started().cuMemAlloc_v2(&address, bytes)); }
Buffer::~Buffer() { started().cuMemFree_v2(address); }

std::vector<uint32_t> words_at(CUdeviceptr address, size_t count) {
  std::vector<uint32_t> words(count);
  REQUIRE_CU(started().cuMemcpyDtoH_v2(words.data(), address, 4 * count));
  return words;
}

void put_words(CUdeviceptr address, const std::vector<uint32_t>& words) {
  REQUIRE_CU(started().cuMemcpyHtoD_v2(address, words.data(), 4 * words.size()));
}

const char* const kPtx = R"(
.version 7.0
.target sm_80
.address_size 64

.global .align 4 .u32 counter = 7;

.visible .entry add(.param .u64 data, .param .u32 count, .param .u32 value)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [data];
  ld.param.u32 %r1, [count];
  ld.param.u32 %r2, [value];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r6, %r3, %r4, %r5;
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd1, %rd1;
  mul.wide.u32 %rd2, %r6, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r7, [%rd3];
  add.s32 %r7, %r7, %r2;
  st.global.u32 [%rd3], %r7;
DONE:
  ret;
}

.visible .entry hold(.param .u64 flag, .param .u64 out)
{
  .reg .pred %p<2>;
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [flag];
  ld.param.u64 %rd2, [out];
AGAIN:
  ld.acquire.sys.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra AGAIN;
  st.global.u32 [%rd2], %r1;
  ret;
}

.visible .entry poke(.param .u64 address, .param .u32 value)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [address];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry halt()
{
  trap;
}

.visible .entry bump()
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  mov.u64 %rd1, counter;
  atom.global.add.u32 %r1, [%rd1], 1;
  ret;
}
)";

const char* const kMultimemPtx = R"(
.version 8.1
.target sm_90
.address_size 64

.visible .entry sum(.param .u64 address)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [address];
  multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];
  multimem.st.relaxed.sys.global.u32 [%rd1], %r1;
  ret;
}
)";

}  // namespace ronde::test
