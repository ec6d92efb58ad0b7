// The state of the emulated driver: devices, contexts and all that has a handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu-emulator/driver/entries.h"
#include "gpu-emulator/driver/settings.h"
#include "gpu-emulator/driver/stream.h"
#include "gpu-emulator/driver/table.h"
#include "gpu-emulator/memory.h"

namespace emu::driver {

struct LoadedModule;
struct Entry;
struct Library;
struct Kernel;
struct Graph;
struct GraphExec;
struct UserObject;
struct Chunk;

/// A context; `device` is the machine's number. Once it has failed, every call in it tells so.
struct Context {
  int device = 0;
  bool primary = false;
  unsigned flags = 0;
  CUcontext handle = nullptr;
  std::atomic<int> error{0};
  std::atomic<bool> stop{false};  ///< ends its kernels
  std::mutex order;               ///< over additions to streams that wait for each other
  std::shared_ptr<Stream> legacy;
  std::mutex mutex;  ///< over what follows
  std::vector<std::weak_ptr<Stream>> streams;
  uint64_t peers = 0;  ///< devices whose memory it may reach

  CUresult failed() const { return static_cast<CUresult>(error.load(std::memory_order_acquire)); }
  /// The first failure is kept, reported with `text`, and ends all kernels of the context.
  void fail(CUresult code, const std::string& text);
  std::vector<std::shared_ptr<Stream>> living_streams();
  /// Waits for all work of all of its streams.
  void synchronize();
};

/// What holds for a device of the machine.
struct Device {
  std::shared_ptr<Context> primary;  ///< nullptr while nobody holds it
  int holders = 0;
  unsigned flags = 0;
};

class Driver {
 public:
  /// nullptr before cuInit, and in a process forked after it.
  static Driver* get();
  static CUresult start();

  const Settings& settings() const { return settings_; }
  Memory& memory() { return *memory_; }

  /// The machine's number of a device of the program; -1: there is none.
  int index_of(CUdevice device) const;
  /// The program's number of a device; -1: it does not see it.
  CUdevice ordinal_of(int index) const;

  /// The calling thread's context.
  CUresult current(std::shared_ptr<Context>& context);
  /// The context of a handle, if it lives.
  std::shared_ptr<Context> context(CUcontext handle) const { return contexts.get(handle); }
  std::shared_ptr<Context> make_context(int index, bool primary, unsigned flags);
  /// Ends its work, its handles and what it holds.
  void end_context(const std::shared_ptr<Context>& context);

  /// The stream that a handle means in the calling thread.
  CUresult stream(CUstream handle, std::shared_ptr<Stream>& stream);
  /// Does `op` in a stream, in its order, or adds it to the graph that it is captured into.
  CUresult submit(CUstream handle, Op op);
  /// submit() of a stream that is not captured.
  Point enqueue(Stream& stream, Work work, std::vector<Point> after = {});
  /// Waits for what the legacy stream would wait for.
  void drain_legacy(Context& context);
  /// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the captures are spoilt, where a capture forbids what may synchronize.
  CUresult refuse_in_capture();

  /// Prints the text, keeps it for emuLastError(), adds it to RONDE_EMU_ERRORS.
  void report(const std::string& text);

  std::mutex mutex;  ///< over `devices`
  std::vector<Device> devices;
  std::mutex capture_mutex;  ///< over captures: those of streams and events too
  std::vector<std::weak_ptr<Capture>> captures;

  Table<CUcontext, Context> contexts;
  Table<CUstream, Stream> streams;
  Table<CUevent, Event> events;
  Table<CUmodule, LoadedModule> modules;
  Table<CUfunction, Entry> functions;
  Table<CUlibrary, Library> libraries;
  Table<CUkernel, Kernel> kernels;
  Table<CUgraph, Graph> graphs;
  Table<CUgraphExec, GraphExec> execs;
  Table<CUuserObject, UserObject> user_objects;
  Table<CUmemGenericAllocationHandle, Chunk> chunks;

 private:
  explicit Driver(Settings settings) : settings_(std::move(settings)) {}
  CUresult capture_op(Stream& stream, const Op& op);

  const Settings settings_;
  std::unique_ptr<Memory> memory_;
};

/// The calling thread's stack of contexts, the current one last.
std::vector<CUcontext>& context_stack();

/// What every entry point does first.
template <class Body>
CUresult call(Body body) {
  Driver* driver = Driver::get();
  return driver == nullptr ? CUDA_ERROR_NOT_INITIALIZED : body(*driver);
}

/// An entry point that needs a context that has not failed.
template <class Body>
CUresult in_context(Body body) {
  return call([&](Driver& driver) {
    std::shared_ptr<Context> context;
    CUresult result = driver.current(context);
    if (result == CUDA_SUCCESS) result = context->failed();
    return result == CUDA_SUCCESS ? body(driver, context) : result;
  });
}

}  // namespace emu::driver
