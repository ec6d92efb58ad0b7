// Streams and events.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "gpu-emulator/driver/graph.h"

namespace emu::driver {
namespace {

template <class Body>
CUresult with_stream(CUstream handle, Body body) {
  return call([&](Driver& driver) {
    std::shared_ptr<Stream> stream;
    const CUresult result = driver.stream(handle, stream);
    return result != CUDA_SUCCESS ? result : body(driver, stream);
  });
}

template <class Body>
CUresult with_event(CUevent handle, Body body) {
  return call([&](Driver& driver) {
    const auto event = driver.events.get(handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult result = event->context->failed();
    return result != CUDA_SUCCESS ? result : body(driver, event);
  });
}

/// A stream that is captured cannot be waited for by the host: the capture is spoilt.
CUresult refuse_captured(Driver& driver, Stream& stream) {
  std::lock_guard lock(driver.capture_mutex);
  if (stream.capture == nullptr) return spoil_implicit(driver, stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  stream.capture->spoilt = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

template <class T>
bool reached(T value, T wanted, unsigned how) {
  using Difference = std::make_signed_t<T>;
  switch (how) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<Difference>(value - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return value == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (value & wanted) != 0;
    default:
      return static_cast<T>(~(value | wanted)) != 0;
  }
}

/// The interpreter's address of a word of memory; nullptr: there is none.
template <class T>
T* word_at(Driver& driver, uint64_t address) {
  const auto pieces = driver.memory().pieces(address, sizeof(T));
  return pieces.size() == 1 ? reinterpret_cast<T*>(pieces[0].first) : nullptr;
}

template <class T>
CUresult wait_value(CUstream handle, CUdeviceptr address, T wanted, unsigned flags) {
  return with_stream(handle, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const unsigned how = flags & ~CU_STREAM_WAIT_VALUE_FLUSH;
    if (how > CU_STREAM_WAIT_VALUE_NOR || address % sizeof(T) != 0 || word_at<T>(driver, address) == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    Op op;
    op.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    op.run = [&driver, context = stream->context(), address, wanted, how] {
      // A stream that waits for long shall cost little.
      for (auto pause = std::chrono::microseconds(1); context->failed() == CUDA_SUCCESS && !context->stop.load();) {
        T* word = word_at<T>(driver, address);
        if (word == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
        if (reached<T>(__atomic_load_n(word, __ATOMIC_SEQ_CST), wanted, how)) break;
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::microseconds(100));
      }
      return CUDA_SUCCESS;
    };
    return driver.submit(handle, std::move(op));
  });
}

template <class T>
CUresult write_value(CUstream handle, CUdeviceptr address, T value) {
  return with_stream(handle, [&](Driver& driver, const std::shared_ptr<Stream>&) {
    if (address % sizeof(T) != 0 || word_at<T>(driver, address) == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Op op;
    op.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    op.run = [&driver, address, value] {
      T* word = word_at<T>(driver, address);
      if (word == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
      __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
      return CUDA_SUCCESS;
    };
    return driver.submit(handle, std::move(op));
  });
}

CUresult make_stream(CUstream* out, unsigned flags, int priority) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (out == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    auto stream = std::make_shared<Stream>(context, flags, std::min(0, std::max(-5, priority)));
    {
      std::lock_guard lock(context->mutex);
      context->streams.push_back(stream);
    }
    *out = driver.streams.put(std::move(stream));
    return CUDA_SUCCESS;
  });
}

CUresult record(CUevent event_handle, CUstream stream_handle, bool external) {
  return with_stream(stream_handle, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const auto event = driver.events.get(event_handle);
    if (event == nullptr || event->context != stream->context()) return CUDA_ERROR_INVALID_HANDLE;
    auto stamp = std::make_shared<std::atomic<int64_t>>(0);
    {
      std::lock_guard lock(driver.capture_mutex);
      if (spoil_implicit(driver, *stream)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      if (stream->capture != nullptr && external) return CUDA_ERROR_NOT_SUPPORTED;
      event->capture = stream->capture;
      event->nodes = stream->frontier;
      if (stream->capture != nullptr) return stream->capture->spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    }
    const Point point = driver.enqueue(*stream, [stamp] {
      stamp->store(now_ns());
      return CUDA_SUCCESS;
    });
    std::lock_guard lock(event->mutex);
    event->last = point;
    event->stamp = stamp;
    return CUDA_SUCCESS;
  });
}

CUresult refuse_captured(Driver& driver, const Event& event) {
  std::lock_guard lock(driver.capture_mutex);
  if (event.capture == nullptr) return CUDA_SUCCESS;
  event.capture->spoilt = true;
  return CUDA_ERROR_CAPTURED_EVENT;
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* out, unsigned flags) { return make_stream(out, flags, 0); }
CUresult cuStreamCreateWithPriority(CUstream* out, unsigned flags, int priority) { return make_stream(out, flags, priority); }

CUresult cuStreamDestroy_v2(CUstream handle) {
  return call([&](Driver& driver) {
    const auto stream = driver.streams.drop(handle);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    stream->close();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamQuery(CUstream handle) {
  return with_stream(handle, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (const CUresult result = refuse_captured(driver, *stream); result != CUDA_SUCCESS) return result;
    return stream->tail().passed() ? stream->context()->failed() : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return with_stream(handle, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (const CUresult result = refuse_captured(driver, *stream); result != CUDA_SUCCESS) return result;
    if (stream == stream->context()->legacy) {
      driver.drain_legacy(*stream->context());
    } else {
      stream->tail().wait();
    }
    return stream->context()->failed();
  });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned flags) {
  return with_stream(handle, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    const auto event = driver.events.get(event_handle);
    if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    {
      CUresult result = CUDA_SUCCESS;
      std::lock_guard lock(driver.capture_mutex);
      if (capture_wait(stream, *event, result)) return result;
    }
    Point place = event->place();
    if (place.passed()) return CUDA_SUCCESS;
    driver.enqueue(*stream, [] { return CUDA_SUCCESS; }, {std::move(place)});
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return with_stream(handle, [&](Driver&, const std::shared_ptr<Stream>& stream) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = stream->context()->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  return with_stream(handle, [&](Driver&, const std::shared_ptr<Stream>& stream) {
    if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = stream->flags();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  return with_stream(handle, [&](Driver&, const std::shared_ptr<Stream>& stream) {
    if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *priority = stream->priority();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  return with_stream(handle, [&](Driver&, const std::shared_ptr<Stream>& stream) {
    if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *id = stream->id();
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  return with_stream(handle, [&](Driver& driver, const std::shared_ptr<Stream>& stream) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = driver.ordinal_of(stream->context()->device);
    return CUDA_SUCCESS;
  });
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned) {
  return write_value<uint32_t>(stream, address, value);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned) {
  return write_value<uint64_t>(stream, address, value);
}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags) {
  return wait_value<uint32_t>(stream, address, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags) {
  return wait_value<uint64_t>(stream, address, value, flags);
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  return call([&](Driver& driver) {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Op op;
    op.type = CU_GRAPH_NODE_TYPE_HOST;
    op.run = [function, data] {
      function(data);
      return CUDA_SUCCESS;
    };
    return driver.submit(handle, std::move(op));
  });
}

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    if (out == nullptr || flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))
      return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_EVENT_INTERPROCESS) != 0)
      return (flags & CU_EVENT_DISABLE_TIMING) == 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    auto event = std::make_shared<Event>();
    event->context = context;
    event->flags = flags;
    *out = driver.events.put(std::move(event));
    return CUDA_SUCCESS;
  });
}

CUresult cuEventDestroy_v2(CUevent handle) {
  return call([&](Driver& driver) { return driver.events.drop(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; });
}

CUresult cuEventRecord(CUevent event, CUstream stream) { return record(event, stream, false); }

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return flags > CU_EVENT_RECORD_EXTERNAL ? CUDA_ERROR_INVALID_VALUE : record(event, stream, flags != 0);
}

CUresult cuEventQuery(CUevent handle) {
  return with_event(handle, [](Driver& driver, const std::shared_ptr<Event>& event) {
    if (const CUresult result = refuse_captured(driver, *event); result != CUDA_SUCCESS) return result;
    return event->place().passed() ? event->context->failed() : CUDA_ERROR_NOT_READY;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return with_event(handle, [](Driver& driver, const std::shared_ptr<Event>& event) {
    if (const CUresult result = refuse_captured(driver, *event); result != CUDA_SUCCESS) return result;
    event->place().wait();
    return event->context->failed();
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return with_event(from, [&](Driver& driver, const std::shared_ptr<Event>& first) {
    const auto last = driver.events.get(to);
    if (last == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
    int64_t times[2];
    for (const auto& [event, time] : {std::pair{first, &times[0]}, std::pair{last, &times[1]}}) {
      std::lock_guard lock(event->mutex);
      if (event->stamp == nullptr || (event->flags & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
      *time = event->stamp->load();
      if (*time == 0) return CUDA_ERROR_NOT_READY;
    }
    *milliseconds = static_cast<float>(static_cast<double>(times[1] - times[0]) / 1e6);
    return CUDA_SUCCESS;
  });
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent from, CUevent to) {
  return cuEventElapsedTime(milliseconds, from, to);
}

}  // extern "C"

}  // namespace emu::driver
