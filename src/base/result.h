// Errors as values: every fallible function of ronde returns Result<T>.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace ronde {

/// The numbers of ncclResult_t, so that the C border is a cast.
enum class Code : int {
  success = 0,
  cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// What an error has ruined: the caller of a failed function decides by it what may still be used.
enum class Scope : uint8_t { operation, connection, communicator, process };

/// Place in the source that first reported an error.
struct Where {
  const char* file = "";
  unsigned line = 0;
  /// The caller's place; as a default argument, that of the call. (std::source_location is beyond clang 14 with libstdc++ 12.)
  static Where here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) { return {file, line}; }
};

/// One failure. `what` is a whole sentence for the user: what was attempted, errno in words, object and limit, peer, remedy.
struct [[nodiscard]] Error {
  Code code = Code::internal_error;
  Scope scope = Scope::operation;
  std::string what;
  Where where;
};

/// The value of a Result that has nothing else to say.
struct Done {};

/// Either a T or the Error that prevented it.
template <class T = Done>
class [[nodiscard]] Result {
 public:
  Result() requires std::is_default_constructible_v<T> : value_(std::in_place_index<0>) {}
  Result(T value) : value_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : value_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return value_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(value_); }
  const T& value() const& { return std::get<0>(value_); }
  T&& value() && { return std::get<0>(std::move(value_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & { return std::get<1>(value_); }
  const Error& error() const& { return std::get<1>(value_); }
  Error&& error() && { return std::get<1>(std::move(value_)); }
  Code code() const { return ok() ? Code::success : error().code; }

 private:
  std::variant<T, Error> value_;
};

/// Makes an Error of `scope` and remembers where.
inline Error fail(Code code, std::string what, Scope scope = Scope::operation, Where at = Where::here()) {
  return Error{code, scope, std::move(what), at};
}

/// An Error for a failed system call: appends "<errno in words> (errno N)" to `attempted`; `remedy` may be empty.
Error system_failure(int errno_value, std::string attempted, std::string remedy = "", Scope scope = Scope::operation,
                     Where at = Where::here());

}  // namespace ronde

#define RONDE_CONCAT2(a, b) a##b
#define RONDE_CONCAT(a, b) RONDE_CONCAT2(a, b)

/// The only control macro: returns the error of `expression` from the calling function, or goes on.
/// `RONDE_TRY(expr)` drops the value; with a value write `RONDE_TRY(auto x, expr)`.
#define RONDE_TRY_1(expression)                          \
  do {                                                   \
    auto ronde_result = (expression);                    \
    if (!ronde_result.ok()) return std::move(ronde_result).error(); \
  } while (0)
#define RONDE_TRY_2(declaration, expression)                                      \
  auto RONDE_CONCAT(ronde_result_, __LINE__) = (expression);                      \
  if (!RONDE_CONCAT(ronde_result_, __LINE__).ok())                                \
    return std::move(RONDE_CONCAT(ronde_result_, __LINE__)).error();              \
  declaration = std::move(RONDE_CONCAT(ronde_result_, __LINE__)).value()
#define RONDE_TRY_PICK(a, b, name, ...) name
#define RONDE_TRY(...) RONDE_TRY_PICK(__VA_ARGS__, RONDE_TRY_2, RONDE_TRY_1, )(__VA_ARGS__)
