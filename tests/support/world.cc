#include "support/world.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "base/clock.h"
#include "support/floats_for_tests.h"

namespace ronde::test {
namespace {

bool narrow(ncclDataType_t type) { return type == ncclFloat8e4m3 || type == ncclFloat8e5m2; }

}  // namespace

std::string run_threads(int n, const std::function<std::string(int)>& body) {
  std::vector<std::string> complaints(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) {
    threads.emplace_back([&, rank] { complaints[rank] = body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  std::string text;
  for (int rank = 0; rank < n; ++rank) {
    if (!complaints[rank].empty()) text += "rank " + std::to_string(rank) + ": " + complaints[rank] + "\n";
  }
  return text;
}

std::string run_world(int ranks, const RankBody& body, bool destroy) {
  ncclUniqueId id;
  const std::string made = check_code("ncclGetUniqueId", ncclGetUniqueId(&id));
  if (!made.empty()) return made;
  return run_threads(ranks, [&](int rank) -> std::string {
    ncclComm_t comm = nullptr;
    RONDE_RANK_OK(ncclCommInitRank(&comm, ranks, id, rank));
    std::string complaint = body(comm, rank);
    if (!complaint.empty()) {
      ncclCommAbort(comm);
      return complaint;
    }
    if (destroy) RONDE_RANK_OK(ncclCommDestroy(comm));
    return "";
  });
}

std::string check_code(const char* what, ncclResult_t got, ncclResult_t expected) {
  if (got == expected) return "";
  return std::string(what) + ": code " + std::to_string(got) + " (" + ncclGetLastError(nullptr) + "), expected " + std::to_string(expected);
}

ncclResult_t failure_of(ncclComm_t comm, ncclResult_t code) {
  const ronde::Deadline limit = ronde::Deadline::in(10);
  while (code == ncclSuccess && !limit.passed()) {
    ncclCommGetAsyncError(comm, &code);
    std::this_thread::yield();
  }
  return code;
}

std::string expect_invalid_usage(int ranks, const std::function<ncclResult_t(ncclComm_t, int)>& body, const std::vector<std::string>& parts) {
  const uint64_t start = now_ns();
  std::string complaints = run_world(ranks, [&](ncclComm_t comm, int rank) -> std::string {
    // A rank whose call returned early learns it from GetAsyncError, as soon as the others have found out.
    const ncclResult_t code = failure_of(comm, body(comm, rank));
    char text[2048] = "";
    rondeCommGetLastError(comm, text, sizeof text);
    if (code != ncclInvalidUsage) return "code " + std::to_string(code) + ": " + text;
    for (const std::string& part : parts) {
      if (std::string_view(text).find(part) == std::string_view::npos) return "no \"" + part + "\" in: " + text;
    }
    int again = 0;
    const ncclResult_t next = ncclAllReduce(&again, &again, 1, ncclInt32, ncclSum, comm, nullptr);
    if (next != ncclInvalidUsage) return "the next call gives " + std::to_string(next);
    ncclCommAbort(comm);
    return "";
  }, false);
  if (now_ns() - start > 5 * kSecond) complaints += "it took more than 5 s\n";
  return complaints;
}

ScopedEnv::ScopedEnv(std::initializer_list<std::pair<const char*, const char*>> values) {
  for (const auto& [name, value] : values) {
    const char* old = std::getenv(name);
    if (old != nullptr) {
      before_.emplace_back(name, old);
    } else {
      unset_.emplace_back(name);
    }
    setenv(name, value, 1);
  }
}

ScopedEnv::~ScopedEnv() {
  for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  for (const std::string& name : unset_) unsetenv(name.c_str());
}

int small_value(int rank, size_t i, int salt) {
  uint32_t x = static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(rank) * 40503u + static_cast<uint32_t>(salt) * 97u;
  x ^= x >> 15;
  return static_cast<int>(x % 3u);  // 64 ranks x 2 = 128: exact in bfloat16 (8 bits of significand)
}

size_t type_size(ncclDataType_t type) {
  constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

std::vector<std::byte> make_data(ncclDataType_t type, size_t count, const std::function<int(size_t)>& value) {
  std::vector<std::byte> data(count * type_size(type));
  for (size_t i = 0; i < count; ++i) store_small_integer(type, data.data() + i * type_size(type), value(i));
  return data;
}

int exact_input(ncclDataType_t type, ncclRedOp_t op, int ranks, int rank, size_t i) {
  if (op == ncclProd) return rank == static_cast<int>(i % static_cast<size_t>(ranks)) ? 2 : 1;
  if (op == ncclAvg) return (narrow(type) ? 0 : static_cast<int>(i % 2)) + (rank == 0 ? ranks : 0);
  if (op == ncclMax || op == ncclMin) return 1 + (small_value(rank, i, 7) * 2);
  if (narrow(type)) return rank == static_cast<int>(i % static_cast<size_t>(ranks)) ? 2 : 0;
  return small_value(rank, i, 1);
}

int exact_result(ncclDataType_t type, ncclRedOp_t op, int ranks, size_t i) {
  int result = exact_input(type, op, ranks, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int next = exact_input(type, op, ranks, rank, i);
    result = op == ncclProd ? result * next : op == ncclMax ? std::max(result, next) : op == ncclMin ? std::min(result, next) : result + next;
  }
  return op == ncclAvg ? result / ranks : result;
}

std::string compare(const char* what, const std::vector<std::byte>& got, const std::vector<std::byte>& want, size_t element) {
  if (got == want) return "";
  const auto at = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
  return std::string(what) + ": wrong at element " + std::to_string(static_cast<size_t>(at) / element) + " of " + std::to_string(got.size() / element);
}

}  // namespace ronde::test
