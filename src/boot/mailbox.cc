#include "boot/mailbox.h"

#include <fmt/core.h>
#include <algorithm>
#include <chrono>

namespace ronde {

void Mailbox::put(int from, uint64_t tag, Bytes message) {
  {
    const std::lock_guard lock(mutex_);
    mail_[{from, tag}].push_back(std::move(message));
    ++version_;
  }
  changed_.notify_all();
}

void Mailbox::poison(uint64_t exchange, Error error) {
  {
    const std::lock_guard lock(mutex_);
    poison_.emplace(exchange, std::move(error));
    ++version_;
  }
  changed_.notify_all();
}

std::optional<Error> Mailbox::poisoned(uint64_t exchange) {
  const std::lock_guard lock(mutex_);
  const auto at = poison_.find(exchange);
  return at == poison_.end() ? std::nullopt : std::optional(at->second);
}

std::map<uint64_t, Error> Mailbox::poison() {
  const std::lock_guard lock(mutex_);
  return poison_;
}

void Mailbox::leave(int from) {
  posts_.leave(from);
  {
    const std::lock_guard lock(mutex_);
    left_.insert(from);
    ++version_;
  }
  changed_.notify_all();
}

void Mailbox::touch() {
  {
    const std::lock_guard lock(mutex_);
    ++version_;
  }
  changed_.notify_all();
}

bool Mailbox::pop(int from, uint64_t tag, Bytes* out) {
  const auto at = mail_.find({from, tag});
  if (at == mail_.end()) return false;
  *out = std::move(at->second.front());
  at->second.pop_front();
  if (at->second.empty()) mail_.erase(at);
  return true;
}

std::optional<Bytes> Mailbox::poll(int from, uint64_t tag) {
  const std::lock_guard lock(mutex_);
  Bytes message;
  return pop(from, tag, &message) ? std::optional(std::move(message)) : std::nullopt;
}

Taken Mailbox::take(int from, uint64_t tag, const Patience& patience, const std::function<std::optional<Error>()>& trouble) {
  Taken taken;
  std::unique_lock lock(mutex_);
  while (true) {
    if (pop(from, tag, &taken.message)) {
      taken.how = Ended::message;
      return taken;
    }
    std::optional<Error> problem;
    if (const auto at = poison_.find(exchange_of(tag)); at != poison_.end()) problem = at->second;
    if (!problem && left_.count(from) != 0) problem = fail(Code::remote_error, fmt::format("rank {} has left", from));
    const uint64_t seen = version_;
    lock.unlock();
    if (!problem) problem = trouble();
    lock.lock();
    // What a peer sent before it failed counts: look once more before giving up.
    if (version_ != seen) continue;
    if (problem) {
      taken.how = Ended::failed;
      taken.error = *std::move(problem);
      return taken;
    }
    if (patience.aborted() || patience.deadline.passed()) {
      taken.how = patience.aborted() ? Ended::aborted : Ended::expired;
      return taken;
    }
    changed_.wait_for(lock, std::chrono::milliseconds(std::max(1, patience.deadline.left_ms(kSliceMs))),
                      [&] { return version_ != seen; });
  }
}

}  // namespace ronde
