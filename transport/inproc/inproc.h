// Ranks of one process: memory is simply shared, and whatever one has can be lent by its address.
#pragma once

#include "transport/transport.h"

namespace ronde::inproc {

/// A rank and itself.
const Transport& self_transport();
/// Two ranks of one process.
const Transport& transport();

}  // namespace ronde::inproc
