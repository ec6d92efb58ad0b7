// Launches.
#include "gpu-emulator/exec/launch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "gpu-emulator/driver/fault.h"
#include "gpu-emulator/driver/limits.h"
#include "gpu-emulator/driver/module.h"
#include "gpu-emulator/driver/multicast.h"

namespace emu::driver {
namespace {

/// What a kernel's launches need, kept until the last has ended.
struct Prepared {
  std::shared_ptr<Entry> entry;
  Launch launch;
  std::vector<std::byte> parameters;
};

CUresult run_prepared(Driver& driver, const Prepared& prepared) {
  const LoadedModule& module = *prepared.entry->module;
  Context& context = *module.context;
  Grid grid;
  grid.module = module.code.get();
  grid.function = prepared.entry->function;
  grid.blocks = prepared.launch.blocks;
  grid.threads = prepared.launch.threads;
  grid.shared_bytes = prepared.launch.shared_bytes;
  grid.cooperative = prepared.launch.cooperative;
  grid.parameters = prepared.parameters;
  grid.device = context.device;
  grid.address_of = [&](const Variable& variable) { return module.addresses.find(variable.name)->second; };
  // Each launch has its own order of warps, the same in each run of the program.
  static std::array<std::atomic<uint64_t>, kMaxDevices> launches{};
  const auto device = static_cast<size_t>(context.device);
  Options options = driver.settings().options;
  options.seed = ronde::fnv1a_u64(options.seed, ronde::fnv1a_u64(launches[device].fetch_add(1), device + 1));
  if (const CUresult result = update_multicasts(); result != CUDA_SUCCESS) return result;
  const std::string text = run(grid, driver.memory(), options, context.stop);
  if (text.empty()) return CUDA_SUCCESS;
  const CUresult code = code_of_fault(text);
  context.fail(code, fmt::format("device {}: {}", context.device, text));
  return code;
}

CUresult copy_parameters(const Function& function, void** parameters, void** extra, std::vector<std::byte>& out) {
  out.assign(function.parameter_bytes, std::byte{0});
  if (function.parameters.empty()) return CUDA_SUCCESS;
  if (parameters != nullptr) {
    for (size_t i = 0; i < function.parameters.size(); ++i) {
      const Parameter& parameter = function.parameters[i];
      if (parameters[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
      std::memcpy(out.data() + parameter.offset, parameters[i], parameter.bytes);
    }
    return CUDA_SUCCESS;
  }
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (; extra != nullptr && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[1];
    if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = *static_cast<const size_t*>(extra[1]);
  }
  if (buffer == nullptr || bytes < out.size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out.data(), buffer, out.size());
  return CUDA_SUCCESS;
}

CUresult check_shape(Driver& driver, const Entry& entry, const Launch& launch) {
  const auto& [x, y, z] = launch.threads;
  const Function& function = *entry.function;
  for (const uint32_t blocks : launch.blocks) {
    if (blocks == 0) return CUDA_ERROR_INVALID_VALUE;
  }
  if (x == 0 || y == 0 || z == 0 || x > 1024 || y > 1024 || z > 64 || launch.blocks[0] > 0x7fffffff ||
      launch.blocks[1] > 0xffff || launch.blocks[2] > 0xffff)
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t threads = uint64_t{x} * y * z;
  if (threads > 1024 || threads > function.max_threads) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<int64_t>(launch.shared_bytes) > entry.most_dynamic.load()) return CUDA_ERROR_INVALID_VALUE;
  const int fit = blocks_per_multiprocessor(function, static_cast<int>(threads), launch.shared_bytes);
  if (fit == 0) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  const uint64_t blocks = uint64_t{launch.blocks[0]} * launch.blocks[1] * launch.blocks[2];
  if (launch.cooperative && blocks > static_cast<uint64_t>(fit) * static_cast<uint64_t>(driver.settings().multiprocessors))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

CUresult launch_on(CUfunction function, const Launch& launch, CUstream stream, void** parameters, void** extra) {
  return call([&](Driver& driver) {
    std::shared_ptr<Stream> target;
    if (const CUresult result = driver.stream(stream, target); result != CUDA_SUCCESS) return result;
    Op op;
    op.context = target->context();
    const CUresult result = prepare_launch(driver, function, launch, parameters, extra, op);
    if (result != CUDA_SUCCESS) return result;
    // A function belongs to a context, and so does a stream.
    return op.context == target->context() ? driver.submit(stream, std::move(op)) : CUDA_ERROR_INVALID_HANDLE;
  });
}

}  // namespace

int blocks_per_multiprocessor(const Function& function, int threads, size_t dynamic) {
  const int warps = (threads + 31) / 32;
  int blocks = std::min(kBlocksPerMultiprocessor, kThreadsPerMultiprocessor / (32 * warps));
  const uint32_t registers = std::max<uint32_t>(function.registers, 16) * 32 * static_cast<uint32_t>(warps);
  blocks = std::min(blocks, static_cast<int>(kRegistersPerMultiprocessor / registers));
  const size_t shared = function.shared_bytes + dynamic + kSharedReserved;
  return std::min(blocks, static_cast<int>(kSharedPerMultiprocessor / shared));
}

CUresult prepare_launch(Driver& driver, CUfunction handle, Launch launch, void** parameters, void** extra, Op& op) {
  auto prepared = std::make_shared<Prepared>();
  if (op.context == nullptr) {
    if (const CUresult result = driver.current(op.context); result != CUDA_SUCCESS) return result;
  }
  if (const CUresult result = entry_of(driver, handle, op.context, prepared->entry); result != CUDA_SUCCESS) return result;
  if (const CUresult result = check_shape(driver, *prepared->entry, launch); result != CUDA_SUCCESS) return result;
  const CUresult result = copy_parameters(*prepared->entry->function, parameters, extra, prepared->parameters);
  prepared->launch = launch;
  op.context = prepared->entry->module->context;
  op.type = CU_GRAPH_NODE_TYPE_KERNEL;
  op.run = [&driver, prepared] { return run_prepared(driver, *prepared); };
  return result;
}

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                        unsigned threads_y, unsigned threads_z, unsigned shared, CUstream stream, void** parameters,
                        void** extra) {
  return launch_on(function, {{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared, false}, stream,
                   parameters, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                                   unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared, CUstream stream,
                                   void** parameters) {
  return launch_on(function, {{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared, true}, stream,
                   parameters, nullptr);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (Driver::get() == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs > 0)) return CUDA_ERROR_INVALID_VALUE;
  Launch launch{{config->gridDimX, config->gridDimY, config->gridDimZ},
                {config->blockDimX, config->blockDimY, config->blockDimZ},
                config->sharedMemBytes,
                false};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) launch.cooperative = attribute.value.cooperative != 0;
    const auto& cluster = attribute.value.clusterDim;
    // A cluster of one block is what every block is.
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && (cluster.x > 1 || cluster.y > 1 || cluster.z > 1))
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return launch_on(function, launch, config->hStream, parameters, extra);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t dynamic) {
  return in_context([&](Driver& driver, const std::shared_ptr<Context>& context) {
    std::shared_ptr<Entry> entry;
    if (blocks == nullptr || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult result = entry_of(driver, function, context, entry); result != CUDA_SUCCESS) return result;
    *blocks = threads > static_cast<int>(entry->function->max_threads)
                  ? 0
                  : blocks_per_multiprocessor(*entry->function, threads, dynamic);
    return CUDA_SUCCESS;
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads, size_t dynamic,
                                                              unsigned) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic);
}

}  // extern "C"

}  // namespace emu::driver
