#include "bench/job.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>

#include "bench/failure.h"

namespace ronde::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// What a process says first.
struct Hello {
  char magic[8];
  uint32_t rank;
  uint32_t size;
  char program[48];
};
constexpr char kMagic[8] = {'r', 'n', 'd', 'b', 'n', 'c', 'h', '1'};

enum class Kind : uint32_t { data = 0x44415441, error = 0x4552524f };
struct Header {
  uint32_t kind;
  uint32_t bytes;
};
constexpr uint32_t kMaxFrame = 1 << 28;

/// A wait that ran out of time, or a peer that is gone: who it was is known to the caller.
struct Gone {
  bool timed_out;
  std::string why;
};

int poll_left(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3600 * 1000));
}

void wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int ready = poll(&one, 1, poll_left(deadline));
    if (ready > 0) return;
    if (ready == 0 && Clock::now() >= deadline) throw Gone{true, "no answer in time"};
    if (ready < 0 && errno != EINTR) throw Gone{false, std::strerror(errno)};
  }
}

void read_all(int fd, void* data, size_t bytes, Clock::time_point deadline) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(fd, at, bytes, MSG_DONTWAIT);
    if (got == 0) throw Gone{false, "the connection was closed"};
    if (got < 0 && errno == EAGAIN) {
      wait_for(fd, POLLIN, deadline);
    } else if (got < 0 && errno != EINTR) {
      throw Gone{false, std::strerror(errno)};
    } else if (got > 0) {
      at += got;
      bytes -= static_cast<size_t>(got);
    }
  }
}

void write_all(int fd, const void* data, size_t bytes, Clock::time_point deadline) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno == EAGAIN) {
      wait_for(fd, POLLOUT, deadline);
    } else if (put < 0 && errno != EINTR) {
      throw Gone{false, std::strerror(errno)};
    } else if (put > 0) {
      at += put;
      bytes -= static_cast<size_t>(put);
    }
  }
}

void write_frame(int fd, Kind kind, const std::string& text, Clock::time_point deadline) {
  const Header header{static_cast<uint32_t>(kind), static_cast<uint32_t>(text.size())};
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += text;
  write_all(fd, frame.data(), frame.size(), deadline);
}

/// Throws TestFailure with the hub's words for an error frame.
std::string read_frame(int fd, Clock::time_point deadline) {
  Header header{};
  read_all(fd, &header, sizeof header, deadline);
  if (header.bytes > kMaxFrame) throw Gone{false, "it sent something that is no message of a benchmark"};
  std::string text(header.bytes, '\0');
  read_all(fd, text.data(), text.size(), deadline);
  if (header.kind == static_cast<uint32_t>(Kind::error)) {
    throw TestFailure(text[0] == 'T' ? Exit::timeout : Exit::internal, text.substr(1));
  }
  return text;
}

std::string packed(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) {
    const auto bytes = static_cast<uint32_t>(text.size());
    all.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
    all += text;
  }
  return all;
}

std::vector<std::string> unpacked(const std::string& all) {
  std::vector<std::string> texts;
  for (size_t at = 0; at + sizeof(uint32_t) <= all.size();) {
    uint32_t bytes = 0;
    std::memcpy(&bytes, all.data() + at, sizeof bytes);
    texts.push_back(all.substr(at + sizeof bytes, bytes));
    at += sizeof bytes + bytes;
  }
  return texts;
}

std::string place_text(const MeetingPlace& place) {
  return place.host.empty() ? fmt::format("the local name {}", place.name) : fmt::format("{} port {}", place.host, place.port);
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// The addresses of a meeting place; an abstract unix name has one and leaves nothing behind.
std::vector<Address> addresses_of(const MeetingPlace& place) {
  if (place.host.empty()) {
    Address address;
    auto* local = reinterpret_cast<sockaddr_un*>(&address.storage);
    local->sun_family = AF_UNIX;
    std::memcpy(local->sun_path + 1, place.name.data(), std::min(place.name.size(), sizeof local->sun_path - 1));
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + place.name.size());
    return {address};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints, &list);
  if (status != 0) {
    throw TestFailure(Exit::invalid_usage,
                      fmt::format("cannot resolve the meeting place's host '{}': {} (MASTER_ADDR or NCCL_COMM_ID names it)",
                                  place.host, gai_strerror(status)));
  }
  std::vector<Address> addresses;
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    Address address;
    std::memcpy(&address.storage, info->ai_addr, info->ai_addrlen);
    address.length = info->ai_addrlen;
    addresses.push_back(address);
  }
  freeaddrinfo(list);
  return addresses;
}

/// Only processes of the same user may meet at a local name, which anybody could take.
bool same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == getuid();
}

/// An unconnected socket of the address's family.
Descriptor open_socket(const Address& address, int flags = 0) {
  return Descriptor(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

std::optional<Descriptor> try_listen(const MeetingPlace& place, int backlog) {
  for (const Address& address : addresses_of(place)) {
    Descriptor fd = open_socket(address, SOCK_NONBLOCK);
    if (!fd.valid()) continue;
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd.get(), address.get(), address.length) == 0 && listen(fd.get(), backlog) == 0) return fd;
  }
  return std::nullopt;
}

std::optional<Descriptor> try_connect(const MeetingPlace& place) {
  for (const Address& address : addresses_of(place)) {
    Descriptor fd = open_socket(address);
    if (!fd.valid() || connect(fd.get(), address.get(), address.length) != 0) continue;
    if (place.host.empty() && !same_user(fd.get())) continue;
    return fd;
  }
  return std::nullopt;
}

/// Says that no more will come and reads until the other end closes, or `deadline`.
void drain(int fd, Clock::time_point deadline) {
  shutdown(fd, SHUT_WR);
  try {
    char nothing = 0;
    for (;;) read_all(fd, &nothing, 1, deadline);
  } catch (const Gone&) {
    return;
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

/// How the processes of a job find each other.
class Meeting {
 public:
  Meeting(const Launch& launch, const std::string& program, Milliseconds patience)
      : launch_(launch),
        program_(program),
        patience_(patience),
        deadline_(Clock::now() + patience),
        job_(new Job(launch.rank, launch.size)) {}

  std::unique_ptr<Job> hold() {
    if (launch_.size > 1 && launch_.rank == 0) receive_all();
    if (launch_.size > 1 && launch_.rank > 0) come();
    return std::move(job_);
  }

 private:
  struct Guest {
    Descriptor fd;
    Clock::time_point deadline;
    std::string said;
  };

  double seconds() const { return std::chrono::duration<double>(patience_).count(); }

  void come() {
    for (;;) {
      auto fd = try_connect(launch_.place);
      if (fd) {
        job_->peers_.push_back(std::move(*fd));
        break;
      }
      if (Clock::now() >= deadline_) {
        throw TestFailure(Exit::timeout,
                          fmt::format("rank {}: rank 0 of the job's {} processes was not at {} within {:g} s; are all of them "
                                      "started, by one launcher ({})?",
                                      launch_.rank, launch_.size, place_text(launch_.place), seconds(), launch_.launcher));
      }
      std::this_thread::sleep_for(Milliseconds(10));
    }
    Hello hello{};
    std::memcpy(hello.magic, kMagic, sizeof kMagic);
    hello.rank = static_cast<uint32_t>(launch_.rank);
    hello.size = static_cast<uint32_t>(launch_.size);
    program_.copy(hello.program, sizeof hello.program - 1);
    try {
      // The hub waits as long for the others, and says so itself where one does not come.
      const auto answer_by = deadline_ + std::chrono::seconds(10) + patience_;
      write_all(job_->peers_[0].get(), &hello, sizeof hello, answer_by);
      read_frame(job_->peers_[0].get(), answer_by);
    } catch (const Gone& gone) {
      throw TestFailure(gone.timed_out ? Exit::timeout : Exit::internal,
                        fmt::format("rank {}: meeting rank 0 at {}: {}", launch_.rank, place_text(launch_.place), gone.why));
    }
  }

  void receive_all() {
    job_->peers_.resize(static_cast<size_t>(launch_.size));
    auto listener = listen_there();
    while (!missing().empty()) {
      wait_a_while(listener);
      for (;;) {
        const int fd = accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) break;
        Guest guest{Descriptor(fd), Clock::now() + std::chrono::seconds(10), ""};
        if (!launch_.place.host.empty() || same_user(fd)) guests_.push_back(std::move(guest));
      }
      for (Guest& guest : guests_) hear(guest);
      std::erase_if(guests_, [](const Guest& guest) { return !guest.fd.valid() || Clock::now() > guest.deadline; });
      if (const auto who = missing(); !who.empty() && Clock::now() >= deadline_) {
        job_->fail_all(fmt::format("{} of {} did not come to {} within {:g} s; are all of them started, by one launcher ({})?",
                                   ranks_text(who), launch_.size, place_text(launch_.place), seconds(), launch_.launcher),
                       true);
      }
    }
    for (size_t r = 1; r < job_->peers_.size(); ++r) write_frame(job_->peers_[r].get(), Kind::data, "", deadline_);
  }

  Descriptor listen_there() {
    for (;;) {
      if (auto fd = try_listen(launch_.place, std::max(launch_.size, 16))) return std::move(*fd);
      const int error = errno;
      if (error != EADDRINUSE || Clock::now() >= deadline_) {
        throw TestFailure(
            Exit::internal,
            fmt::format("rank 0 cannot listen at {}: {} (errno {}); another job may be meeting there: give this one "
                        "an address of its own (MASTER_ADDR, MASTER_PORT)",
                        place_text(launch_.place), std::strerror(error), error));
      }
      std::this_thread::sleep_for(Milliseconds(10));
    }
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int r = 1; r < launch_.size; ++r) {
      if (!job_->peers_[static_cast<size_t>(r)].valid()) ranks.push_back(r);
    }
    return ranks;
  }

  /// Until somebody connects or speaks, one who has come leaves again, or a second is over.
  void wait_a_while(const Descriptor& listener) {
    std::vector<pollfd> fds = {{listener.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) fds.push_back({guest.fd.get(), POLLIN, 0});
    const size_t first_known = fds.size();
    std::vector<int> ranks;
    for (int r = 1; r < launch_.size; ++r) {
      if (!job_->peers_[static_cast<size_t>(r)].valid()) continue;
      fds.push_back({job_->peers_[static_cast<size_t>(r)].get(), POLLRDHUP, 0});
      ranks.push_back(r);
    }
    poll(fds.data(), fds.size(), std::min(1000, poll_left(deadline_)));
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (fds[first_known + i].revents != 0) {
        job_->fail_all(fmt::format("the process of rank {} ended while {} had not come yet", ranks[i], ranks_text(missing())),
                       false);
      }
    }
  }

  void hear(Guest& guest) {
    Hello hello{};
    char buffer[sizeof hello];
    const ssize_t got = recv(guest.fd.get(), buffer, sizeof hello - guest.said.size(), MSG_DONTWAIT);
    if (got < 0) return;
    if (got == 0) {
      guest.fd = Descriptor();
      return;
    }
    guest.said.append(buffer, static_cast<size_t>(got));
    if (guest.said.size() < sizeof hello) return;
    std::memcpy(&hello, guest.said.data(), sizeof hello);
    hello.program[sizeof hello.program - 1] = '\0';
    if (std::memcmp(hello.magic, kMagic, sizeof kMagic) == 0) admit(hello, guest);
    guest.fd = Descriptor();
  }

  void admit(const Hello& hello, Guest& guest) {
    const auto refuse = [&](const std::string& why) {
      const auto soon = Clock::now() + std::chrono::seconds(1);
      write_frame(guest.fd.get(), Kind::error, "I" + why, soon);
      job_->fail_all(why, false);
    };
    if (static_cast<int>(hello.size) != launch_.size) {
      refuse(fmt::format("rank {} counts {} processes in the job, rank 0 counts {}", hello.rank, hello.size, launch_.size));
    }
    if (hello.rank == 0 || static_cast<int>(hello.rank) >= launch_.size || job_->peers_[hello.rank].valid()) {
      refuse(fmt::format("two processes claim rank {} of the job; each needs a rank of its own", hello.rank));
    }
    if (program_ != hello.program) {
      refuse(fmt::format("rank {} runs {}, rank 0 runs {}; all processes of a job run one program", hello.rank, hello.program,
                         program_));
    }
    job_->peers_[hello.rank] = std::move(guest.fd);
  }

  const Launch& launch_;
  const std::string& program_;
  Milliseconds patience_;
  Clock::time_point deadline_;
  std::unique_ptr<Job> job_;
  std::vector<Guest> guests_;
};

std::unique_ptr<Job> Job::join(const Launch& launch, const std::string& program, Milliseconds patience) {
  return Meeting(launch, program, patience).hold();
}

void Job::fail_all(const std::string& why, bool timed_out) {
  const auto soon = Clock::now() + std::chrono::seconds(1);
  for (const Descriptor& peer : peers_) {
    if (!peer.valid()) continue;
    try {
      write_frame(peer.get(), Kind::error, (timed_out ? "T" : "I") + why, soon);
    } catch (const Gone&) {
      continue;  // it is the one that is gone, or another
    }
  }
  // Closing a connection with something unread in it could take the words back.
  for (const Descriptor& peer : peers_) {
    if (peer.valid()) drain(peer.get(), soon);
  }
  throw TestFailure(timed_out ? Exit::timeout : Exit::internal, why);
}

void Job::gather_at_hub(std::vector<std::string>& texts) {
  const auto deadline = Clock::now() + patience_;
  std::vector<int> waiting;
  for (int r = 1; r < size_; ++r) waiting.push_back(r);
  while (!waiting.empty()) {
    std::vector<pollfd> fds;
    for (const int r : waiting) fds.push_back({peers_[static_cast<size_t>(r)].get(), POLLIN, 0});
    poll(fds.data(), fds.size(), poll_left(deadline));
    std::vector<int> still;
    for (size_t i = 0; i < fds.size(); ++i) {
      const int r = waiting[i];
      if (fds[i].revents == 0) {
        still.push_back(r);
        continue;
      }
      try {
        texts[static_cast<size_t>(r)] = read_frame(fds[i].fd, deadline);
      } catch (const Gone& gone) {
        peers_[static_cast<size_t>(r)] = Descriptor();
        fail_all(fmt::format("the process of rank {} has left the job ({}); its own output says why", r, gone.why), false);
      }
    }
    waiting = still;
    if (!waiting.empty() && Clock::now() >= deadline) {
      fail_all(fmt::format("{} of {} did not reach the barrier within {:g} s", ranks_text(waiting), size_,
                           std::chrono::duration<double>(patience_).count()),
               true);
    }
  }
}

std::vector<std::string> Job::all_gather(const std::string& mine) {
  if (size_ == 1) return {mine};
  if (rank_ == 0) {
    std::vector<std::string> texts(static_cast<size_t>(size_));
    texts[0] = mine;
    gather_at_hub(texts);
    const std::string all = packed(texts);
    const auto deadline = Clock::now() + patience_;
    for (int r = 1; r < size_; ++r) {
      try {
        write_frame(peers_[static_cast<size_t>(r)].get(), Kind::data, all, deadline);
      } catch (const Gone& gone) {
        peers_[static_cast<size_t>(r)] = Descriptor();
        fail_all(fmt::format("the process of rank {} has left the job ({}); its own output says why", r, gone.why), false);
      }
    }
    return texts;
  }
  try {
    // Longer than the hub waits, so that its error, which names the missing, comes first.
    const auto deadline = Clock::now() + patience_ + std::chrono::seconds(10);
    try {
      write_frame(peers_[0].get(), Kind::data, mine, deadline);
    } catch (const Gone&) {
      // A hub that has given up may have said why before it closed: read on.
    }
    return unpacked(read_frame(peers_[0].get(), deadline));
  } catch (const Gone& gone) {
    throw TestFailure(
        gone.timed_out ? Exit::timeout : Exit::internal,
        fmt::format("rank {}: the process of rank 0 has left the job ({}); its own output says why", rank_, gone.why));
  }
}

void Job::barrier() { all_gather(""); }

}  // namespace ronde::bench
