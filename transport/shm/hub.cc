#include "transport/shm/hub.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/core.h>

#include "base/log.h"
#include "base/thread.h"

namespace ronde::shm {
namespace {

// An abstract name: it lives and dies with the socket, and no file system knows it.
socklen_t make_address(const Id& name, sockaddr_un* address) {
  *address = sockaddr_un{};
  address->sun_family = AF_UNIX;
  const std::string text = fmt::format("ronde-{:016x}{:016x}", name[0], name[1]);
  std::memcpy(address->sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

Result<BootFd> make_socket() {
  BootFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd)
    return system_failure(errno, fmt::format("making a unix socket ({})", descriptor_use()),
                          "raise `ulimit -n` if it is the descriptors");
  return fd;
}

}  // namespace

// What the monitor calls: the hub must exist as long as the call, even if the last Fabric goes away in it.
Monitor::Ready Hub::guarded(std::function<void(Hub&)> body) {
  return [weak = process_.weak_from_this(), body = std::move(body)] {
    if (const std::shared_ptr<Process> process = weak.lock()) body(process->hub());
  };
}

Result<> Hub::open_locked() {
  RONDE_TRY(bells_, BellHold::take());
  RONDE_TRY(monitor_, Monitor::start([weak = process_.weak_from_this()] {
              const std::shared_ptr<Process> process = weak.lock();
              return process != nullptr && process->hub().after_events();
            }));
  return {};
}

Result<> Hub::listen_locked() {
  RONDE_TRY(listener_name_, random_id());
  RONDE_TRY(secret_, random_id());
  RONDE_TRY(BootFd socket, make_socket());
  sockaddr_un address;
  const socklen_t size = make_address(listener_name_, &address);
  if (bind(socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(socket.get(), SOMAXCONN) != 0) {
    return system_failure(errno, "listening on an abstract unix socket");
  }
  RONDE_TRY(monitor_->watch(socket.get(), guarded([](Hub& hub) { hub.accept_callers(); })));
  listener_ = std::move(socket);
  return {};
}

void Hub::stop_listening_locked() {
  if (listener_ && !refusing_) monitor_->unwatch(listener_.get());
  listener_.reset();
  refusing_ = false;
}

Result<LinkPtr> Hub::pin(const Id& peer) {
  Lock lock(mutex_);
  Result<> ready;
  if (pins_ == 0) ready = open_locked();
  if (refusing_) stop_listening_locked();
  if (ready && !listener_) ready = listen_locked();
  if (!ready) {
    const Closing closing = pins_ == 0 ? close_locked() : Closing{};
    lock.unlock();
    if (closing.monitor != nullptr) closing.monitor->stop();
    return std::move(ready).error();
  }
  ++pins_;
  LinkPtr& link = links_[peer];
  const bool stale =
      link != nullptr && (link->state == Link::State::ended || (link->state == Link::State::wanted && !link->trouble.empty()));
  if (link == nullptr || stale) link = std::make_shared<Link>(peer);
  ++link->users;
  return link;
}

// Nobody here uses the link: the peer learns it at once, so that it does not rely on this socket for a new communicator.
void Hub::retire_locked(const LinkPtr& link) {
  if (link->socket) {
    if (link->state == Link::State::connected) monitor_->unwatch(link->socket.get());
    shutdown(link->socket.get(), SHUT_RDWR);
  }
  link->state = Link::State::ended;
  link->ended.store(true, std::memory_order_seq_cst);
  link->outbox.clear();
  const auto found = links_.find(link->peer);
  if (found != links_.end() && found->second == link) links_.erase(found);
}

// What is left to be stopped and freed without the lock.
Hub::Closing Hub::close_locked() {
  Closing closing;
  while (!links_.empty()) retire_locked(LinkPtr(links_.begin()->second));
  for (const auto& caller : callers_) monitor_->unwatch(caller->socket.get());
  closing.callers.swap(callers_);
  stop_listening_locked();
  bells_.reset();
  closing.monitor = std::move(monitor_);
  return closing;
}

void Hub::unpin(const LinkPtr& link) {
  Lock lock(mutex_);
  if (--link->users == 0) retire_locked(link);
  if (--pins_ > 0) return;
  const Closing closing = close_locked();
  lock.unlock();
  closing.monitor->stop();
}

template <class Condition>
Result<> Hub::await(Lock& lock, const Link& link, const WaitLimit& patience, Condition done) {
  while (!done()) {
    if (!link.trouble.empty()) return fail(Code::system_error, link.trouble);
    if (link.state == Link::State::ended) return fail(Code::remote_error, "its process ended meanwhile", Scope::communicator);
    if (patience.abort != nullptr && patience.abort->raised()) return fail(Code::remote_error, "aborted", Scope::communicator);
    if (patience.deadline.passed()) {
      return fail(Code::remote_error, "its process did not answer in time (RONDE_INIT_TIMEOUT)", Scope::communicator);
    }
    changed_.wait_for(lock, std::chrono::milliseconds(patience.deadline.left_ms(50)));
  }
  return {};
}

// The monitor reads the socket from now on.
Result<> Hub::attach_locked(const LinkPtr& link, BootFd socket) {
  // A failure closes the socket, so that the peer does not wait for answers.
  RONDE_TRY(monitor_->watch(socket.get(), guarded([link](Hub& hub) { hub.read_link(link); })));
  link->socket = std::move(socket);
  link->pid = peer_pid(link->socket.get());
  link->state = Link::State::connected;
  return {};
}

Result<> Hub::dial(Lock& lock, const LinkPtr& link, const PeerAddress& peer, const WaitLimit& patience) {
  lock.unlock();
  sockaddr_un address;
  const socklen_t size = make_address(peer.listener, &address);
  auto socket = make_socket();
  int error = 0;
  while (socket && ::connect(socket->get(), reinterpret_cast<sockaddr*>(&address), size) != 0) {
    error = errno;
    // EAGAIN: more callers than the backlog takes.
    if ((error != EINTR && error != EAGAIN) || patience.deadline.passed() ||
        (patience.abort != nullptr && patience.abort->raised()))
      break;
    error = 0;
    usleep(1000);
  }
  lock.lock();
  if (!socket) return std::move(socket).error();
  if (error == ECONNREFUSED) {
    return fail(Code::system_error,
                "its unix socket is not to be found here: it has ended, or runs on another host or in another network namespace, between "
                "which there is no network transport yet");
  }
  if (error != 0) return system_failure(error, "connecting to its unix socket");
  Message hello;
  hello.kind = Kind::hello;
  hello.id = process_.id();
  hello.secret = peer.secret;
  RONDE_TRY(attach_locked(link, std::move(*socket)));
  post_locked(*link, hello);
  return {};
}

Result<> Hub::connect(LinkPtr& link, const PeerAddress& peer, const WaitLimit& patience) {
  Lock lock(mutex_);
  for (;;) {
    const bool gone = link->state == Link::State::connected && hung_up(link->socket.get());
    if (link->state == Link::State::connected && !gone) return {};
    if (gone || link->state == Link::State::ended) {
      LinkPtr& current = links_[link->peer];
      if (current == nullptr || current == link) current = std::make_shared<Link>(link->peer);
      const LinkPtr old = std::exchange(link, current);
      ++link->users;
      if (--old->users == 0) retire_locked(old);
      continue;
    }
    if (link->state == Link::State::wanted && process_.id() < link->peer) {
      link->state = Link::State::dialling;
      auto dialled = dial(lock, link, peer, patience);
      changed_.notify_all();
      if (dialled) continue;
      link->state = Link::State::wanted;
      return dialled;
    }
    if (link->state == Link::State::wanted) return {};  // the peer dials
    RONDE_TRY(await(lock, *link, patience, [&] { return link->state != Link::State::dialling; }));
  }
}

Result<> Hub::await_caller(Link& link, const WaitLimit& patience) {
  Lock lock(mutex_);
  auto came = await(lock, link, patience, [&] { return link.state == Link::State::connected; });
  if (refusing_) stop_listening_locked();  // sends those away who have dialled and wait to be answered
  return came;
}

Result<Bell*> Hub::map_bells(Link& link, const WaitLimit& patience) {
  Lock lock(mutex_);
  if (!link.bells_asked) {
    link.bells_asked = true;
    Message want;
    want.kind = Kind::want_bells;
    post_locked(link, want);
  }
  RONDE_TRY(await(lock, link, patience, [&] { return link.bells.data() != nullptr; }));
  return reinterpret_cast<Bell*>(link.bells.data());
}

Result<std::shared_ptr<Arena>> Hub::map_arena(Link& link, const Id& name, const ArenaShape& shape, const WaitLimit& patience) {
  Lock lock(mutex_);
  std::erase_if(wanted_, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<Wanted> wanted = wanted_[name].lock();
  if (wanted == nullptr) {
    wanted = std::make_shared<Wanted>();
    wanted->shape = shape;
    wanted_[name] = wanted;
    Message want;
    want.kind = Kind::want_arena;
    want.id = name;
    post_locked(link, want);
  }
  RONDE_TRY(await(lock, link, patience, [&] { return wanted->done; }));
  if (wanted->arena == nullptr) return fail(Code::system_error, wanted->trouble);
  // The Wanted lives on with the arena: other ranks of this process share the mapping.
  return std::shared_ptr<Arena>(wanted, wanted->arena.get());
}

void Hub::seal(Arena& arena) {
  const Lock lock(mutex_);
  arena.close_descriptor();
}

Result<> Hub::prove(Link& link, const WaitLimit& patience) {
  Lock lock(mutex_);
  if (link.proof.load(std::memory_order_relaxed) == Proof::unknown) {
    RONDE_TRY(link.probe_secret, random_id());
    link.proof.store(Proof::asked, std::memory_order_relaxed);  // under the mutex
    Message probe;
    probe.kind = Kind::probe;
    probe.address = reinterpret_cast<uint64_t>(&link.probe_secret);
    post_locked(link, probe);
  }
  return await(lock, link, patience, [&] { return link.proof.load(std::memory_order_relaxed) != Proof::asked; });
}

void Hub::add_watcher(std::shared_ptr<Watcher> watcher) {
  const Lock lock(mutex_);
  if (watcher->link->ended.load(std::memory_order_relaxed)) monitor_->wake();  // it ended before anybody listened
  watchers_.push_back(std::move(watcher));
}

void Hub::remove_watcher(const std::shared_ptr<Watcher>& watcher) {
  const Lock lock(mutex_);
  std::erase(watchers_, watcher);
}

bool Hub::offer(Link& link, const std::shared_ptr<Region>& region) {
  {
    const std::lock_guard lock(link.regions_mutex);
    const auto [it, fresh] = link.offers.try_emplace(region->id, Link::Offer::pending);
    if (!fresh) return it->second == Link::Offer::mapped;
  }
  Message offer;
  offer.kind = Kind::region;
  offer.number = region->id;
  offer.size = region->bytes;
  const Lock lock(mutex_);
  post_locked(link, offer, region->fd.get(), region);
  return false;
}

void Hub::post_locked(Link& link, const Message& message, int fd, std::shared_ptr<const void> keep) {
  if (link.state != Link::State::connected) return;
  if (link.outbox.empty() && send_message(link.socket.get(), message, fd) != Io::later) return;  // an end is the monitor's to see
  link.outbox.push_back(Outgoing{message, fd, std::move(keep)});
  monitor_->wake();
}

}  // namespace ronde::shm
