// Joining, with the switches that tests need to take every path inside one process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "boot/bootstrap.h"
#include "boot/wire.h"
#include "ronde.h"

namespace ronde {

/// How a test bends the rules. The defaults are the rules.
struct JoinHooks {
  std::string player;                     ///< ranks with different names treat each other as processes do
  bool unix_sockets = true;               ///< false: TCP between players
  uint32_t protocol = kBootProtocol;      ///< what this rank claims to speak
  uint32_t version = RONDE_VERSION_CODE;  ///< and to be
  void (*asked)() = nullptr;              ///< called when the request is on its way to the root
};

Result<UniqueId> make_unique_id(const Config& config, const JoinHooks& hooks);
Result<std::unique_ptr<Bootstrap>> join(const JoinRequest& request, std::shared_ptr<const Config> config, const AbortWord* abort,
                                        const JoinHooks& hooks);

}  // namespace ronde
