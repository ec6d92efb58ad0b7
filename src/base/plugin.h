// What plugins of all kinds have in common: how a setting leads to a library, and how the library writes to the log.
#pragma once

#include <cstdarg>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ronde {

/// The log function that plugins are given: level and subsystem bits are those of base/log.h. Variadic in the manner of printf;
/// from any thread.
using PluginLog = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);

/// The library that `value` names for plugins of `kind` ("tuner", "net"): a file or a name that the loader finds, else NAME of
/// libnccl-KIND-NAME.so; STATIC_PLUGIN (whatever follows) is the program itself; empty is libnccl-KIND.so. nullptr: none can be
/// loaded, and `*tried` says why. Closed with the last copy of the pointer.
std::shared_ptr<void> open_plugin(std::string_view value, std::string_view kind, std::string* tried);

/// The words of a setting that lists plugins by such values, empty ones and `none` aside; where nothing is set, one empty word.
std::vector<std::string> plugin_words(std::string_view list);

/// What a log function of plugins of `kind` was called with, as a line of the log.
void log_for_plugin(std::string_view kind, int level, unsigned long subsystems, const char* file, int line, const char* format,
                    va_list arguments);

/// A name that a plugin gives itself, to be shown; it may be null.
std::string shown_name(const char* name);

}  // namespace ronde
