// Ranks of two processes on one host: arenas are memfds, passed over one socket per pair of processes.
#pragma once

#include "transport/transport.h"

namespace ronde::shm {

const Transport& transport();

}  // namespace ronde::shm
