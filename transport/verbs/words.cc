#include "transport/verbs/words.h"

#include <sys/resource.h>

#include <fmt/core.h>

namespace ronde::net {
namespace {

struct Meaning {
  const char* name;
  const char* what;
  const char* causes;
};

constexpr const char* kBug =
    "this is an error in this library or in the adapter's driver; please report it with the log of both hosts";
constexpr const char* kUnreached =
    "the peer's process or host may have died, the link or a switch may be down, a firewall may drop UDP port 4791 (RoCE), or "
    "the two "
    "ports may have no way to each other (see the GIDs; NCCL_IB_GID_INDEX, NCCL_IB_HCA); for long pauses of a lossy network "
    "raise "
    "NCCL_IB_TIMEOUT";

Meaning meaning_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return {"RETRY_EXC_ERR", "the peer's adapter has not acknowledged it, however often it was sent", kUnreached};
    case IBV_WC_RESP_TIMEOUT_ERR:
      return {"RESP_TIMEOUT_ERR", "the peer's adapter has not answered in time", kUnreached};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {"RNR_RETRY_EXC_ERR", "the peer had no receive request for it",
              "the peer is of another build of this library, or its queue pair has failed"};
    case IBV_WC_WR_FLUSH_ERR:
      return {"WR_FLUSH_ERR", "the queue pair has failed before it was its turn",
              "an earlier error or an event of the adapter (see the log), or the peer has closed the connection"};
    case IBV_WC_LOC_QP_OP_ERR:
      return {"LOC_QP_OP_ERR", "the own adapter could not send it",
              "the own link may be down, or its address or route may have gone"};
    case IBV_WC_REM_INV_REQ_ERR:
      return {"REM_INV_REQ_ERR", "the peer's adapter refused the request", "the peer's queue pair has failed or been closed"};
    case IBV_WC_REM_OP_ERR:
      return {"REM_OP_ERR", "the peer's adapter could not carry it out", "see the log of the peer, and its kernel's"};
    case IBV_WC_REM_ABORT_ERR:
      return {"REM_ABORT_ERR", "the peer's adapter has given it up", "see the log of the peer, and its kernel's"};
    case IBV_WC_REM_ACCESS_ERR:
      return {"REM_ACCESS_ERR", "the peer's memory may not be written there",
              "the peer has unregistered it, or is of another build of this library"};
    case IBV_WC_FATAL_ERR:
      return {"FATAL_ERR", "the own adapter has failed", "see the kernel's log"};
    case IBV_WC_LOC_PROT_ERR:
      return {"LOC_PROT_ERR", "the own memory is not registered for it", kBug};
    case IBV_WC_LOC_LEN_ERR:
      return {"LOC_LEN_ERR", "its length does not fit", kBug};
    case IBV_WC_LOC_ACCESS_ERR:
      return {"LOC_ACCESS_ERR", "the own memory may not be written", kBug};
    case IBV_WC_BAD_RESP_ERR:
      return {"BAD_RESP_ERR", "the answer of the peer's adapter makes no sense", kBug};
    default:
      return {"another error", "the adapter gives no reason", "see the kernel's log"};
  }
}

const char* state_word(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN:
      return "down";
    case IBV_PORT_INIT:
      return "initialising (no subnet manager has taken it up)";
    case IBV_PORT_ARMED:
      return "armed (the subnet manager has not made it active)";
    case IBV_PORT_ACTIVE:
      return "active";
    case IBV_PORT_ACTIVE_DEFER:
      return "active, but without its link";
    default:
      return "in an unknown state";
  }
}

}  // namespace

double link_gbps(uint8_t width, uint8_t speed) {
  int lanes = 0;
  switch (width) {
    case 1:
      lanes = 1;
      break;
    case 2:
      lanes = 4;
      break;
    case 4:
      lanes = 8;
      break;
    case 8:
      lanes = 12;
      break;
    case 16:
      lanes = 2;
      break;
    default:
      break;
  }
  switch (speed) {
    case 1:
      return lanes * 2.5;
    case 2:
      return lanes * 5.0;
    case 4:
    case 8:
      return lanes * 10.0;
    case 16:
      return lanes * 14.0;
    case 32:
      return lanes * 25.0;
    case 64:
      return lanes * 50.0;
    case 128:
      return lanes * 100.0;
    default:
      return 0;
  }
}

std::string port_text(const ibv_port_attr& attributes) {
  if (attributes.state != IBV_PORT_ACTIVE) return state_word(attributes.state);
  const double gbps = link_gbps(attributes.active_width, attributes.active_speed);
  return fmt::format("active, {}{}, MTU {}", gbps > 0 ? fmt::format("{:g} Gbit/s, ", gbps) : "",
                     attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand", 128 << attributes.active_mtu);
}

std::string failure_text(const Failure& failure) {
  const Meaning meaning = meaning_of(failure.status);
  return fmt::format("{} from {} to {}: {} ({}, status {}, vendor code {}); the own port is {}; {}", failure.attempted,
                     failure.here, failure.there, meaning.what, meaning.name, static_cast<int>(failure.status), failure.vendor,
                     failure.port, meaning.causes);
}

bool may_pass_later(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return true;
    default:
      return false;
  }
}

std::string memlock_advice() {
  rlimit limit{};
  std::string now = "not known";
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    now = limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} KiB", limit.rlim_cur / 1024);
  return fmt::format(
      "the limit of locked memory (`ulimit -l`) is {}; raise it: \"* - memlock unlimited\" in /etc/security/limits.conf, "
      "LimitMEMLOCK=infinity of a service, --ulimit memlock=-1 of a container",
      now);
}

}  // namespace ronde::net
