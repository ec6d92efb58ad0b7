// What is written down of the driver's interface, against the toolkit's headers, where they are.
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "device/driver_entries.h"
#include "emulator/driver_numbers.h"
#include "support/catch.h"

namespace ours {

// All of it is taken here, before the toolkit turns some of the names into macros.
using namespace ronde::cu;

template <class Result, class... Args>
std::vector<size_t> sizes_of(Result (*)(Args...)) {
  return {sizeof(Args)...};
}

#define RONDE_TEST_NUMBER(name) {#name, static_cast<long>(name)},
const std::vector<std::pair<std::string, long>> numbers = {RONDE_TEST_NUMBERS(RONDE_TEST_NUMBER)};
#undef RONDE_TEST_NUMBER

#define RONDE_TEST_ENTRY(name, suffix, since, parameters) {#name #suffix, sizes_of(static_cast<CUresult(*) parameters>(nullptr))},
const std::vector<std::pair<std::string, std::vector<size_t>>> entries = {RONDE_CU_ENTRIES(RONDE_TEST_ENTRY)};
#undef RONDE_TEST_ENTRY

// clang-format off: types and their members.
#define RONDE_TEST_TYPES(X)                                                                                         \
  X(CUuuid)                                                                                                         \
  X(CUipcMemHandle)                                                                                                 \
  X(CUmemLocation)                                                                                                  \
  X(CUmemAllocationProp) X(CUmemAccessDesc) X(CUmulticastObjectProp) X(CUlaunchAttributeValue) X(CUlaunchAttribute) \
      X(CUlaunchConfig) X(CUgraphEdgeData) X(CUDA_KERNEL_NODE_PARAMS) X(CUDA_HOST_NODE_PARAMS)
#define RONDE_TEST_MEMBERS(X)                                                                                        \
  X(CUlaunchConfig, hStream)                                                                                         \
  X(CUlaunchConfig, numAttrs)                                                                                        \
  X(CUlaunchAttribute, value)                                                                                        \
  X(CUmemAllocationProp, location) X(CUmemAllocationProp, allocFlags) X(CUmulticastObjectProp, size)                 \
      X(CUmulticastObjectProp, handleTypes) X(CUDA_KERNEL_NODE_PARAMS, kernelParams) X(CUDA_KERNEL_NODE_PARAMS, ctx) \
          X(CUmemAccessDesc, flags)
// clang-format on
#define RONDE_TEST_SIZE(type) sizeof(type),
const std::vector<size_t> sizes = {RONDE_TEST_TYPES(RONDE_TEST_SIZE)};
#define RONDE_TEST_PLACE(type, member) offsetof(type, member),
const std::vector<size_t> places = {RONDE_TEST_MEMBERS(RONDE_TEST_PLACE)};

const std::vector<const void*> handles = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CU_LAUNCH_PARAM_END,
                                          CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE};

}  // namespace ours

#if __has_include(<cudaTypedefs.h>)
#include <cudaTypedefs.h>

static_assert(CUDA_VERSION >= 12080, "older toolkits lack entry points that are known here");

TEST_CASE("numbers are the toolkit's", "[emulator][driver][abi]") {
#define RONDE_TEST_NUMBER(name) static_cast<long>(name),
  const std::vector<long> theirs = {RONDE_TEST_NUMBERS(RONDE_TEST_NUMBER)};
  REQUIRE(theirs.size() == ours::numbers.size());
  for (size_t i = 0; i < theirs.size(); ++i) {
    INFO(ours::numbers[i].first);
    CHECK(ours::numbers[i].second == theirs[i]);
  }
  const std::vector<const void*> handles = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CU_LAUNCH_PARAM_END,
                                            CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE};
  CHECK(ours::handles == handles);
}

TEST_CASE("types are laid out as the toolkit's", "[emulator][driver][abi]") {
  const std::vector<size_t> sizes = {RONDE_TEST_TYPES(RONDE_TEST_SIZE)};
  CHECK(ours::sizes == sizes);
  const std::vector<size_t> places = {RONDE_TEST_MEMBERS(RONDE_TEST_PLACE)};
  CHECK(ours::places == places);
}

TEST_CASE("entry points take what the toolkit's take, since the same version", "[emulator][driver][abi]") {
#define RONDE_TEST_ENTRY(name, suffix, since, parameters) ours::sizes_of(static_cast<PFN_##name##_v##since>(nullptr)),
  const std::vector<std::vector<size_t>> theirs = {RONDE_CU_ENTRIES(RONDE_TEST_ENTRY)};
  REQUIRE(theirs.size() == ours::entries.size());
  for (size_t i = 0; i < theirs.size(); ++i) {
    INFO(ours::entries[i].first);
    CHECK(ours::entries[i].second == theirs[i]);
  }
}
#else
TEST_CASE("numbers, types and entry points are the toolkit's", "[emulator][driver][abi]") {
  RONDE_SKIP("the toolkit's headers are not there");
}
#endif
