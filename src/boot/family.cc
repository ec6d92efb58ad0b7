#include "boot/family.h"

#include <fmt/core.h>
#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/lists.h"
#include "base/log.h"
#include "boot/messages.h"
#include "boot/network.h"
#include "boot/node.h"
#include "boot/root.h"

namespace ronde {
namespace {

constexpr size_t kClosedRemembered = 4096;

/// What is known of a connection that does not come about.
std::string tried(const std::string& trouble, const Target& target) {
  if (!trouble.empty()) return "last: " + trouble;
  std::vector<std::string> names;
  if (target.unix_first) names.push_back("unix socket");
  for (const Address& address : target.place.addresses) names.push_back(to_string(address));
  return fmt::format("no answer from {}", names.empty() ? "it: it gave no address" : comma_list(names));
}

}  // namespace

Family::Family(std::shared_ptr<Node> node, const Secret& secret)
    : node_(std::move(node)), secret_(secret), id_(public_id(secret)) {}

Family::~Family() {
  peers_.clear();
  if (const auto network = node_->live_network()) network->sync();
}

std::shared_ptr<Mailbox> Family::mailbox(const Token& token, int rank) {
  const std::lock_guard lock(mutex_);
  const MailKey key{token, rank};
  if (closed_.count(key) != 0) return nullptr;
  std::shared_ptr<Mailbox>& box = boxes_[key];
  if (!box) box = std::make_shared<Mailbox>();
  return box;
}

void Family::close_mailbox(const Token& token, int rank) {
  const std::lock_guard lock(mutex_);
  const MailKey key{token, rank};
  boxes_.erase(key);
  if (!closed_.insert(key).second) return;
  closed_order_.push_back(key);
  if (closed_order_.size() > kClosedRemembered) {
    closed_.erase(closed_order_.front());
    closed_order_.pop_front();
  }
}

void Family::dial(Peer& peer, const Target& target, const Patience& patience) {
  const auto network = node_->live_network();
  if (!network) {
    peer.gone = fail(Code::internal_error, "the bootstrap has no network any more");
    return;
  }
  auto dial = std::make_shared<Dial>();
  dial->family = weak_from_this();
  dial->key = target.key;
  dial->target = target.place.process;
  dial->unix_first = target.unix_first;
  dial->tcp = target.place.addresses;
  dial->patience = target.believe_refusal < 0 ? UINT64_MAX : static_cast<uint64_t>(target.believe_refusal * 1e9);
  constexpr int kLongestMs = 24 * 3600 * 1000;
  if (patience.deadline.bounded()) {
    dial->deadline = now_ns() + static_cast<uint64_t>(patience.deadline.left_ms(kLongestMs)) * kMillisecond;
  }
  peer.dialling = true;
  network->dial(std::move(dial));
}

Result<std::shared_ptr<Link>> Family::reach(const Target& target, const Patience& patience) {
  std::unique_lock lock(mutex_);
  while (true) {
    Peer& peer = peers_[target.key];
    if (peer.out) return peer.out;
    if (peer.gone) return *peer.gone;
    if (patience.aborted()) return fail(Code::remote_error, "aborted while connecting");
    if (patience.deadline.passed())
      return fail(Code::remote_error, "no connection within the time limit; " + tried(peer.trouble, target));
    if (!peer.dialling) dial(peer, target, patience);
    changed_.wait_for(lock, std::chrono::milliseconds(std::max(1, patience.deadline.left_ms(kSliceMs))));
  }
}

std::optional<Error> Family::post(const Target& target, const FrameHeader& header, std::span<const std::byte> payload,
                                  const Patience& patience) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[target.key];
  if (peer.out) {
    peer.out->send(header, payload);  // if it takes nothing more, its end is near
    return std::nullopt;
  }
  if (!peer.gone && !peer.dialling) dial(peer, target, patience);
  if (!peer.gone) peer.waiting.emplace_back(header, Bytes(payload.begin(), payload.end()));
  return peer.gone;
}

void Family::send_last(uint64_t key, const FrameHeader& header, std::span<const std::byte> payload) {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(key);
  if (at == peers_.end()) return;
  Peer& peer = at->second;
  if (peer.out) {
    peer.out->send(header, payload);
  } else if (!peer.waiting.empty()) {
    peer.waiting.emplace_back(header, Bytes(payload.begin(), payload.end()));
  }
}

void Family::watch(const Target& target) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[target.key];
  if (!peer.out && !peer.gone && !peer.dialling) dial(peer, target, {nullptr, Deadline::in(60)});
}

std::shared_ptr<Link> Family::linked(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(key);
  return at == peers_.end() ? nullptr : at->second.out;
}

std::optional<Error> Family::gone(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(key);
  return at == peers_.end() ? std::nullopt : at->second.gone;
}

void Family::renew(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto at = peers_.find(key);
  if (at == peers_.end()) return;
  at->second.gone.reset();
  if (key == 0) at->second.out = nullptr;
}

void Family::link_begun(uint64_t process) {
  const std::lock_guard lock(mutex_);
  ++peers_[process].links;
}

void Family::link_up(const std::shared_ptr<Link>& link) {
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[link->process()];
    peer.was_up = true;
    peer.gone.reset();
    if (!peer.out) peer.out = link;
    for (const auto& [header, payload] : peer.waiting) peer.out->send(header, payload);
    peer.waiting.clear();
  }
  changed_.notify_all();
  RONDE_INFO(bootstrap, "connected with {} through {}", link->peer(), link->route());
}

void Family::link_closed(const Link& link, bool was_up) {
  const Error error =
      fail(Code::remote_error, link.why().empty() ? "the connection was closed" : "the connection ended: " + link.why(),
           Scope::communicator);
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [key, peer] : peers_) {
      if (peer.out.get() == &link) peer.out = nullptr;
    }
    Peer& peer = peers_[link.process()];
    --peer.links;
    last = peer.links == 0 && (was_up || peer.was_up);
    if (last) peer.gone = error;
  }
  changed_.notify_all();
  touch_all();
  if (!last) return;
  tell_lost(link.process(), error);
  if (const auto root = find_root(id_, node_->process())) root->lost(link.process(), link.why());
}

void Family::dial_won(uint64_t key, const std::shared_ptr<Link>& link) {
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[key];
    peer.dialling = false;
    // The root at a fixed address has two names: 0 and its number. Others become known in link_up.
    if (key == 0) peer.out = link;
  }
  changed_.notify_all();
}

void Family::dial_trouble(uint64_t key, const std::string& text) {
  const std::lock_guard lock(mutex_);
  peers_[key].trouble = text;
}

void Family::dial_ended(uint64_t key, Error error) {
  bool lost = false;
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = peers_[key];
    peer.dialling = false;
    lost = !peer.out;
    if (lost) peer.gone = error;
    if (lost) peer.waiting.clear();
  }
  changed_.notify_all();
  touch_all();
  if (lost) tell_lost(key, error);
}

std::vector<std::shared_ptr<Mailbox>> Family::all_boxes() {
  std::vector<std::shared_ptr<Mailbox>> boxes;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, box] : boxes_) boxes.push_back(box);
  return boxes;
}

void Family::touch_all() {
  for (const auto& box : all_boxes()) box->touch();
}

void Family::tell_lost(uint64_t process, const Error& why) {
  for (const auto& box : all_boxes()) box->posts().lost(process, why);
}

void Family::deliver(const FrameHeader& header, std::span<const std::byte> payload, const std::shared_ptr<Link>& link) {
  if (header.kind >= FrameKind::join) {
    if (const auto root = find_root(id_, node_->process())) {
      root->handle(header, payload, link, shared_from_this());
    } else if (header.kind ==
               FrameKind::join) {  // the root at a fixed address has made its communicator, and the next is not there yet
      Reply later;
      later.kind = Reply::Kind::later;
      const Bytes message = later.pack();
      FrameHeader answer;
      answer.length = static_cast<uint32_t>(message.size());
      answer.token = {0, header.tag};
      answer.from = -1;
      link->send(answer, message);
    }
    return;
  }
  const auto box = mailbox(header.token, header.to);
  if (!box) return;
  if (header.kind == FrameKind::data) box->put(header.from, header.tag, Bytes(payload.begin(), payload.end()));
  if (header.kind == FrameKind::leave) box->leave(header.from);
  if (header.kind == FrameKind::post) {
    box->posts().know(header.from, link->process());
    box->posts().put(header.from, Bytes(payload.begin(), payload.end()));
  }
  if (header.kind == FrameKind::poison) box->poison(exchange_of(header.tag), unpack_error(payload));
}

}  // namespace ronde
