// The profiler that plugins from version 10 on are told of: there is none, which a function that does nothing says to all of
// them.
#pragma once

#include <cstdint>

namespace ronde::net {

using PluginProfile = int (*)(void** event, int kind, void* parent, int64_t plugin, void* data);

inline int no_profile(void**, int, void*, int64_t, void*) { return 0; }

}  // namespace ronde::net
