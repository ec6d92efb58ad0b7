// The kinds of network, best first, and which of them a communicator uses.
#include <fmt/core.h>

#include "base/lists.h"
#include "base/log.h"
#include "base/words.h"
#include "transport/net/net.h"
#include "transport/plugin/plugin.h"
#include "transport/socket/socket.h"
#include "transport/verbs/ib.h"

namespace ronde::net {
namespace {

constexpr Provider kProviders[] = {
    {"IB", open_verbs_net},
    {"Socket", open_socket_net},
};

/// What was looked at, for the error that says why nothing is left.
class Search {
 public:
  explicit Search(const Config& config) : wanted_(config.text(Setting::net)), source_(config.source(Setting::net)) {}

  bool wants(std::string_view name) {
    known_.emplace_back(name);
    return wanted_.empty() || same_word(wanted_, name);
  }
  /// A network that was wanted does not work.
  void failed(std::string_view name, const std::string& why) { tried_ += fmt::format("; {}: {}", name, why); }
  /// A plugin that was asked for is not there.
  void missing(const PluginChoice& choice) {
    if (choice.asked) missing_ += fmt::format("; {}: {}", choice.word, choice.why);
  }
  bool named() const { return !wanted_.empty(); }

  Error error() const {
    if (wanted_.empty()) {
      return fail(Code::system_error, fmt::format("no network works here to reach ranks on other hosts{}{}", missing_, tried_), Scope::communicator);
    }
    if (!tried_.empty()) {
      return fail(Code::system_error, fmt::format("the network that {} asks for does not work here{}", source_, tried_), Scope::communicator);
    }
    return fail(Code::invalid_usage, fmt::format("there is no network \"{}\" ({}); there are: {}{}", printable(wanted_), source_, comma_list(known_), missing_),
                Scope::communicator);
  }

 private:
  const std::string wanted_;
  const std::string source_;
  std::vector<std::string> known_;
  std::string tried_, missing_;
};

/// The first plugin that works; nullptr: none.
Result<std::shared_ptr<Net>> open_plugin_net(const Config& config, uint64_t comm, Search* search) {
  const PluginComm told{comm, static_cast<int>(config.integer(Setting::traffic_class))};
  for (PluginChoice& choice : plugins_of(config)) {
    if (choice.plugin != nullptr) {
      if (!search->wants(choice.plugin->name())) continue;
      RONDE_TRY(std::shared_ptr<Net> net, choice.plugin->open(told, &choice.why));
      if (net != nullptr) {
        RONDE_INFO(net, "the network is {}, from {}", choice.plugin->identity(), choice.word);
        return net;
      }
      search->failed(choice.plugin->identity(), choice.why);
    } else {
      search->missing(choice);
    }
    const std::string text = fmt::format("network plugin {}: {}; going on without it", choice.word, choice.why);
    if (choice.asked && !search->named()) {
      log_once(text);
    } else {
      RONDE_INFO(net, "{}", text);
    }
  }
  return std::shared_ptr<Net>();
}

}  // namespace

std::span<const Provider> providers() { return kProviders; }

Result<std::shared_ptr<Net>> open_net(const Config& config, uint64_t comm) {
  Search search(config);
  RONDE_TRY(std::shared_ptr<Net> plugin, open_plugin_net(config, comm, &search));
  if (plugin != nullptr) return plugin;
  for (const Provider& provider : providers()) {
    if (!search.wants(provider.name)) continue;
    std::string why;
    RONDE_TRY(std::shared_ptr<Net> net, provider.open(config, &why));
    if (net != nullptr) return net;
    search.failed(provider.name, why);
  }
  return search.error();
}

}  // namespace ronde::net
