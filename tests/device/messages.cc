// Send and Recv on GPU ranks: groups, order, sizes, messages to oneself, and many of them.
#include "device/gpus.h"
#include "support/catch.h"

using namespace ronde::test;

namespace {

std::vector<std::byte> numbers(size_t count, int start) {
  return make_data(ncclInt32, count, [start](size_t i) { return start + static_cast<int>(i); });
}

/// Messages of one rank: buffers that live as long as this, and what the received ones must hold.
class Mail {
 public:
  Mail(ncclComm_t comm, cudaStream_t stream) : comm_(comm), stream_(stream) {}
  ncclResult_t send(int peer, size_t count, int start) {
    sent_.push_back(std::make_unique<GpuBuffer>(numbers(count, start)));
    return ncclSend(sent_.back()->at(), count, ncclInt32, peer, comm_, stream_);
  }
  ncclResult_t receive(int peer, size_t count, int start) {
    wanted_.push_back(numbers(count, start));
    received_.push_back(std::make_unique<GpuBuffer>(count * sizeof(int)));
    return ncclRecv(received_.back()->at(), count, ncclInt32, peer, comm_, stream_);
  }
  std::string check() const {
    RONDE_NO_COMPLAINT(GpuStream::finish_stream(stream_));
    for (size_t i = 0; i < wanted_.size(); ++i) {
      RONDE_NO_COMPLAINT(compare(("message " + std::to_string(i)).c_str(), received_[i]->get(), wanted_[i], sizeof(int)));
    }
    return "";
  }

 private:
  ncclComm_t comm_;
  cudaStream_t stream_;
  std::vector<std::unique_ptr<GpuBuffer>> sent_, received_;
  std::vector<std::vector<std::byte>> wanted_;
};

/// To every rank, oneself too, and from every rank, of a size that depends on both.
size_t size_between(int from, int to) { return static_cast<size_t>((from * 7 + to * 3) % 5) * 1111; }
int start_of(int from, int to) { return from * 1000 + to * 10; }

}  // namespace

TEST_CASE("an all-to-all by messages, of unequal sizes, zero and oneself included", "[device][messages]") {
  RONDE_NEED_GPUS();
  constexpr int kRanks = 8;
  const ScopedEnv env({{"RONDE_BUFFSIZE", "8192"}});
  REQUIRE(run_gpus(kRanks, [](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            Mail mail(comm, stream);
            RONDE_RANK_OK(ncclGroupStart());
            for (int peer = 0; peer < kRanks; ++peer) {
              RONDE_RANK_OK(mail.send(peer, size_between(rank, peer), start_of(rank, peer)));
              RONDE_RANK_OK(mail.receive(peer, size_between(peer, rank), start_of(peer, rank)));
            }
            RONDE_RANK_OK(ncclGroupEnd());
            return mail.check();
          }) == "");
}

TEST_CASE("an all-to-all by messages from one thread, several ranks on a GPU", "[device][messages][group]") {
  RONDE_NEED_GPUS();
  const auto [ranks, gpus] = GENERATE(std::pair(4, 4), std::pair(8, 2), std::pair(6, 1));
  INFO(ranks << " ranks on " << gpus << " GPUs");
  GpuTeam team(ranks, gpus);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Mail>> mails;
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int rank = 0; rank < ranks; ++rank) {
      team.on(rank);
      const auto r = static_cast<size_t>(rank);
      Mail& mail = *mails.emplace_back(std::make_unique<Mail>(team.comms[r], team.streams[r]->get()));
      for (int peer = 0; peer < ranks; ++peer) {
        REQUIRE(mail.send(peer, size_between(rank, peer), start_of(rank, peer) + round) == ncclSuccess);
        REQUIRE(mail.receive(peer, size_between(peer, rank), start_of(peer, rank) + round) == ncclSuccess);
      }
    }
    REQUIRE(check_code("ncclGroupEnd", ncclGroupEnd()) == "");
    REQUIRE(team.finish() == "");
    for (const auto& mail : mails) REQUIRE(mail->check() == "");
  }
}

TEST_CASE("many messages of a pair in one group arrive in the order of issue", "[device][messages]") {
  RONDE_NEED_GPUS();
  const int messages = GENERATE(2, 17, 700);
  REQUIRE(run_gpus(2, [messages](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            for (int round = 0; round < 2; ++round) {
              Mail mail(comm, stream);
              RONDE_RANK_OK(ncclGroupStart());
              for (int i = 0; i < messages; ++i) {
                RONDE_RANK_OK(mail.send(1 - rank, static_cast<size_t>(i % 5), i + rank + round));
                RONDE_RANK_OK(mail.receive(1 - rank, static_cast<size_t>(i % 5), i + 1 - rank + round));
              }
              RONDE_RANK_OK(ncclGroupEnd());
              RONDE_NO_COMPLAINT(mail.check());
            }
            return "";
          }) == "");
}

TEST_CASE("more messages than one kernel takes are an error that says so", "[device][messages]") {
  RONDE_NEED_GPUS();
  REQUIRE(run_gpus(1, [](ncclComm_t comm, int, cudaStream_t stream) -> std::string {
            RONDE_RANK_OK(ncclGroupStart());
            for (int i = 0; i < 70'000; ++i) {
              RONDE_RANK_OK(ncclSend(nullptr, 0, ncclInt32, 0, comm, stream));
              RONDE_RANK_OK(ncclRecv(nullptr, 0, ncclInt32, 0, comm, stream));
            }
            RONDE_NO_COMPLAINT(check_code("ncclGroupEnd", ncclGroupEnd(), ncclInvalidUsage));
            const std::string text = ncclGetLastError(nullptr);
            RONDE_RANK_OK(ncclCommAbort(comm));
            return contains(text, "use several groups") ? "" : text;
          }, false) == "");
}

TEST_CASE("a group's messages need not be grouped alike on both sides", "[device][messages]") {
  RONDE_NEED_GPUS();
  // Rank 0's group ends only when rank 1 has come to its third call, for which its first two must have ended.
  REQUIRE(run_gpus(2, [](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            Mail mail(comm, stream);
            constexpr size_t kCount = 500'000;  // more than the slots hold
            if (rank == 0) RONDE_RANK_OK(ncclGroupStart());
            for (int i = 0; i < 2; ++i) RONDE_RANK_OK(rank == 0 ? mail.send(1, kCount, i) : mail.receive(0, kCount, i));
            RONDE_RANK_OK(rank == 0 ? mail.receive(1, kCount, 7) : mail.send(0, kCount, 7));
            if (rank == 0) RONDE_RANK_OK(ncclGroupEnd());
            return mail.check();
          }) == "");
}

TEST_CASE("messages and collectives follow each other in the order of issue", "[device][messages]") {
  RONDE_NEED_GPUS();
  REQUIRE(run_gpus(4, [](ncclComm_t comm, int rank, cudaStream_t stream) -> std::string {
            Mail mail(comm, stream);
            GpuBuffer one(numbers(1, 1)), sum(sizeof(int));
            for (int i = 0; i < 10; ++i) {
              RONDE_RANK_OK(ncclGroupStart());
              RONDE_RANK_OK(mail.send((rank + 1) % 4, static_cast<size_t>(i * 100), i + rank));
              RONDE_RANK_OK(mail.receive((rank + 3) % 4, static_cast<size_t>(i * 100), i + (rank + 3) % 4));
              if (i % 2 == 0) RONDE_RANK_OK(ncclAllReduce(one.at(), sum.at(), 1, ncclInt32, ncclSum, comm, stream));
              RONDE_RANK_OK(ncclGroupEnd());
              RONDE_RANK_OK(ncclAllReduce(one.at(), sum.at(), 1, ncclInt32, ncclSum, comm, stream));
            }
            RONDE_NO_COMPLAINT(mail.check());
            return compare("the sum", sum.get(), numbers(1, 4), sizeof(int));
          }) == "");
}
