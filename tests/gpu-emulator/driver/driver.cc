#include "gpu-emulator/driver/driver.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <thread>
#include <utility>

#include "gpu-emulator/driver/graph.h"
#include "gpu-emulator/driver/module.h"

namespace emu::driver {
namespace {

std::atomic<Driver*> instance{nullptr};
std::atomic<pid_t> owner{0};
std::mutex start_mutex;

std::mutex error_mutex;
std::atomic<const std::string*> last_error{nullptr};

/// The thread's own stream of each context.
thread_local std::map<CUcontext, std::shared_ptr<Stream>> own_streams;

/// Kernels that still run when the process ends must not meet destroyed objects of other libraries.
void stop_all() {
  Driver* driver = Driver::get();
  if (driver == nullptr) return;
  for (const auto& context : driver->contexts.drop_if([](const Context&) { return true; })) context->stop.store(true);
  for (int i = 0; i < 200 && busy_streams() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace

void Context::fail(CUresult code, const std::string& text) {
  int none = 0;
  if (!error.compare_exchange_strong(none, code, std::memory_order_acq_rel)) return;
  stop.store(true, std::memory_order_release);
  if (Driver* driver = Driver::get(); driver != nullptr && !text.empty()) driver->report(text);
}

std::vector<std::shared_ptr<Stream>> Context::living_streams() {
  std::vector<std::shared_ptr<Stream>> living;
  std::lock_guard lock(mutex);
  size_t kept = 0;
  for (auto& weak : streams) {
    std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr) continue;
    living.push_back(std::move(stream));
    std::swap(streams[kept++], weak);
  }
  streams.resize(kept);
  return living;
}

void Context::synchronize() {
  for (const auto& stream : living_streams()) stream->tail().wait();
}

std::vector<CUcontext>& context_stack() {
  thread_local std::vector<CUcontext> stack;
  return stack;
}

Driver* Driver::get() {
  Driver* driver = instance.load(std::memory_order_acquire);
  return driver != nullptr && owner.load(std::memory_order_relaxed) == getpid() ? driver : nullptr;
}

CUresult Driver::start() {
  std::lock_guard lock(start_mutex);
  if (instance.load() != nullptr) return get() != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  auto settings = read_settings();
  if (!settings) {
    std::fprintf(stderr, "emulated GPU: %s\n", settings.error().what.c_str());
    return CUDA_ERROR_SYSTEM_NOT_READY;
  }
  if (settings->shown.empty()) return CUDA_ERROR_NO_DEVICE;
  // Never deleted: streams' threads may outlive main().
  auto* driver = new Driver(std::move(*settings));
  auto memory = Memory::make(driver->settings_.devices, driver->settings_.memory);
  if (!memory) {
    std::fprintf(stderr, "emulated GPU: %s\n", memory.error().what.c_str());
    delete driver;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  driver->memory_ = std::move(*memory);
  driver->devices.resize(static_cast<size_t>(driver->settings_.devices));
  owner.store(getpid());
  instance.store(driver, std::memory_order_release);
  std::atexit(stop_all);
  return CUDA_SUCCESS;
}

int Driver::index_of(CUdevice device) const {
  return device >= 0 && static_cast<size_t>(device) < settings_.shown.size() ? settings_.shown[static_cast<size_t>(device)] : -1;
}

CUdevice Driver::ordinal_of(int index) const {
  for (size_t i = 0; i < settings_.shown.size(); ++i) {
    if (settings_.shown[i] == index) return static_cast<CUdevice>(i);
  }
  return -1;
}

CUresult Driver::current(std::shared_ptr<Context>& context) {
  const auto& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  context = contexts.get(stack.back());
  return context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

std::shared_ptr<Context> Driver::make_context(int index, bool primary, unsigned flags) {
  auto context = std::make_shared<Context>();
  context->device = index;
  context->primary = primary;
  context->flags = flags;
  context->legacy = std::make_shared<Stream>(context, CU_STREAM_DEFAULT, 0);
  context->streams.push_back(context->legacy);
  context->handle = contexts.put(context);
  return context;
}

void Driver::end_context(const std::shared_ptr<Context>& context) {
  contexts.drop(context->handle);
  context->stop.store(true);
  context->synchronize();
  streams.drop_if([&](const Stream& stream) { return stream.context() == context; });
  events.drop_if([&](const Event& event) { return event.context == context; });
  unload_modules(*this, *context);
  for (const auto& stream : context->living_streams()) stream->close();
  context->legacy = nullptr;
}

CUresult Driver::stream(CUstream handle, std::shared_ptr<Stream>& stream) {
  if (handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    stream = streams.get(handle);
    return stream == nullptr ? CUDA_ERROR_INVALID_HANDLE : stream->context()->failed();
  }
  std::shared_ptr<Context> context;
  if (const CUresult result = current(context); result != CUDA_SUCCESS) return result;
  if (handle != CU_STREAM_PER_THREAD) {
    stream = context->legacy;
    return stream == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->failed();
  }
  std::shared_ptr<Stream>& own = own_streams[context->handle];
  if (own == nullptr) {
    own = std::make_shared<Stream>(context, CU_STREAM_DEFAULT, 0);
    std::lock_guard lock(context->mutex);
    context->streams.push_back(own);
  }
  stream = own;
  return context->failed();
}

Point Driver::enqueue(Stream& stream, Work work, std::vector<Point> after) {
  Context& context = *stream.context();
  std::lock_guard lock(context.order);
  if (&stream == context.legacy.get()) {
    for (const auto& other : context.living_streams()) {
      if (other.get() != &stream && other->blocking()) after.push_back(other->tail());
    }
  } else if (stream.blocking() && context.legacy != nullptr) {
    after.push_back(context.legacy->tail());
  }
  return stream.enqueue(std::move(work), std::move(after));
}

void Driver::drain_legacy(Context& context) {
  std::vector<Point> points;
  {
    std::lock_guard lock(context.order);
    for (const auto& stream : context.living_streams()) {
      if (stream->blocking()) points.push_back(stream->tail());
    }
  }
  for (const Point& point : points) point.wait();
}

CUresult Driver::submit(CUstream handle, Op op) {
  std::shared_ptr<Stream> target;
  if (const CUresult result = stream(handle, target); result != CUDA_SUCCESS) return result;
  if (op.context == nullptr) op.context = target->context();
  {
    std::lock_guard lock(capture_mutex);
    if (target->capture != nullptr) return capture_op(*target, op);
    if (spoil_implicit(*this, *target)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  enqueue(*target, std::move(op.run));
  return CUDA_SUCCESS;
}

void Driver::report(const std::string& text) {
  std::lock_guard lock(error_mutex);
  std::fprintf(stderr, "emulated GPU: %s\n", text.c_str());
  // All are kept: the program may still read one.
  static auto* texts = new std::deque<std::string>;
  last_error.store(&texts->emplace_back(text));
  if (settings_.errors.empty()) return;
  if (std::FILE* file = std::fopen(settings_.errors.c_str(), "ae")) {
    std::fprintf(file, "%s\n", text.c_str());
    std::fclose(file);
  }
}

extern "C" const char* emuLastError() {
  const std::string* text = last_error.load();
  return text == nullptr ? "" : text->c_str();
}

}  // namespace emu::driver
