#include "boot/join.h"

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/fd.h"
#include "base/hash.h"
#include "base/log.h"
#include "boot/family.h"
#include "boot/messages.h"
#include "boot/node.h"
#include "boot/room.h"
#include "boot/root.h"

namespace ronde {
namespace {

constexpr double kBelieveRefusal = 5;  // seconds: the root has listened since before its id was known
constexpr double kVerdictTime = 3;     // seconds that the root has to say who is missing
constexpr double kPortPatience = 10;   // seconds in which the port of a fixed address must become free
constexpr auto kFixedPause = std::chrono::milliseconds(10);

uint64_t hash_of(const std::vector<UniqueId>& ids) {
  uint64_t hash = fnv1a("");
  for (const UniqueId& id : ids) hash = fnv1a({reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size()}, hash);
  return hash;
}

/// Everything that one join holds while it lasts.
class Joiner {
 public:
  Joiner(const JoinRequest& request, std::shared_ptr<const Config> config, const AbortWord* abort, const JoinHooks& hooks)
      : request_(request),
        config_(std::move(config)),
        hooks_(hooks),
        patience_{abort, Deadline::in(config_->seconds(Setting::init_timeout))} {}

  Result<std::unique_ptr<Bootstrap>> run();
  ~Joiner() {
    if (family_) family_->close_mailbox(lobby_token_, 0);
  }

 private:
  Result<> prepare();
  Result<> host_root();
  Result<Listening> listen_fixed();
  Result<> find_root();
  Result<std::unique_ptr<Bootstrap>> attempt(bool* again);
  Result<> say_join();
  Result<> listen();
  Result<std::unique_ptr<Bootstrap>> enter(Reply hand_out);
  Result<Reply> hear(const Patience& patience);
  Error verdict();
  std::optional<Error> root_trouble();
  void say(FrameKind kind, std::span<const std::byte> payload);
  Error text(const Error& error) const { return fail(error.code, error.what, Scope::communicator); }

  const JoinRequest& request_;
  std::shared_ptr<const Config> config_;
  const JoinHooks& hooks_;
  Patience patience_;
  IdInfo id_;

  std::shared_ptr<Node> node_;
  std::shared_ptr<Network> network_;
  std::shared_ptr<Lease> listener_;
  std::shared_ptr<Family> family_;
  std::shared_ptr<Root> root_;  // if it is in this process
  std::shared_ptr<Link> link_;  // if it is not
  bool root_lost_ = false;
  Token lobby_token_{};
  std::shared_ptr<Mailbox> lobby_;
};

Result<> Joiner::prepare() {
  if (request_.ranks < 1 || request_.rank < 0 || request_.rank >= request_.ranks) {
    return fail(Code::invalid_argument,
                fmt::format("rank {} of {}: expected 0 <= rank < number of ranks", request_.rank, request_.ranks));
  }
  if (request_.ids.empty()) return fail(Code::invalid_argument, "no unique id was given");
  for (const UniqueId& id : request_.ids) {
    RONDE_TRY(IdInfo info, decode_id(id));
    if (&id == &request_.ids.front()) id_ = std::move(info);
  }
  RONDE_TRY(node_, Node::get(hooks_.player, *config_));
  family_ = node_->family(id_.secret);
  lobby_token_ = {0, node_->next_ticket()};
  lobby_ = family_->mailbox(lobby_token_, 0);
  return {};
}

/// The port may still belong to the rank 0 of the communicator before, whose last ranks are just finishing.
Result<Listening> Joiner::listen_fixed() {
  RONDE_TRY(const std::vector<Address> addresses, parse_address(id_.fixed));
  const Deadline limit = Deadline::in(kPortPatience);
  while (true) {
    Result<Listening> listening = fail(Code::internal_error, "no address");
    int error = EADDRNOTAVAIL;  // of an address of another host: try the next
    for (size_t i = 0; i < addresses.size() && error == EADDRNOTAVAIL; ++i) listening = listen_at(addresses[i], &error);
    const bool over = limit.passed() || patience_.aborted() || patience_.deadline.passed();
    if (error != EADDRINUSE || over) return listening;
    std::this_thread::sleep_for(kFixedPause);
  }
}

/// Rank 0 with NCCL_COMM_ID: serves at the fixed address, once the communicator before has been made.
Result<> Joiner::host_root() {
  auto root = std::make_shared<Root>(id_.secret, node_->process(), true);
  while (!add_root(family_->id(), node_->process(), root)) {
    if (patience_.aborted()) return fail(Code::remote_error, "aborted while another communicator was being made at NCCL_COMM_ID");
    if (patience_.deadline.passed()) {
      return fail(Code::remote_error, fmt::format("another communicator is still being made at NCCL_COMM_ID={}", id_.fixed));
    }
    std::this_thread::sleep_for(kFixedPause);
  }
  const auto serve = [&]() -> Result<> {
    RONDE_TRY(network_, node_->network());
    RONDE_TRY(Listening listening, listen_fixed());
    root->serve(family_, network_, {network_->listen(std::move(listening))});
    return {};
  };
  Result<> served = serve();
  if (!served.ok()) remove_root(family_->id(), node_->process());
  return served;
}

Result<> Joiner::find_root() {
  const bool here = id_.root.process == node_->process();
  if (here || !id_.fixed.empty()) root_ = ronde::find_root(family_->id(), node_->process());
  if (root_) return {};
  if (here) return fail(Code::internal_error, "this process does not know its own unique id");
  RONDE_TRY(network_, node_->network());
  Target target;
  target.place = id_.root;
  target.key = id_.root.process;
  target.believe_refusal = kBelieveRefusal;
  if (!id_.fixed.empty()) {
    RONDE_TRY(target.place.addresses, parse_address(id_.fixed));
    target.believe_refusal = -1;
  } else {
    target.unix_first = hooks_.unix_sockets && id_.root.host == host_identity(*config_);
  }
  family_->renew(target.key);
  Result<std::shared_ptr<Link>> link = family_->reach(target, patience_);
  if (!link.ok()) {
    const std::string where = id_.fixed.empty() ? fmt::format("the process that made the unique id (process {})", id_.root.pid)
                                                : fmt::format("rank 0 at NCCL_COMM_ID={}", id_.fixed);
    if (link.code() == Code::invalid_usage) {
      return fail(Code::invalid_usage,
                  fmt::format("{}: it has made a communicator already, or failed to; each communicator needs an id of its own",
                              link.error().what));
    }
    return fail(Code::remote_error,
                fmt::format("rank {} could not reach {}: {}; it must live until all ranks have joined, and an id serves once",
                            request_.rank, where, link.error().what));
  }
  link_ = *link;
  return {};
}

void Joiner::say(FrameKind kind, std::span<const std::byte> payload) {
  FrameHeader header;
  header.length = static_cast<uint32_t>(payload.size());
  header.kind = kind;
  header.from = request_.rank;
  header.tag = lobby_token_[1];
  if (root_) root_->handle(header, payload, nullptr, family_);
  if (link_) link_->send(header, payload);
}

Result<> Joiner::say_join() {
  JoinMessage message;
  message.protocol = hooks_.protocol;
  message.version = hooks_.version;
  message.rank = request_.rank;
  message.ranks = request_.ranks;
  message.ids = static_cast<uint32_t>(request_.ids.size());
  message.ids_hash = hash_of(request_.ids);
  message.place = node_->place(*config_, nullptr);
  say(FrameKind::join, message.pack());
  if (hooks_.asked != nullptr) hooks_.asked();
  return {};
}

std::optional<Error> Joiner::root_trouble() {
  if (!link_ || !link_->closed()) return std::nullopt;
  root_lost_ = true;
  return fail(Code::remote_error,
              fmt::format("rank {} lost the connection with the root of the unique id ({}, {}); the process that made the id "
                          "must live until all ranks have joined",
                          request_.rank, id_.fixed.empty() ? fmt::format("process {}", id_.root.pid) : id_.fixed, link_->peer()),
              Scope::communicator);
}

Result<Reply> Joiner::hear(const Patience& patience) {
  Taken taken = lobby_->take(-1, 0, patience, [&] { return root_trouble(); });
  if (taken.how == Ended::failed) return std::move(taken.error);
  if (taken.how == Ended::message) {
    Reply reply = Reply::unpack(taken.message);
    if (reply.kind == Reply::Kind::failed) return text(reply.error);
    return reply;
  }
  if (taken.how == Ended::aborted) {
    return fail(Code::remote_error, fmt::format("aborted while rank {} waited for the other ranks to join", request_.rank),
                Scope::communicator);
  }
  return verdict();
}

/// The time is over: the root tells all ranks, us among them, who is missing.
Error Joiner::verdict() {
  const std::string limit = fmt::format("{:g} s", config_->seconds(Setting::init_timeout));
  Writer out;
  out.text(limit);
  say(FrameKind::expired, out.take());
  const Patience grace{patience_.abort, Deadline::in(kVerdictTime)};
  while (true) {
    Taken taken = lobby_->take(-1, 0, grace, [&] { return root_trouble(); });
    if (taken.how == Ended::failed) return std::move(taken.error);
    if (taken.how != Ended::message) break;
    Reply reply = Reply::unpack(taken.message);
    if (reply.kind == Reply::Kind::failed) return text(reply.error);
  }
  return fail(Code::remote_error,
              fmt::format("rank {} waited {} for the other ranks to join, and the root does not say who is missing",
                          request_.rank, limit),
              Scope::communicator);
}

/// The ranks are on several hosts: others need a TCP port of ours.
Result<> Joiner::listen() {
  if (!network_) {
    RONDE_TRY(network_, node_->network());
  }
  RONDE_TRY(listener_, node_->tcp(*network_));
  Writer out;
  pack(out, node_->place(*config_, listener_.get()));
  say(FrameKind::address, out.take());
  return {};
}

Result<std::unique_ptr<Bootstrap>> Joiner::enter(Reply hand_out) {
  RoomParts parts;
  parts.places.resize(static_cast<size_t>(request_.ranks));
  for (auto& [rank, place] : hand_out.neighbours) {
    if (rank >= 0 && rank < request_.ranks) parts.places[static_cast<size_t>(rank)] = std::move(place);
  }
  parts.places[static_cast<size_t>(request_.rank)] = node_->place(*config_, listener_.get());
  if (!hand_out.one_process && !network_) {
    RONDE_TRY(network_, node_->network());
  }
  parts.node = node_;
  if (!hand_out.one_process) parts.network = network_;
  parts.listener = listener_;
  parts.family = family_;
  parts.config = config_;
  parts.abort = patience_.abort;
  parts.unix_sockets = hooks_.unix_sockets;
  for (const Place& place : parts.places) {
    if (place.process != 0) family_->renew(place.process);
  }
  auto room = std::make_unique<Room>(std::move(parts), hand_out.token, request_.rank);
  room->set_deadline(patience_.deadline);
  // While the ranks introduce themselves the root still watches over all of them.
  RONDE_TRY(room->introduce([this]() -> std::optional<Error> {
    const std::optional<Bytes> message = lobby_->poll(-1, 0);
    if (!message) return std::nullopt;
    const Reply reply = Reply::unpack(*message);
    return reply.kind == Reply::Kind::failed ? std::optional<Error>(text(reply.error)) : std::nullopt;
  }));
  room->set_deadline(std::nullopt);
  say(FrameKind::done, {});
  return std::unique_ptr<Bootstrap>(std::move(room));
}

Result<std::unique_ptr<Bootstrap>> Joiner::attempt(bool* again) {
  *again = false;
  RONDE_TRY(find_root());
  RONDE_TRY(say_join());
  while (true) {
    Result<Reply> reply = hear(patience_);
    // At a fixed address it may have been the root of the communicator before that went.
    *again = !id_.fixed.empty() && (reply.ok() ? reply->kind == Reply::Kind::later : root_lost_);
    if (*again) return std::unique_ptr<Bootstrap>();
    if (!reply.ok()) return std::move(reply).error();
    if (reply->kind == Reply::Kind::hand_out) return enter(std::move(*reply));
    if (reply->kind == Reply::Kind::listen) {
      RONDE_TRY(listen());
    }
  }
}

Result<std::unique_ptr<Bootstrap>> Joiner::run() {
  RONDE_TRY(prepare());
  if (!id_.fixed.empty() && request_.rank == 0) {
    RONDE_TRY(host_root());
  }
  while (true) {
    bool again = false;
    Result<std::unique_ptr<Bootstrap>> result = attempt(&again);
    if (again) {
      root_.reset();
      link_.reset();
      root_lost_ = false;
      std::this_thread::sleep_for(kFixedPause);
      continue;
    }
    if (!result.ok()) {
      Writer out;
      out.text(result.error().what);
      say(FrameKind::give_up, out.take());
      return result;
    }
    for (size_t i = 1; i < request_.ids.size(); ++i) {
      const Result<IdInfo> spare = decode_id(request_.ids[i]);
      const auto root = spare.ok() ? ronde::find_root(public_id(spare->secret), spare->root.process) : nullptr;
      if (root) root->retire();
    }
    if ((*result)->rank() == 0)
      RONDE_INFO(bootstrap, "{} ranks have joined; rank 0 is connected by: {}", request_.ranks, (*result)->describe());
    return result;
  }
}

}  // namespace

Result<UniqueId> make_unique_id(const Config& config, const JoinHooks& hooks) {
  IdInfo info;
  info.version = RONDE_VERSION_CODE;
  info.protocol = kBootProtocol;
  info.fixed = config.text(Setting::comm_id);
  if (!info.fixed.empty()) {
    const Result<std::vector<Address>> addresses = parse_address(info.fixed);
    if (!addresses.ok()) return fail(addresses.code(), fmt::format("{}: {}", config.source(Setting::comm_id), addresses.error().what));
    info.secret = keyed_hash({}, "fixed address", std::as_bytes(std::span(info.fixed)));
    return encode_id(info);
  }
  RONDE_TRY(fill_random(std::as_writable_bytes(std::span(info.secret))));
  RONDE_TRY(const auto node, Node::get(hooks.player, config));
  RONDE_TRY(const auto network, node->network());
  RONDE_TRY(auto listener, node->tcp(*network));
  info.root = node->place(config, listener.get());
  const auto family = node->family(info.secret);
  auto root = std::make_shared<Root>(info.secret, node->process(), false);
  root->serve(family, network, {std::move(listener)});
  add_root(family->id(), node->process(), root);
  return encode_id(info);
}

Result<UniqueId> make_unique_id(const Config& config) { return make_unique_id(config, JoinHooks{}); }

Result<std::unique_ptr<Bootstrap>> join(const JoinRequest& request, std::shared_ptr<const Config> config, const AbortWord* abort,
                                        const JoinHooks& hooks) {
  Joiner joiner(request, std::move(config), abort, hooks);
  return joiner.run();
}

Result<std::unique_ptr<Bootstrap>> join(const JoinRequest& request, std::shared_ptr<const Config> config,
                                        const AbortWord* abort) {
  return join(request, std::move(config), abort, JoinHooks{});
}

}  // namespace ronde
