#include "transport/verbs/verbs.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/core.h>

#include "base/lists.h"
#include "base/symbols.h"

namespace ronde::net {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

struct Loaded {
  Verbs verbs;
  std::string trouble;
};

Loaded load(const std::string& name) {
  Loaded loaded;
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    loaded.trouble = fmt::format("libibverbs cannot be loaded ({})", why == nullptr ? name : why);
    return loaded;
  }
  std::vector<std::string> missing;
  const auto find = [&](const char* symbol, auto*& function) {
    find_symbol(library, symbol, function);
    if (function == nullptr) missing.emplace_back(symbol);
  };
  Verbs& v = loaded.verbs;
  find("ibv_get_device_list", v.get_device_list);
  find("ibv_free_device_list", v.free_device_list);
  find("ibv_get_device_name", v.get_device_name);
  find("ibv_get_device_guid", v.get_device_guid);
  find("ibv_open_device", v.open_device);
  find("ibv_close_device", v.close_device);
  find("ibv_query_device", v.query_device);
  find("ibv_query_port", v.query_port);
  find("ibv_query_pkey", v.query_pkey);
  find("ibv_get_async_event", v.get_async_event);
  find("ibv_ack_async_event", v.ack_async_event);
  find("ibv_event_type_str", v.event_type_str);
  find("ibv_alloc_pd", v.alloc_pd);
  find("ibv_dealloc_pd", v.dealloc_pd);
  find("ibv_reg_mr", v.reg_mr);
  find_symbol(library, "ibv_reg_mr_iova2", v.reg_mr_iova2);
  find("ibv_dereg_mr", v.dereg_mr);
  find("ibv_create_comp_channel", v.create_comp_channel);
  find("ibv_destroy_comp_channel", v.destroy_comp_channel);
  find("ibv_create_cq", v.create_cq);
  find("ibv_destroy_cq", v.destroy_cq);
  find("ibv_get_cq_event", v.get_cq_event);
  find("ibv_ack_cq_events", v.ack_cq_events);
  find("ibv_create_qp", v.create_qp);
  find("ibv_modify_qp", v.modify_qp);
  find("ibv_destroy_qp", v.destroy_qp);
  find("ibv_fork_init", v.fork_init);
  if (!missing.empty()) loaded.trouble = fmt::format("{} lacks {}", name, comma_list(missing));
  // Registered pages stay where they are when the process forks; newer kernels see to that themselves.
  if (missing.empty()) v.fork_init();
  return loaded;
}

}  // namespace

const Verbs* load_verbs(const std::string& name, std::string* why) {
  static std::mutex mutex;
  static auto* const all = new std::map<std::string, Loaded>;  // never destroyed: communicators may live while the process exits
  const std::lock_guard lock(mutex);
  const std::string file = name.empty() ? kLibrary : name;
  auto at = all->find(file);
  if (at == all->end()) at = all->emplace(file, load(file)).first;
  *why = at->second.trouble;
  return why->empty() ? &at->second.verbs : nullptr;
}

int query_port(const Verbs& verbs, ibv_context* context, int port, ibv_port_attr* attributes) {
  // What the header's function of that name does; but it would have to be linked.
  std::memset(attributes, 0, sizeof *attributes);
  errno = 0;
  int rc = 0;
  if (verbs_context* extended = verbs_get_ctx_op(context, query_port)) {
    rc = extended->query_port(context, static_cast<uint8_t>(port), attributes, sizeof *attributes);
  } else {
    rc = verbs.query_port(context, static_cast<uint8_t>(port), reinterpret_cast<_compat_ibv_port_attr*>(attributes));
  }
  if (rc == 0) return 0;
  return rc > 0 ? rc : errno != 0 ? errno : EIO;
}

}  // namespace ronde::net
