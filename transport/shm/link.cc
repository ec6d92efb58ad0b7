#include "transport/shm/link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <cerrno>
#include <cstring>

namespace ronde::shm {

Io send_message(int socket, const Message& message, int fd) {
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  for (;;) {
    if (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Io::done;
    if (errno == EINTR) continue;
    // ETOOMANYREFS: more descriptors are under way than this user may have; they arrive, then there is room again.
    const bool later = errno == EAGAIN || errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM;
    return later ? Io::later : Io::ended;
  }
}

Io receive_message(int socket, Incoming* incoming) {
  iovec part{&incoming->message, sizeof(Message)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n = 0;
  do {
    n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN) return Io::later;
  if (n <= 0) return Io::ended;
  for (cmsghdr* it = CMSG_FIRSTHDR(&header); it != nullptr; it = CMSG_NXTHDR(&header, it)) {
    if (it->cmsg_level != SOL_SOCKET || it->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(it), sizeof fd);
    incoming->fd = UniqueFd(fd);
  }
  return n == sizeof(Message) ? Io::done : Io::ended;
}

bool hung_up(int socket) {
  pollfd poll_one{socket, POLLRDHUP, 0};
  int n = 0;
  do {
    n = poll(&poll_one, 1, 0);
  } while (n < 0 && errno == EINTR);
  return n != 0;
}

int peer_pid(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 ? credentials.pid : 0;
}

}  // namespace ronde::shm
