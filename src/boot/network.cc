#include "boot/network.h"

#include <fmt/core.h>
#include <sys/eventfd.h>
#include <cerrno>

#include "base/clock.h"
#include "base/fd.h"
#include "base/thread.h"
#include "boot/loop.h"
#include "boot/node.h"

namespace ronde {

Lease::~Lease() {
  if (loop) loop->sync();
}

Network::Network(std::shared_ptr<Node> node) : node_(std::move(node)) {}

Result<std::shared_ptr<Network>> Network::start(const std::shared_ptr<Node>& node) {
  auto network = std::make_shared<Network>(node);
  auto waker = std::make_shared<Waker>();
  waker->fd = BootFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!waker->fd) return system_failure(errno, fmt::format("making an eventfd ({})", descriptor_use()), "raise `ulimit -n`");
  RONDE_TRY(BootFd listener, listen_unix(node->process()));
  auto loop = std::make_shared<NetworkLoop>(node, std::move(listener), std::move(waker));
  RONDE_TRY(network->thread_, start_thread("ronde-boot", [loop] { loop->run(); }));
  network->loop_ = std::move(loop);
  return network;
}

Network::~Network() {
  if (loop_) {
    if (loop_->on_this_thread()) {
      // The last holder let go inside a callback: nobody can be joined, but everything can be closed here and now.
      loop_->shut_down();
      thread_.detach();
    } else {
      loop_->stop();
      thread_.join();
    }
  }
  node_->network_ended();
}

void Network::dial(std::shared_ptr<Dial> dial) {
  loop_->post([loop = loop_.get(), dial = std::move(dial)] { loop->add_dial(dial); });
}

std::shared_ptr<Lease> Network::listen(Listening listening) {
  auto lease = std::make_shared<Lease>();
  lease->port = listening.port;
  lease->loop = loop_;
  auto shared = std::make_shared<Listening>(std::move(listening));
  loop_->post([loop = loop_.get(), shared, weak = std::weak_ptr<Lease>(lease)] { loop->add_listener(std::move(*shared), weak); });
  return lease;
}

void Network::after(double seconds, std::function<void()> action) {
  const uint64_t at = now_ns() + static_cast<uint64_t>(seconds * 1e9);
  loop_->post([loop = loop_.get(), at, action = std::move(action)] { loop->add_timer(at, action); });
}

void Network::sync() { loop_->sync(); }

}  // namespace ronde
