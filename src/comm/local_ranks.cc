#include "comm/local_ranks.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "comm/communicator.h"

namespace ronde {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::array<uint64_t, 2>, std::vector<Communicator*>> ranks;
};
Registry& registry() {
  static Registry* one = new Registry;
  return *one;
}

}  // namespace

void note_local_rank(const std::array<uint64_t, 2>& token, Communicator& comm) {
  const std::lock_guard lock(registry().mutex);
  registry().ranks[token].push_back(&comm);
}

void forget_local_rank(Communicator& comm) {
  const std::lock_guard lock(registry().mutex);
  for (auto at = registry().ranks.begin(); at != registry().ranks.end();) {
    std::erase(at->second, &comm);
    at = at->second.empty() ? registry().ranks.erase(at) : std::next(at);
  }
}

std::vector<std::shared_ptr<Communicator>> local_ranks(const std::array<uint64_t, 2>& token) {
  std::vector<std::shared_ptr<Communicator>> live;  // let go of after the lock: the last to hold one ends it, which comes back here
  const std::lock_guard lock(registry().mutex);
  const auto at = registry().ranks.find(token);
  if (at == registry().ranks.end()) return live;
  for (Communicator* comm : at->second) {
    if (auto held = comm->weak_from_this().lock()) live.push_back(std::move(held));
  }
  return live;
}

}  // namespace ronde
