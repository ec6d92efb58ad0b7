// Callers that have no business on a port: silent ones, ones that hang up, that talk of something else, or of the right thing
// without the secret.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "boot/handshake.h"
#include "transport/socket/greeting.h"

namespace ronde::test {

/// TCP ports of the calling process's network namespace that somebody listens on.
inline std::set<uint16_t> listening_ports() {
  std::set<uint16_t> ports;
  for (const char* table : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream in(line);
      std::string number, local, remote, state;
      in >> number >> local >> remote >> state;
      if (state == "0A") ports.insert(static_cast<uint16_t>(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// What strangers say: nothing, garbage, HTTP, and both networks' first words with another secret.
inline std::vector<std::string> strange_words() {
  net::Contact contact;
  contact.number = 1;
  contact.secret = {1, 2};
  std::vector<std::string> all = {"", std::string(200, '\xa5'), "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n", "R"};
  all.push_back(bytes_of(net::make_hello(contact, 0, 1)));
  const auto hello = ronde::make_hello({1, 2}, 0, 3);
  if (hello.ok()) all.push_back(bytes_of(*hello) + bytes_of(Proof{}));
  return all;
}

/// Calls every port that is listened on, on this host, over and over: at most 64 stay open. `called` counts.
template <class Counter>
[[noreturn]] void be_strangers(Counter& called) {
  std::array<int, 64> open;
  open.fill(-1);
  for (size_t turn = 0;; ++turn) {
    for (const uint16_t port : listening_ports()) {
      for (const std::string& words : strange_words()) {
        for (const bool reset : {false, true}) {
          int& fd = open[called % open.size()];
          if (fd >= 0) close(fd);
          fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
          sockaddr_in address{};
          address.sin_family = AF_INET;
          address.sin_port = htons(port);
          address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) continue;
          if (!words.empty() && send(fd, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) continue;
          ++called;
          const linger at_once{1, 0};
          if (reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
          if (reset) close(std::exchange(fd, -1));
        }
      }
    }
    usleep(2000);  // a scan, not a flood: it shares the CPUs with the ranks
  }
}

}  // namespace ronde::test
