// The emulated driver as a program sees it: loaded at run time.
#pragma once

#include <string>
#include <vector>

#include "device/driver_entries.h"
#include "support/catch.h"

namespace ronde::test {

using namespace ronde::cu;

/// All entry points, found with dlsym.
struct Emulated {
#define RONDE_TEST_MEMBER(name, suffix, since, parameters) CUresult(*name##suffix) parameters = nullptr;
  RONDE_CU_ENTRIES(RONDE_TEST_MEMBER)
#undef RONDE_TEST_MEMBER
  const char* (*emuLastError)() = nullptr;
  void* library = nullptr;
};

/// Loads libcuda-emu.so; cuInit is not called.
const Emulated& emulated();
/// After cuInit. The machine has 4 devices, whatever the environment says.
const Emulated& started();

/// The primary context of a device, current in the calling thread while this lives.
class Primary {
 public:
  explicit Primary(CUdevice device);
  ~Primary();
  Primary(const Primary&) = delete;
  CUcontext handle = nullptr;

 private:
  CUdevice device_;
};

/// A context of its own on a device, current while this lives: one whose failure hurts no other test.
class OwnContext {
 public:
  explicit OwnContext(CUdevice device);
  ~OwnContext();
  OwnContext(const OwnContext&) = delete;
  CUcontext handle = nullptr;
};

/// Bytes of device memory; freed when destroyed.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  CUdeviceptr address = 0;
};

/// Numbers of device memory.
std::vector<uint32_t> words_at(CUdeviceptr address, size_t count);
void put_words(CUdeviceptr address, const std::vector<uint32_t>& words);

/// PTX by hand, so that no compiler is needed: `add` (data, count, value) adds a value to words, one a thread; `hold` (flag, out)
/// polls a word until it is not 0 and stores it; `poke` (address, value) stores a word at any address; `halt` is a trap; `bump` adds 1 to the
/// variable `counter`, which begins at 7.
extern const char* const kPtx;
/// `sum` (address): stores the sum of all copies of a word behind a multicast address into all of them.
extern const char* const kMultimemPtx;

}  // namespace ronde::test

#define CHECK_CU(expression) CHECK((expression) == ::ronde::cu::CUDA_SUCCESS)
#define REQUIRE_CU(expression) REQUIRE((expression) == ::ronde::cu::CUDA_SUCCESS)
