#include "bench/job.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
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

}  // namespace

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < ranks.size(); ++i) text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
  return text;
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

  /// Where and how long, and what may be the matter.
  std::string in_time() const {
    return fmt::format(
        "{} within {:g} s; are all of them started, by one launcher ({})? Where each has a parent of its own, set MASTER_ADDR "
        "and "
        "MASTER_PORT",
        place_text(launch_.place), std::chrono::duration<double>(patience_).count(), launch_.launcher);
  }

  void come() {
    for (;;) {
      auto fd = try_connect(launch_.place);
      if (fd) {
        job_->peers_.push_back(std::move(*fd));
        break;
      }
      if (Clock::now() >= deadline_) {
        throw TestFailure(Exit::timeout, fmt::format("rank {}: rank 0 of the job's {} processes was not at {}", launch_.rank,
                                                     launch_.size, in_time()));
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
        job_->fail_all(fmt::format("{} of {} did not come to {}", ranks_text(who), launch_.size, in_time()), true);
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
