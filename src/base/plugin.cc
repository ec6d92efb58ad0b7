#include "base/plugin.h"

#include <dlfcn.h>
#include <algorithm>
#include <cstdio>

#include <fmt/core.h>

#include "base/log.h"
#include "base/words.h"

namespace ronde {
namespace {

std::shared_ptr<void> load(const char* name) {
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  return {handle, [](void* one) { dlclose(one); }};
}

}  // namespace

std::shared_ptr<void> open_plugin(std::string_view value, std::string_view kind, std::string* tried) {
  constexpr std::string_view kStatic = "STATIC_PLUGIN";
  if (same_word(value.substr(0, kStatic.size()), kStatic)) return load(nullptr);
  std::vector<std::string> names{value.empty() ? fmt::format("libnccl-{}.so", kind) : std::string(value)};
  const bool is_file = value.find('/') != std::string_view::npos ||
                       (value.rfind("lib", 0) == 0 && value.size() > 3 && value.rfind(".so") == value.size() - 3);
  if (!value.empty() && !is_file) names.push_back(fmt::format("libnccl-{}-{}.so", kind, value));
  for (const std::string& name : names) {
    if (std::shared_ptr<void> library = load(name.c_str())) return library;
    const char* const why = dlerror();
    tried->append(tried->empty() ? "" : "; ").append(why != nullptr ? why : name);
  }
  return nullptr;
}

std::vector<std::string> plugin_words(std::string_view list) {
  if (list.empty()) return {""};
  std::vector<std::string> words;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string_view word = list.substr(at, end - at);
    if (!word.empty() && !same_word(word, "none")) words.emplace_back(word);
    at = end + 1;
  }
  return words;
}

void log_for_plugin(std::string_view kind, int level, unsigned long subsystems, const char* file, int line, const char* format,
                    va_list arguments) {
  if (level < static_cast<int>(Level::version) || format == nullptr) return;
  const Level as = static_cast<Level>(std::min(level, static_cast<int>(Level::trace)));
  if (!log_enabled(as, static_cast<Subsys>(static_cast<uint32_t>(subsystems)))) return;
  char text[2048];
  if (vsnprintf(text, sizeof text, format, arguments) < 0) return;
  log_line(as, fmt::format("{} plugin: {}", kind, text),
           Where{file == nullptr ? "" : file, file == nullptr || line < 0 ? 0u : static_cast<unsigned>(line)});
}

std::string shown_name(const char* name) {
  return name == nullptr || name[0] == '\0' ? "without a name" : printable(std::string_view(name).substr(0, 64));
}

}  // namespace ronde
