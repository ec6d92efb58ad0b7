// Pretended hosts (RONDE_HOSTS): one machine tries what several do.
#pragma once

#include <memory>

#include "base/config.h"
#include "base/result.h"

namespace ronde {

/// `config` with the identity of the host on which `rank` pretends to be; the same where it does not. invalid_usage for a list that does not fit `ranks`.
Result<std::shared_ptr<const Config>> on_pretended_host(std::shared_ptr<const Config> config, int rank, int ranks);

}  // namespace ronde
