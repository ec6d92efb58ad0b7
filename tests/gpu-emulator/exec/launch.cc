// A launch: its blocks, the order in which warps get slices, and waiting when all of them wait.
#include "gpu-emulator/exec/launch.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#include <fmt/core.h>

#include "gpu-emulator/exec/model.h"
#include "gpu-emulator/exec/warp.h"

namespace emu {

Launch::Launch() = default;
Launch::~Launch() = default;

const std::byte* Launch::symbols_of(const Code& code) {
  for (const auto& [of, bytes] : symbols)
    if (of == &code) return bytes.get();
  auto made = std::make_unique<std::byte[]>(code.symbols.size() * kSymbolBytes + 8);
  for (size_t s = 0; s < code.symbols.size(); s++) {
    const Symbol& symbol = code.symbols[s];
    const uint64_t base =
        symbol.shared ? grid->function->code->shared_at[symbol.variable] : grid->address_of(module->variables[symbol.variable]);
    const uint64_t address = base + static_cast<uint64_t>(symbol.addend);
    auto* wide = reinterpret_cast<uint64_t*>(made.get() + s * kSymbolBytes);
    std::fill_n(wide, kLanes, address);
    std::fill_n(reinterpret_cast<uint32_t*>(wide + kLanes), kLanes, static_cast<uint32_t>(address));
  }
  symbols.emplace_back(&code, std::move(made));
  return symbols.back().second.get();
}

std::string Launch::place_of(const Warp& warp, unsigned lane) const {
  const auto& b = warp.block->index;
  const auto& n = grid->threads;
  std::string text = fmt::format("kernel {}, block ({},{},{}), ", grid->function->name, b[0], b[1], b[2]);
  if (lane >= kLanes) return text + fmt::format("warp {}", warp.index);
  const uint32_t t = warp.index * kLanes + lane;
  return text + fmt::format("thread ({},{},{})", t % n[0], t / n[0] % n[1], t / n[0] / n[1]);
}

std::string Launch::place_of(const Code& code, const Instruction& in) const {
  const Place& place = code.places[in.place];
  size_t begin = 0;
  for (uint32_t line = 1; line < place.line; line++) begin = module->text.find('\n', begin) + 1;
  std::string text = module->text.substr(begin, module->text.find('\n', begin) - begin);
  text.erase(0, text.find_first_not_of(" \t"));
  std::replace(text.begin(), text.end(), '\t', ' ');
  std::string where = fmt::format("PTX line {} ({})", place.line, text);
  if (place.source.file != 0 && place.source.file < module->files.size())
    where += fmt::format(", {}:{}", module->files[place.source.file], place.source.line);
  return where;
}

std::string Launch::dump() const {
  std::string text;
  int lines = 0;
  for (const auto& block : blocks) {
    if (!block) continue;
    for (const auto& warp : block->warps) {
      for (const Group& group : warp->groups) {
        if (group.mask == 0) continue;
        if (++lines > 64) return text + "\n  ...";
        const char* state = group.wait == Wait::ready     ? (group.fruitless > 0 ? "polls" : "runs")
                            : group.wait == Wait::barrier ? "waits at a barrier"
                            : group.wait == Wait::warp    ? "waits for its warp"
                                                          : "waits for lanes";
        const Instruction* at = group.wait == Wait::ready ? group.pc : group.at;
        text += fmt::format("\n  block ({},{},{}) warp {} lanes {:08x} {}: {}", block->index[0], block->index[1], block->index[2],
                            warp->index, group.mask, state, place_of(*group.frame->code, *at));
      }
    }
  }
  return text;
}

namespace {

/// So many warps are on the device at once, of as many blocks as that makes; the next block begins when one has ended.
constexpr size_t kResidentWarps = 8192;

class Runner {
 public:
  Runner(Launch& launch, const std::atomic<bool>& stop) : launch_(launch), stop_(stop) {
    const Grid& grid = *launch.grid;
    threads_ = grid.threads[0] * grid.threads[1] * grid.threads[2];
    total_ = uint64_t{grid.blocks[0]} * grid.blocks[1] * grid.blocks[2];
    begun_at_ = std::chrono::steady_clock::now();
  }

  void run() {
    fill();
    while (!blocks_.empty() && launch_.error.empty()) {
      if (stopped()) return give_up("stopped");
      if (late()) return give_up(fmt::format("not at its end after {} ms", launch_.options.limit_ms));
      round();
    }
  }

 private:
  void fill() {
    const size_t warps_each = (threads_ + kLanes - 1) / kLanes;
    while (next_ < total_ && (blocks_.empty() || (blocks_.size() + 1) * warps_each <= kResidentWarps)) {
      launch_.blocks.push_back(make_block(next_++));
      blocks_.push_back(launch_.blocks.back().get());
    }
  }

  std::unique_ptr<Block> make_block(uint64_t number) {
    const Grid& grid = *launch_.grid;
    auto block = std::make_unique<Block>();
    block->launch = &launch_;
    block->number = static_cast<uint32_t>(number);
    block->index = {static_cast<uint32_t>(number % grid.blocks[0]),
                    static_cast<uint32_t>(number / grid.blocks[0] % grid.blocks[1]),
                    static_cast<uint32_t>(number / grid.blocks[0] / grid.blocks[1])};
    block->threads = threads_;
    block->shared.reset(new std::byte[launch_.shared_bytes + 16]);
    for (uint32_t first = 0; first < threads_; first += kLanes) {
      auto warp = std::make_unique<Warp>();
      warp->launch = &launch_;
      warp->block = block.get();
      warp->index = first / kLanes;
      const uint32_t lanes_here = std::min(threads_ - first, kLanes);
      warp->begin(*grid.function->code, lanes_here == kLanes ? ~uint32_t{0} : (uint32_t{1} << lanes_here) - 1);
      block->warps.push_back(std::move(warp));
    }
    return block;
  }

  /// Gives each warp a slice, blocks and warps from a random start on.
  void round() {
    bool progress = false;
    const size_t start = random() % blocks_.size();
    for (size_t b = 0; b < blocks_.size() && launch_.error.empty(); b++)
      progress |= round_of(*blocks_[(start + b) % blocks_.size()]);
    const size_t before = blocks_.size();
    std::erase_if(blocks_, [&](Block* block) {
      const bool done = std::all_of(block->warps.begin(), block->warps.end(), [](const auto& warp) { return warp->live == 0; });
      if (done && launch_.model) launch_.model->end_block(*block);
      if (done) launch_.blocks[block->number].reset();
      return done;
    });
    if (blocks_.size() != before) fill();
    if (progress) {
      idle_ = 0;
    } else {
      rest();
    }
  }

  bool round_of(Block& block) {
    bool progress = false, runnable = false;
    const size_t n = block.warps.size(), start = random() % n;
    for (size_t w = 0; w < n; w++) {
      Warp& warp = *block.warps[(start + w) % n];
      if (warp.live == 0) continue;
      const bool ran = warp.run(static_cast<int>(100 + random() % 400));
      progress |= launch_.model && launch_.model->after_slice(warp);
      if (!launch_.error.empty()) return true;
      runnable |= ran || warp.live == 0;
      progress |= (ran && (!warp.fruitless || warp.hopeful)) || warp.live == 0;
    }
    if (!runnable) stuck(block);
    return progress || !runnable;
  }

  /// No warp ran in a whole round. A barrier that was completed late in the round may have made an earlier one ready.
  void stuck(Block& block) {
    bool any = false;
    for (const auto& warp : block.warps) {
      any |= warp->live != 0;
      for (const Group& group : warp->groups)
        if (group.wait == Wait::ready && group.mask != 0) return;
    }
    if (!any) return;
    launch_.error = fmt::format(
        "kernel {}, block ({},{},{}): a barrier that cannot complete: all of the block's threads wait or have ended{}",
        launch_.grid->function->name, block.index[0], block.index[1], block.index[2], launch_.dump());
  }

  void rest() {
    idle_++;
    if (idle_ < 8) {
      sched_yield();
      return;
    }
    const long microseconds = std::min<long>(100, 5L << std::min(idle_ - 8, 5));
    const timespec pause{0, microseconds * 1000};
    nanosleep(&pause, nullptr);
  }

  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  bool late() {
    if (launch_.options.limit_ms == 0) return false;
    return std::chrono::steady_clock::now() - begun_at_ > std::chrono::milliseconds(launch_.options.limit_ms);
  }

  void give_up(const std::string& why) {
    launch_.error = fmt::format("kernel {}: {}; where its warps stand:{}", launch_.grid->function->name, why, launch_.dump());
  }

  uint32_t random() {
    launch_.random = launch_.random * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(launch_.random >> 33);
  }

  Launch& launch_;
  const std::atomic<bool>& stop_;
  uint32_t threads_ = 0;
  uint64_t total_ = 0, next_ = 0;
  std::vector<Block*> blocks_;
  int idle_ = 0;
  std::chrono::steady_clock::time_point begun_at_;
};

std::string wrong_shape(const Grid& grid) {
  const uint64_t threads = uint64_t{grid.threads[0]} * grid.threads[1] * grid.threads[2];
  if (threads == 0 || uint64_t{grid.blocks[0]} * grid.blocks[1] * grid.blocks[2] == 0) return "a launch of no threads";
  if (threads > grid.function->max_threads)
    return fmt::format("{} threads a block, but the kernel allows {}", threads, grid.function->max_threads);
  if (grid.parameters.size() < grid.function->parameter_bytes)
    return fmt::format("{} bytes of parameters, but the kernel reads {}", grid.parameters.size(), grid.function->parameter_bytes);
  return "";
}

}  // namespace

std::string run(const Grid& grid, Memory& memory, const Options& options, const std::atomic<bool>& stop) {
  if (const std::string wrong = wrong_shape(grid); !wrong.empty())
    return fmt::format("kernel {}: {}", grid.function->name, wrong);
  prctl(PR_SET_TIMERSLACK, 1000ul);
  Launch launch;
  launch.grid = &grid;
  launch.module = &grid.module->parts();
  launch.memory = &memory;
  launch.options = options;
  launch.parameters.assign(grid.parameters.begin(), grid.parameters.end());
  launch.shared_bytes = grid.function->shared_bytes + grid.shared_bytes;
  launch.random = mix(options.seed + 0x9e3779b97f4a7c15ull * static_cast<uint64_t>(grid.device + 1));
  launch.model = make_model(launch);
  Runner(launch, stop).run();
  return launch.error;
}

}  // namespace emu
