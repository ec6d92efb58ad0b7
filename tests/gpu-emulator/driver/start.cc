// Start, entry points by name, codes in words.
#include <array>
#include <cstring>
#include <string_view>

#include "gpu-emulator/driver/driver.h"

namespace emu::driver {
namespace {

struct Known {
  std::string_view name;
  int since;
  void* function;
};

#define EMU_KNOWN(name, suffix, since, parameters) {#name, since, reinterpret_cast<void*>(&name##suffix)},
const std::array kKnown = std::to_array<Known>({RONDE_CU_ENTRIES(EMU_KNOWN)});
#undef EMU_KNOWN

struct Word {
  CUresult code;
  const char* name;
  const char* text;
};

#define EMU_WORD(code, text) {code, #code, text},
const std::array kWords = std::to_array<Word>({
    EMU_WORD(CUDA_SUCCESS, "no error")                                                                        //
    EMU_WORD(CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                    //
    EMU_WORD(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                       //
    EMU_WORD(CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                              //
    EMU_WORD(CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                                //
    EMU_WORD(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                      //
    EMU_WORD(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                             //
    EMU_WORD(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                      //
    EMU_WORD(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                            //
    EMU_WORD(CUDA_ERROR_MAP_FAILED, "mapping failed")                                                         //
    EMU_WORD(CUDA_ERROR_ALREADY_MAPPED, "already mapped")                                                     //
    EMU_WORD(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image can run on the device")                           //
    EMU_WORD(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported")                                          //
    EMU_WORD(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "no peer access between the two devices")                    //
    EMU_WORD(CUDA_ERROR_INVALID_PTX, "the PTX could not be compiled")                                         //
    EMU_WORD(CUDA_ERROR_OPERATING_SYSTEM, "a call of the operating system failed")                            //
    EMU_WORD(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                            //
    EMU_WORD(CUDA_ERROR_ILLEGAL_STATE, "a resource is not in the state that the call needs")                  //
    EMU_WORD(CUDA_ERROR_NOT_FOUND, "named symbol not found")                                                  //
    EMU_WORD(CUDA_ERROR_NOT_READY, "device not ready")                                                        //
    EMU_WORD(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                          //
    EMU_WORD(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for a launch")                 //
    EMU_WORD(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch ran for too long")                                        //
    EMU_WORD(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already")                        //
    EMU_WORD(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled")                                //
    EMU_WORD(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is in use")                              //
    EMU_WORD(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is destroyed")                                     //
    EMU_WORD(CUDA_ERROR_ASSERT, "an assertion of a kernel failed")                                            //
    EMU_WORD(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host memory is registered already")              //
    EMU_WORD(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered")                      //
    EMU_WORD(CUDA_ERROR_HARDWARE_STACK_ERROR, "error of the hardware's stack")                                //
    EMU_WORD(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered")                        //
    EMU_WORD(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")                                             //
    EMU_WORD(CUDA_ERROR_INVALID_ADDRESS_SPACE, "an instruction met an address of another space")              //
    EMU_WORD(CUDA_ERROR_INVALID_PC, "invalid program counter")                                                //
    EMU_WORD(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                          //
    EMU_WORD(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in a cooperative launch")              //
    EMU_WORD(CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                             //
    EMU_WORD(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                             //
    EMU_WORD(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized")                                       //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when a stream is capturing")     //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to an earlier error in a capture")  //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would be merged")                                 //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began on another stream")                      //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "the capture has a stream that was not joined again")        //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a captured stream would depend on work outside")           //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "the legacy stream would depend on a captured one")          //
    EMU_WORD(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")                           //
    EMU_WORD(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread")                   //
    EMU_WORD(CUDA_ERROR_TIMEOUT, "the time for the wait is over")                                             //
    EMU_WORD(CUDA_ERROR_UNKNOWN, "unknown error")                                                             //
});
#undef EMU_WORD

const Word* word_of(CUresult code) {
  for (const Word& word : kWords) {
    if (word.code == code) return &word;
  }
  return nullptr;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned flags) { return flags == 0 ? Driver::start() : CUDA_ERROR_INVALID_VALUE; }

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The one question that may come before cuInit.
  const Driver* driver = Driver::get();
  if (driver != nullptr) {
    *version = driver->settings().driver;
    return CUDA_SUCCESS;
  }
  const auto settings = read_settings();
  *version = settings ? settings->driver : 0;
  return settings ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_NOT_READY;
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = nullptr;
  const Known* best = nullptr;
  bool named = false;
  for (const Known& known : kKnown) {
    // Entry points whose stream 0 is the thread's own are not there.
    if (known.name != name || (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) continue;
    named = true;
    if (known.since <= version && (best == nullptr || known.since > best->since)) best = &known;
  }
  if (best != nullptr) *function = best->function;
  if (status != nullptr)
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : named         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return best != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Word* word = word_of(code);
  *name = word == nullptr ? nullptr : word->name;
  return word == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Word* word = word_of(code);
  *text = word == nullptr ? nullptr : word->text;
  return word == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace emu::driver
