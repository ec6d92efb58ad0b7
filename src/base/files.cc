#include "base/files.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/core.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

namespace ronde {
namespace {

/// The errno of a write that failed; 0.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

/// The file that links lead to; the path itself where nothing is there.
std::string without_links(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), free);
  return real != nullptr ? real.get() : path;
}

}  // namespace

Result<std::string> read_file(const std::string& path, size_t most) {
  const std::string attempted = fmt::format("reading the file '{}'", path);
  // Not blocking: a FIFO would wait for its writer.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return system_failure(errno, attempted, "name a file that can be read");
  if (!S_ISREG(status.st_mode)) return fail(Code::invalid_argument, attempted + ": that is no regular file; name one");
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(errno, attempted);
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > most) return fail(Code::invalid_argument, fmt::format("{}: it has more than the {} bytes that are read; name a smaller one", attempted, most));
  }
}

Result<> write_file(const std::string& path, std::string_view text) {
  const std::string attempted = fmt::format("writing the file '{}'", path);
  const std::string remedy = "name a file that can be written, on a device with room";
  const std::string target = without_links(path);
  struct stat status {};
  if (stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    const UniqueFd fd(open(target.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    const int failed = !fd ? errno : write_all(fd.get(), text);
    return failed == 0 ? Result<>() : system_failure(failed, attempted, remedy);
  }
  // Of a name that no other process, and no other thread of this one, has.
  const std::string temporary = fmt::format("{}.{}.{}", target, getpid(), gettid());
  unlink(temporary.c_str());  // left by one of that number that was killed
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return system_failure(errno, attempted, remedy);
  int failed = write_all(fd.get(), text);
  if (failed == 0 && close(fd.release()) != 0) failed = errno;
  if (failed == 0 && rename(temporary.c_str(), target.c_str()) != 0) failed = errno;
  if (failed == 0) return {};
  unlink(temporary.c_str());
  return system_failure(failed, attempted, remedy);
}

}  // namespace ronde
