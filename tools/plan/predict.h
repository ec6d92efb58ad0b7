// ronde-plan simulate and published: what Programs would take on a machine that need not exist.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/simulate.h"

namespace ronde::plan::tool {

/// Events grow with the square of a ring's ranks.
inline constexpr int64_t kMostByEvents = 1024;

/// What is asked for.
struct Scenario {
  std::string coll = "AllReduce";
  std::string algorithm = "ring";
  std::string protocol = "simple";
  int copies = 1;    ///< of the machine, joined by the network
  int channels = 0;  ///< at most; 0: as many as the search finds best
  uint64_t slice = 1 << 20;
  uint32_t slots = 8;
  bool processes = false;  ///< CPU ranks are processes, not threads of one
};

/// The parts of a plan that do not depend on the size of a call.
class Plan {
 public:
  /// Searches channels over all GPUs of the machine's copies, or all its CPU ranks, and builds their Programs. invalid_argument
  /// names what is wrong in the scenario.
  static Result<Plan> make(const topo::Machine& machine, const Scenario& scenario, const Costs& costs);
  /// `bytes`: of the larger buffer of a rank, as nccl-tests counts.
  Result<Simulation> run(uint64_t bytes) const;
  /// The call with that many bytes.
  SimCall call(uint64_t bytes) const;
  int ranks() const { return spec_.ranks; }
  size_t channels() const { return channels_.size(); }
  const topo::Machine& machine() const { return machine_; }

 private:
  topo::Machine machine_;
  std::vector<topo::NodeId> devices_;
  CollSpec spec_;
  Conditions conditions_;
  Costs costs_;
  std::vector<graph::Channel> channels_;
  std::vector<std::vector<Program>> worlds_;  ///< one for each order of ranks
  std::vector<size_t> world_of_;              ///< by channel
};

/// A table, one line a size: time, bandwidths, the busiest links, what the last chain of Moves waited for. Of an all-reduce by rings of
/// more GPUs than kMostByEvents time and bandwidths alone, by the closed form, which the table says.
Result<std::string> simulate_sizes(const topo::Machine& machine, const Scenario& scenario, const Costs& costs,
                                   const std::vector<uint64_t>& sizes);
/// The rings over all GPUs of any number of copies, from the channels of two of them; without `bytes`. invalid_argument where there
/// are no rings of GPUs.
Result<EvenRing> even_ring_of(const topo::Machine& machine, const Scenario& scenario);
/// The table of published figures for up to `most_copies` copies of a machine, predicted from the machines in `folder`.
Result<std::string> published(const std::string& folder, const Costs& costs, int most_copies);

/// "64K", "256M", "8G", "1000". invalid_argument for anything else.
Result<uint64_t> size_of_text(const std::string& text);

}  // namespace ronde::plan::tool
