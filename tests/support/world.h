// Ranks as threads: a communicator of n ranks in this process, and exact inputs for every type.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "nccl.h"
#include "ronde.h"

namespace ronde::test {

/// What one rank of a world found wrong; "" for nothing. Catch2's macros are not thread-safe, so ranks return text.
using RankBody = std::function<std::string(ncclComm_t comm, int rank)>;

/// Makes a communicator of `ranks` threads, runs `body` on each, destroys it (aborts where body failed). Returns the first complaint of each rank, by line.
std::string run_world(int ranks, const RankBody& body, bool destroy = true);

/// Runs `body(rank)` on n threads and joins them; complaints by line.
std::string run_threads(int n, const std::function<std::string(int)>& body);

/// "" for `expected`, else "<what>: code N (text), expected M".
std::string check_code(const char* what, ncclResult_t got, ncclResult_t expected = ncclSuccess);

/// `code`, or where that is success the code with which the communicator fails within 10 s; ncclSuccess where it does not.
ncclResult_t failure_of(ncclComm_t comm, ncclResult_t code);

/// Runs `body` on each rank of a world; every rank must end with ncclInvalidUsage (from the call, or afterwards from GetAsyncError) within 5 s, and `parts` be
/// in its text. Complaints by line.
std::string expect_invalid_usage(int ranks, const std::function<ncclResult_t(ncclComm_t comm, int rank)>& body, const std::vector<std::string>& parts);

/// Sets variables for its lifetime.
class ScopedEnv {
 public:
  ScopedEnv(std::initializer_list<std::pair<const char*, const char*>> values);
  ~ScopedEnv();

 private:
  std::vector<std::pair<std::string, std::string>> before_;
  std::vector<std::string> unset_;
};

/// Element `i` of rank `rank`'s input: a small integer, so that sums of up to 64 ranks are exact in every type of 16 bits and more; in the fp8 types
/// only two ranks contribute. Seeded by `salt`.
int small_value(int rank, size_t i, int salt);

/// `count` elements of `type` from integers given by `value`.
std::vector<std::byte> make_data(ncclDataType_t type, size_t count, const std::function<int(size_t)>& value);

size_t type_size(ncclDataType_t type);

/// Rank `rank`'s element `i` for `op`, chosen so that every order of evaluation is exact in `type`; and what all ranks' together give.
int exact_input(ncclDataType_t type, ncclRedOp_t op, int ranks, int rank, size_t i);
int exact_result(ncclDataType_t type, ncclRedOp_t op, int ranks, size_t i);

/// "" where they are equal, else where they first differ. `element`: bytes of one.
std::string compare(const char* what, const std::vector<std::byte>& got, const std::vector<std::byte>& want, size_t element);

}  // namespace ronde::test

/// In a RankBody: returns the complaint if `call` does not give ncclSuccess.
#define RONDE_RANK_OK(call)                                                     \
  do {                                                                          \
    const std::string complaint = ::ronde::test::check_code(#call, (call));     \
    if (!complaint.empty()) return complaint;                                   \
  } while (0)
