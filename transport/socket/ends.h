// The two ends of a stream as texts name them, its options, and what is said when it breaks.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "boot/address.h"

namespace ronde::net {

/// Who is at the two ends of a connection, as the first of its streams shows it.
struct Ends {
  Address here;
  Address there;
  std::string interface;
};

/// The ends of a connected socket; addresses of family 0 where the kernel does not say.
Ends ends_of(int fd, const std::string& interface);
/// "10.0.0.1:4000 to 10.0.0.2:5000 over eth0, 2 sockets", from the sender's end to the receiver's.
std::string describe(const Address& sender, const Address& receiver, const std::string& interface, size_t sockets);

/// Sizes of the kernel's buffers in bytes; -1: the kernel's choice, which grows with need.
struct Buffers {
  int send = -1;
  int receive = -1;
};
/// Options of every stream, best set before it connects.
void tune_stream(int fd, const Buffers& buffers);

/// The error of a stream that broke: errno_value as a call gave it, 0 where the peer has closed it. `attempted`: "sending",
/// "receiving".
Error broken_stream(const Ends& ends, std::string_view attempted, int errno_value);
/// What came over the stream is not what the peer's library sends.
Error foreign_stream(const Ends& ends, std::string what);

}  // namespace ronde::net
