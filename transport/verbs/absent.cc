// In builds without the headers of libibverbs.
#include "transport/verbs/ib.h"

namespace ronde::net {

Result<std::shared_ptr<Net>> open_verbs_net(const Config&, std::string* why) {
  *why = "this build is without it: the headers of libibverbs (rdma-core) were not there";
  return std::shared_ptr<Net>();
}

}  // namespace ronde::net
