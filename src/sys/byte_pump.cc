#include "sys/byte_pump.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace divvy::sys {
namespace {

struct Direction {
  int from;
  int to;
  std::array<char, 65536> bytes{};
  std::size_t begin = 0;
  std::size_t end = 0;
  bool open = true;

  // False: it is broken.
  bool read() {
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    begin = 0;
    end = static_cast<std::size_t>(got);
    if (got == 0) {
      open = false;
      ::shutdown(to, SHUT_WR);
    }
    return true;
  }
  bool write() {
    const ssize_t sent = ::send(to, bytes.data() + begin, end - begin, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    begin += static_cast<std::size_t>(sent);
    return true;
  }
};

}  // namespace

void pump_bytes(int one, int other) {
  Direction there{one, other};
  Direction back{other, one};
  while (there.open || back.open) {
    const auto wants = [](const Direction& in, const Direction& out) {
      short events = 0;
      if (in.open && in.begin == in.end) events = POLLIN;
      if (out.begin < out.end) events = static_cast<short>(events | POLLOUT);
      return events;
    };
    pollfd waits[] = {{one, wants(there, back), 0}, {other, wants(back, there), 0}};
    // Whoever waits for nothing would be told of its end again and again.
    for (pollfd& wait : waits) {
      if (wait.events == 0) wait.fd = -1;
    }
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
    for (Direction* const way : {&there, &back}) {
      const pollfd& source = waits[way == &there ? 0 : 1];
      const pollfd& sink = waits[way == &there ? 1 : 0];
      if (way->open && way->begin == way->end && source.revents != 0 && !way->read()) return;
      if (way->begin < way->end && sink.revents != 0 && !way->write()) return;
    }
  }
}

}  // namespace divvy::sys
