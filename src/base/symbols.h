// Functions of libraries that are found at run time.
#pragma once

#include <dlfcn.h>

namespace ronde {

/// Points `function` at what the library (of dlopen; nullptr: there is none) has under a name: to nothing where it has no such. Whether that
/// has the function's type is for the caller to know.
template <class Function>
void find_symbol(void* library, const char* name, Function*& function) {
  function = library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace ronde
