#include "transport/plugin/plugin.h"

#include <dlfcn.h>
#include <cstdarg>
#include <map>

#include <fmt/core.h>

#include "base/log.h"
#include "base/words.h"
#include "transport/plugin/connections.h"

namespace ronde::net {
namespace {

constexpr size_t kMostPlugins = 14;  // that NCCL takes from one list

struct Version {
  int number;
  const char* symbol;
  std::unique_ptr<NetAbi> (*adapt)(const void* symbol, const PluginComm& comm);
};
constexpr Version kVersions[] = {{12, "ncclNetPlugin_v12", adapt_net_v12}, {11, "ncclNetPlugin_v11", adapt_net_v11},
                                 {10, "ncclNetPlugin_v10", adapt_net_v10}, {9, "ncclNetPlugin_v9", adapt_net_v9},
                                 {8, "ncclNetPlugin_v8", adapt_net_v8},    {7, "ncclNetPlugin_v7", adapt_net_v7},
                                 {6, "ncclNetPlugin_v6", adapt_net_v6}};
constexpr const char* kOtherSymbols[] = {"ncclNetPlugin_v14", "ncclNetPlugin_v13", "ncclNetPlugin_v5", "ncclNetPlugin_v4",
                                         "ncclNetPlugin_v3"};

void net_log(int level, unsigned long subsystems, const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log_for_plugin("network", level, subsystems, file, line, format, arguments);
  va_end(arguments);
}

struct Loaded {
  std::mutex mutex;
  std::map<const void*, std::unique_ptr<NetPlugin>> by_symbol;
};
Loaded& loaded() {
  static Loaded* one = new Loaded;  // never destroyed: communicators may live while the process exits
  return *one;
}

std::string useless(void* library) {
  std::string others;
  for (const char* symbol : kOtherSymbols) {
    if (dlsym(library, symbol) != nullptr) others.append(others.empty() ? "" : ", ").append(symbol);
  }
  if (others.empty()) return "its library has none of ncclNetPlugin_v6 to _v12";
  return fmt::format("its library has only {}; versions 6 to 12 of the net interface are of use here", others);
}

Result<> checked(int code, const char* function) {
  if (code == 0) return {};
  return fail(Code::system_error,
              fmt::format("its {} returned {}; see what it logs with NCCL_DEBUG=INFO", function, code_in_words(code)));
}

Result<std::vector<PluginNet::Known>> ask_devices(NetAbi& abi) {
  int count = 0;
  RONDE_TRY(checked(abi.devices(&count), "devices"));
  std::vector<PluginNet::Known> known;
  std::string refused;
  for (int number = 0; number < count; ++number) {
    PluginDevice told;
    RONDE_TRY(checked(abi.properties(number, &told), "getProperties"));
    const std::string name = told.name == nullptr ? fmt::format("device {}", number) : printable(told.name);
    if ((told.memory & kHostMemory) == 0 || told.offload != 0) {
      refused += fmt::format("; {} {}", name,
                             told.offload != 0 ? "needs code on the device of the ranks" : "does not take memory of the host");
      continue;
    }
    Device device{name, told.pci_path == nullptr ? "" : told.pci_path, told.mbps / 1e3, told.port, told.guid};
    known.push_back({std::move(device), number, told.largest == 0 ? size_t{INT_MAX} : told.largest});
  }
  if (known.empty()) return fail(Code::system_error, "it has no device here" + refused);
  return known;
}

}  // namespace

NetPlugin::NetPlugin(std::shared_ptr<void> library, const void* symbol, size_t version)
    : library_(std::move(library)), symbol_(symbol), version_(version) {
  const std::unique_ptr<NetAbi> abi = kVersions[version].adapt(symbol, {});
  name_ = shown_name(abi->name());
  identity_ = fmt::format("{} (plugin of version {})", name_, kVersions[version].number);
}

NetPlugin* NetPlugin::find(const std::string& value, std::string* why) {
  std::string tried;
  std::shared_ptr<void> library = open_plugin(value, "net", &tried);
  if (library == nullptr) {
    *why = fmt::format("no library can be loaded ({})", tried);
    return nullptr;
  }
  for (size_t i = 0; i < std::size(kVersions); ++i) {
    const void* const symbol = dlsym(library.get(), kVersions[i].symbol);
    if (symbol == nullptr) continue;
    Loaded& all = loaded();
    const std::lock_guard lock(all.mutex);
    std::unique_ptr<NetPlugin>& it = all.by_symbol[symbol];
    if (it == nullptr) it.reset(new NetPlugin(std::move(library), symbol, i));
    return it.get();
  }
  *why = useless(library.get());
  return nullptr;
}

/// With mutex_ held.
Result<> NetPlugin::start(NetAbi& abi) {
  if (const char* const missing = abi.missing()) return fail(Code::system_error, fmt::format("its structure lacks {}", missing));
  if (abi.per_communicator()) return checked(abi.init(net_log), "init");
  if (!init_.has_value()) init_ = abi.init(net_log);
  return checked(*init_, "init");
}

Result<std::shared_ptr<Net>> NetPlugin::open(const PluginComm& comm, std::string* why) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<NetAbi> abi = kVersions[version_].adapt(symbol_, comm);
  const Result<> started = start(*abi);
  if (!started.ok()) {
    *why = started.error().what;
    return std::shared_ptr<Net>();
  }
  Result<std::vector<PluginNet::Known>> known = ask_devices(*abi);
  if (!known.ok()) {
    *why = known.error().what;
    abi->finish();
    return std::shared_ptr<Net>();
  }
  return std::shared_ptr<Net>(std::make_shared<PluginNet>(std::move(abi), name_, identity_, mutex_, std::move(known).value()));
}

std::vector<PluginChoice> plugins_of(const Config& config) {
  std::vector<PluginChoice> choices;
  const std::string& source = config.source(Setting::net_plugin);
  for (const std::string& value : plugin_words(config.text(Setting::net_plugin))) {
    if (choices.size() == kMostPlugins) {
      log_once(fmt::format("{} names more than {} plugins: those from \"{}\" on are ignored", source, kMostPlugins, value));
      break;
    }
    const bool asked = !value.empty();
    PluginChoice& one = choices.emplace_back(PluginChoice{asked ? fmt::format("{} ({})", value, source) : "libnccl-net.so", asked, nullptr, ""});
    one.plugin = NetPlugin::find(value, &one.why);
  }
  return choices;
}

}  // namespace ronde::net
