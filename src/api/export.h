// How a function becomes part of the C border. Nothing else in the library has default visibility.
#pragma once

/// Begins the definition of a function of NCCL's API: RONDE_API(ncclResult_t, ncclGroupStart, (void)) { ... }
/// Defines p<name> (strong) and <name> as a weak alias of it, so that a profiler may put its own <name> in front and call
/// p<name>. Code of the library calls p<name> and is thereby never interposed.
#define RONDE_API(type, name, parameters)                                                         \
  extern "C" __attribute__((visibility("default"))) type p##name parameters;                      \
  extern "C" __attribute__((visibility("default"), weak, alias("p" #name))) type name parameters; \
  type p##name parameters

/// Begins the definition of an exported function that has no twin: those of ronde.h.
#define RONDE_EXTENSION(type, name, parameters)                           \
  extern "C" __attribute__((visibility("default"))) type name parameters; \
  type name parameters
