#include "api/first_init.h"

#include <dlfcn.h>
#include <link.h>

#include <fmt/core.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "ronde.h"

namespace ronde {
namespace {

std::vector<std::string> loaded_objects() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        static_cast<std::vector<std::string>*>(data)->emplace_back(info->dlpi_name);
        return 0;
      },
      &names);
  return names;
}

/// The files that have ronde in them, by where they lie in memory. A search through an object finds its dependencies' symbols too, hence dladdr.
std::map<const void*, std::string> loaded_copies() {
  std::map<const void*, std::string> copies;
  for (const std::string& name : loaded_objects()) {
    void* const object = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (object == nullptr) continue;  // what the kernel maps is no file
    const void* const symbol = dlsym(object, "rondeGetVersion");
    Dl_info where;
    if (symbol != nullptr && dladdr(symbol, &where) != 0) copies[where.dli_fbase] = where.dli_fname;
    dlclose(object);
  }
  return copies;
}

void warn_of_copies() {
  std::string files;
  const std::map<const void*, std::string> copies = loaded_copies();
  if (copies.size() < 2) return;
  for (const auto& [base, file] : copies) files += fmt::format("{}{}", files.empty() ? "" : " and ", file);
  log_once(fmt::format("{} copies of ronde are loaded in this process: {}; each has communicators and streams of its own, which the other takes "
                       "for garbage: link or load one of them only", copies.size(), files));
}

}  // namespace

void note_init() {
  static std::once_flag first;
  std::call_once(first, [] {
    log_version(fmt::format("ronde {}.{}.{}, NCCL API {}.{}.{}", RONDE_MAJOR, RONDE_MINOR, RONDE_PATCH, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH));
    warn_of_copies();
  });
}

}  // namespace ronde
