// The one wrapper of every API function: nothing thrown leaves the library, and every failure is reported in one place.
#pragma once

#include <exception>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "api/last_error.h"
#include "base/result.h"
#include "nccl.h"

namespace ronde {

/// The Error for the exception that is being handled; call it inside a catch block only.
inline Error caught() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(Code::system_error,
                "allocating memory failed; free memory, or raise the limit of the process (ulimit -v) or its cgroup",
                Scope::communicator);
  } catch (const std::exception& e) {
    return fail(Code::internal_error, std::string("an unexpected exception reached the border: ") + e.what(),
                Scope::communicator);
  } catch (...) {
    return fail(Code::internal_error, "an unexpected exception of unknown type reached the border", Scope::communicator);
  }
}

/// Runs `body` for the API function `call` (its name without "nccl": "AllReduce") and turns what comes out into a code.
/// `body` returns Result<>, or Result<Code> where success has to say more (Code::in_progress). An Error is logged as WARN with
/// the call's name in front and becomes the last error; Code::in_progress is none, whichever way it comes.
template <class Body>
ncclResult_t border(std::string_view call, Body&& body) noexcept {
  try {
    const auto result = std::forward<Body>(body)();
    if (!result.ok()) {
      if (result.code() != Code::in_progress) report_error(call, result.error());
      return static_cast<ncclResult_t>(result.code());
    }
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*result)>, Code>) return static_cast<ncclResult_t>(*result);
    return ncclSuccess;
  } catch (...) {
    try {
      const Error error = caught();
      report_error(call, error);
      return static_cast<ncclResult_t>(error.code);
    } catch (...) {  // no memory for the text of the error
      set_last_error("allocating memory failed");
      return ncclSystemError;
    }
  }
}

/// ncclInvalidArgument for a pointer argument that is NULL. `name` is the parameter's name in nccl.h.
inline Result<> require_pointer(const void* pointer, std::string_view name) {
  if (pointer != nullptr) return Done{};
  return fail(Code::invalid_argument,
              std::string("the argument ").append(name).append(" is NULL; it has to point to memory of the caller"));
}

}  // namespace ronde
