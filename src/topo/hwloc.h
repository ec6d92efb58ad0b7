// libhwloc, found at run time.
#pragma once

namespace ronde::topo {

/// libhwloc's binary interface, as far as it is used. nullptr: not there.
struct HwlocApi {
  unsigned (*version)() = nullptr;                                                        ///< hwloc_get_api_version
  int (*init)(void** topology) = nullptr;                                                 ///< hwloc_topology_init
  int (*flags)(void* topology, unsigned long flags) = nullptr;                            ///< hwloc_topology_set_flags
  int (*io_filter)(void* topology, int filter) = nullptr;                                 ///< hwloc_topology_set_io_types_filter
  int (*component)(void* topology, unsigned long flags, const char* name) = nullptr;      ///< hwloc_topology_set_components
  int (*load)(void* topology) = nullptr;                                                  ///< hwloc_topology_load
  int (*write)(void* topology, char** text, int* length, unsigned long flags) = nullptr;  ///< hwloc_topology_export_xmlbuffer
  void (*free)(void* topology, char* text) = nullptr;                                     ///< hwloc_free_xmlbuffer
  void (*destroy)(void* topology) = nullptr;                                              ///< hwloc_topology_destroy
};
/// Loads the library for the rest of the process.
HwlocApi load_hwloc(const char* library = "libhwloc.so.15");

}  // namespace ronde::topo
