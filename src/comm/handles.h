// Handles: what programs hold instead of pointers. A freed or foreign one is an error, never a crash.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace ronde {

class Communicator;

/// A new handle for `comm`: never 0, never given out again.
uintptr_t add_handle(std::shared_ptr<Communicator> comm);
/// invalid_argument for a handle that is 0, was freed, or never was one. The result keeps the communicator alive.
Result<std::shared_ptr<Communicator>> find_handle(uintptr_t handle);
/// As find_handle, and the handle is dead from now on: of two calls one gets the communicator.
Result<std::shared_ptr<Communicator>> take_handle(uintptr_t handle);

}  // namespace ronde
