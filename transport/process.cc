#include "transport/process.h"

#include <span>

#include "base/fd.h"
#include "transport/arena.h"
#include "transport/shm/hub.h"

namespace ronde {

Result<Id> random_id() {
  Id id;
  RONDE_TRY(fill_random(std::as_writable_bytes(std::span(id))));
  return id;
}

Process::Process(const Id& id) : id_(id), hub_(std::make_unique<shm::Hub>(*this)) {}
Process::~Process() = default;

Result<std::shared_ptr<Process>> Process::current() {
  static std::mutex* mutex = new std::mutex;  // neither is ever destroyed: the monitor may run while the
  static std::shared_ptr<Process>* one = new std::shared_ptr<Process>;  // process exits
  const std::lock_guard lock(*mutex);
  if (*one == nullptr) {
    RONDE_TRY(*one, pretend());
  }
  return *one;
}

Result<std::shared_ptr<Process>> Process::pretend() {
  RONDE_TRY(const Id id, random_id());
  return std::shared_ptr<Process>(new Process(id));
}

void Process::publish(const Id& name, const std::shared_ptr<Arena>& arena) {
  const std::lock_guard lock(mutex_);
  std::erase_if(arenas_, [](const auto& entry) { return entry.second.expired(); });
  arenas_[name] = arena;
}

void Process::seal(Arena& arena) { hub_->seal(arena); }

std::shared_ptr<Arena> Process::find(const Id& name) {
  const std::lock_guard lock(mutex_);
  const auto found = arenas_.find(name);
  return found == arenas_.end() ? nullptr : found->second.lock();
}

}  // namespace ronde
