#include "gpu-emulator/exec/model.h"

namespace emu {

std::unique_ptr<Model> make_model(Launch& launch) {
  const Options& options = launch.options;
  std::unique_ptr<Model> made;
  if (options.weak_stores || options.stale_loads || options.harsh_vectors) made = make_weak_model(launch);
  if (options.races) made = make_race_model(launch, std::move(made));
  return made;
}

}  // namespace emu
