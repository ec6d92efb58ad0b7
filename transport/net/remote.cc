#include "transport/net/remote.h"

#include <array>
#include <cstring>

#include <fmt/core.h>

#include "base/lists.h"

namespace ronde::net {
namespace {

class Remote final : public PeerEnd {
 public:
  explicit Remote(const PeerRequest& request)
      : station_(request.station), rank_(request.rank), peer_(request.peer), shape_(request.mine->shape), near_(same_host(*request.mine, *request.theirs)), route_(fmt::format("NET/{}", station_->net().name())) {
    for (const Device& device : station_->net().devices()) gathers_ = gathers_ && device.gathers;
  }

  Result<> map(const PeerAddress&, const WaitLimit&) override {
    RONDE_TRY(mirror_, Arena::mirror(shape_, rank_));
    station_->attach(peer_, mirror_);
    return {};
  }

  Arena& arena() const override { return *mirror_; }
  Bell* bells() const override { return own_bells(); }

  // The lender's own proxy reads it.
  bool lend(const void* data, size_t, Loan* loan) override {
    *loan = Loan{reinterpret_cast<uint64_t>(data), 0};
    return gathers_;
  }
  // A peer of another host lends nothing: its slots come with their data.
  const std::byte* reach(const Loan&, size_t) override { return nullptr; }
  Result<> fetch(const Loan&, void*, size_t) override {
    return fail(Code::internal_error, "a slot from another host names memory that is not of this host", Scope::communicator);
  }
  bool alive() const override { return station_->alive(peer_); }
  bool reads_in_place() const override { return true; }
  std::string describe() const override {
    std::string devices;
    for (const Device& device : station_->net().devices()) devices += (devices.empty() ? "" : ", ") + device.name;
    return fmt::format("{}; {} on {}", near_ ? "no memory is shared" : "another host", station_->net().name(), devices);
  }
  std::string_view route() const override { return route_; }
  Result<> opened(int link) override { return station_->open(peer_, link); }
  void ring() override { station_->nudge(peer_); }
  void cut() noexcept override { station_->cut(); }

 private:
  std::shared_ptr<Station> station_;
  int rank_;
  int peer_;
  ArenaShape shape_;
  bool near_;  // on this host, but without a way to share memory
  std::string route_;
  bool gathers_ = true;
  std::shared_ptr<Arena> mirror_;
};

class Network final : public Transport {
 public:
  std::string_view name() const override { return "net"; }
  std::string refusal(int, const PeerInfo&, int, const PeerInfo&) const override { return ""; }
  Result<std::unique_ptr<PeerEnd>> open(const PeerRequest& request) const override { return std::unique_ptr<PeerEnd>(new Remote(request)); }
};

struct NetName {
  Code code = Code::success;
  std::array<char, 252> name{};
};

}  // namespace

const Transport& transport() {
  static const Network* one = new Network;
  return *one;
}

bool needed(const std::vector<PeerInfo>& infos) {
  bool hosts = false, processes = false, without_shm = false;
  for (const PeerInfo& info : infos) {
    hosts |= !same_host(info, infos[0]);
    processes |= info.process != infos[0].process;
    without_shm |= info.shm_disabled != 0;
  }
  return hosts || (processes && without_shm);
}

Result<std::shared_ptr<Net>> choose_net(Bootstrap& bootstrap, const Config& config) {
  Result<std::shared_ptr<Net>> mine = open_net(config, bootstrap.token()[0]);
  std::vector<NetName> names(static_cast<size_t>(bootstrap.size()));
  NetName& own = names[static_cast<size_t>(bootstrap.rank())];
  own.code = mine.code();
  const std::string text = mine.ok() ? std::string((*mine)->name()) : mine.error().what;
  strncpy(own.name.data(), text.c_str(), own.name.size() - 1);
  RONDE_TRY(bootstrap.all_gather(std::as_writable_bytes(std::span(names))));
  RONDE_TRY(std::shared_ptr<Net> net, std::move(mine));
  std::vector<int> others;
  const NetName* other = nullptr;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    if (names[rank].code != Code::success) {
      return fail(Code::remote_error, fmt::format("rank {} has no network to reach other hosts: {}", rank, names[rank].name.data()), Scope::communicator);
    }
    if (names[rank].name == names[0].name) continue;
    others.push_back(static_cast<int>(rank));
    other = &names[rank];
  }
  if (other == nullptr) return net;
  return fail(Code::invalid_usage, fmt::format("rank 0 would use the network {} and {} {}; set RONDE_NET to one that all hosts have", names[0].name.data(),
                                               rank_list(others), other->name.data()), Scope::communicator);
}

}  // namespace ronde::net
