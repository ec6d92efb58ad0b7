// The watch: what a thread does about a wait that has become long. It names who disagrees, who has not come, and cycles of waits.
#pragma once

#include <string>
#include <vector>

#include "exec/seat.h"

namespace ronde {

/// Called each 100 ms in which nothing of the Seat has moved. Takes mail, compares calls, follows cycles, reports and ends waits that are too old. On a
/// finding the Seat (or every rank's) has failed when this returns. `blocking`: nobody else can help this rank on.
void look_why(Seat& seat, bool blocking);

/// Before a full look at everything the Seat waits for: remembers which probe the look will answer, if it will. The ranks of other hosts that it waits for
/// have to tell first what is on its way.
void note_probe(Seat& seat);
/// After a full look at everything the Seat waits for, without success: answers who asked whether this rank is blocked.
void answer_probe(Seat& seat);

/// The Seat has moved, or its thread has let go of it: it is not blocked any more.
void unblock(Seat& seat);

/// Fails the Seat if another rank has left a fatal error for it. True if it did.
bool take_mail(Seat& seat);

}  // namespace ronde
