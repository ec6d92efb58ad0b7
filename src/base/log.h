// The log: stderr or a file, never stdout. NCCL_DEBUG's levels and subsystems.
//   WARN   an error that a caller also gets as a code, or a setting that does not do what was asked; once, where first seen
//   INFO   what was decided and why, once per communicator or connection, by subsystem
//   TRACE  each call
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/result.h"

namespace ronde {

enum class Level : uint8_t { none = 0, version = 1, warn = 2, info = 3, abort = 4, trace = 5 };

/// The numbers of NCCL's subsystem bits.
enum class Subsys : uint32_t {
  init = 0x1, coll = 0x2, p2p = 0x4, shm = 0x8, net = 0x10, graph = 0x20, tuning = 0x40, env = 0x80, alloc = 0x100, call = 0x200,
  proxy = 0x400, nvls = 0x800, bootstrap = 0x1000, reg = 0x2000, profile = 0x4000, ras = 0x8000, destroy = 0x10000, alloc_host = 0x20000,
};

/// Cheap: two loads. The log's settings are read, from the environment and the configuration files, at the first call.
bool log_enabled(Level level, Subsys subsys);
/// Writes one line with host, process and thread in front. Thread-safe; a line is written whole.
void log_line(Level level, std::string_view text, const Where& where = {});
/// The line of level VERSION. Written at that level, and from INFO on; not at WARN, the default, which is silent as long as nothing is wrong.
void log_version(std::string_view text);
/// A WARN line that is written the first time only that this text comes.
void log_once(const std::string& text);
/// An Error as a WARN line.
void log_error(const Error& error);
/// Reads the settings again (ncclResetDebugInit).
void log_reset();

/// The bits of a list as NCCL_DEBUG_SUBSYS has it ("INIT,NET", "^COLL", "ALL"); unknown names are ignored.
uint32_t parse_subsystems(std::string_view list);
/// The words of such a list that are ignored, as they stand in it.
std::vector<std::string> unknown_subsystems(std::string_view list);
/// All names, "ALL" included, for messages.
std::string known_subsystems();
/// %h -> host name (with % and / replaced by -), %p -> process id, %% -> %; anything else stays.
std::string expand_log_path(std::string_view pattern, std::string_view host, int pid);

}  // namespace ronde

#define RONDE_INFO(subsys, ...)                                                                              \
  do {                                                                                                       \
    if (::ronde::log_enabled(::ronde::Level::info, ::ronde::Subsys::subsys))                                 \
      ::ronde::log_line(::ronde::Level::info, ::fmt::format(__VA_ARGS__));                                   \
  } while (0)
#define RONDE_WARN(...) ::ronde::log_line(::ronde::Level::warn, ::fmt::format(__VA_ARGS__), ::ronde::Where::here())
