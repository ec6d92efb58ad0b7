// What the state of ports and the completions of work requests mean, in words.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

namespace ronde::net {

/// "active, 100 Gbit/s, Ethernet, MTU 4096"; "down".
std::string port_text(const ibv_port_attr& attributes);

/// Speed of a link in Gbit/s in each direction: lanes times the rate of one; 0 where a code is not known.
double link_gbps(uint8_t width, uint8_t speed);

/// A work request that did not succeed.
struct Failure {
  ibv_wc_status status = IBV_WC_GENERAL_ERR;
  uint32_t vendor = 0;    ///< the adapter's own code
  std::string attempted;  ///< "sending message 7"
  std::string here;       ///< "mlx5_0:1 (10.0.0.1, GID 3), queue pair 17"
  std::string there;
  std::string port;  ///< of the own port, as port_text
};
/// A sentence with both ends, the state of the own port and what may be the cause.
std::string failure_text(const Failure& failure);

/// True where the same may succeed over new queue pairs: the link or the peer's queue pair has failed, not the request.
bool may_pass_later(ibv_wc_status status);

/// What to do where memory cannot be locked: the limit, and how it is raised.
std::string memlock_advice();

}  // namespace ronde::net
