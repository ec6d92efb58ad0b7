// What a process is told once.
#pragma once

namespace ronde {

/// To be called by every init: the first of the process logs the versions, and warns where another copy of ronde is loaded.
void note_init();

}  // namespace ronde
