#include "support/fabric_world.h"

#include "support/local_bootstrap.h"

namespace ronde::test {

std::shared_ptr<const Config> config_of(const std::map<std::string, std::string>& values) {
  const auto get = [&](const char* name) -> const char* {
    const auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
  return std::make_shared<const Config>(read_config(get, {}, nullptr));
}

std::string FabricWorld::error() const {
  for (const std::string& text : errors) {
    if (!text.empty()) return text;
  }
  return "";
}

FabricWorld make_fabrics(const FabricWorldRequest& request) {
  FabricWorld world;
  const auto ranks = static_cast<size_t>(request.ranks);
  world.fabric.resize(ranks);
  world.errors.resize(ranks);
  const std::shared_ptr<Meeting> meeting = make_meeting(request.ranks);
  for (int i = 0; i < request.ranks; ++i) {
    world.abort.push_back(std::make_unique<AbortWord>());
    world.bootstrap.push_back(std::make_unique<LocalBootstrap>(meeting, i));
  }
  run_ranks(request.ranks, [&](int rank, Bootstrap&) {
    const auto index = static_cast<size_t>(rank);
    const auto own = request.settings_of.find(rank);
    FabricRequest wanted;
    wanted.bootstrap = world.bootstrap[index].get();
    wanted.config = config_of(own == request.settings_of.end() ? request.settings : own->second);
    wanted.abort = world.abort[index].get();
    wanted.links = request.links;
    wanted.pretend_processes = request.pretend_processes;
    if (request.on_death) {
      wanted.on_death = [on_death = request.on_death, rank](int dead, const std::string& how) { on_death(rank, dead, how); };
    }
    auto made = Fabric::make(std::move(wanted));
    if (made) {
      world.fabric[index] = std::move(made).value();
    } else {
      world.errors[index] = made.error().what;
    }
  });
  return world;
}

}  // namespace ronde::test
