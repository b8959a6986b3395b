#include "sys/channel_pump.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace divvy::sys {
namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

void set_unblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

bool is_only_later(int error) { return error == EAGAIN || error == EINTR; }

// A Unix socket reports a reset behind everything that was said, when the other end closed and had
// not read all: what it said has come whole. Of other sockets a reset may have swallowed some.
bool is_reset_after_all(int fd, int error) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return error == ECONNRESET && ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
         domain == AF_UNIX;
}

// send() of pieces, which no signal follows.
ssize_t send_pieces(int fd, const iovec* pieces, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

ChannelPump::ChannelPump(UniqueFd local, Options options)
    : local_(std::move(local)),
      options_(std::move(options)),
      begun_(!options_.may_begin),
      channel_(options_.window) {
  if (local_) set_unblocking(local_.get());
}

void ChannelPump::carry(UniqueFd connection) {
  connection_ = std::move(connection);
  if (!connection_) return;
  set_unblocking(connection_.get());
  channel_.connect();
}

void ChannelPump::close_local() {
  if (!local_) return;
  // So that nobody takes it for a regular end.
  const linger at_once{1, 0};
  ::setsockopt(local_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  local_.reset();
}

ChannelPump::Waits ChannelPump::waits() {
  Waits wanted{{-1, 0, 0}, {-1, 0, 0}};
  if (local_) {
    short events = 0;
    if (!channel_.has_ended() && size_of(channel_.space()) > 0) events = POLLIN;
    const bool end_waits = !begun_ && channel_.at_end();
    if (size_of(channel_.incoming()) > 0 || end_waits) {
      events = static_cast<short>(events | POLLOUT);
    }
    // Whoever waits for nothing would be told of its end again and again.
    if (events != 0) wanted.local = {local_.get(), events, 0};
  }
  if (connection_) {
    short events = POLLIN;
    if (!channel_.outgoing().empty()) events |= POLLOUT;
    wanted.connection = {connection_.get(), events, 0};
  }
  return wanted;
}

void ChannelPump::step(const Waits& happened) {
  if (happened.connection.revents != 0 && connection_ &&
      (happened.connection.revents & ~POLLOUT) != 0) {
    read_connection();
  }
  write_local();
  if (happened.local.revents != 0 && (happened.local.revents & ~POLLOUT) != 0) read_local();
  flush();
}

void ChannelPump::read_connection() {
  // Of the thread and not of each channel: thousands of them wait most of the time.
  thread_local const auto piece = std::make_unique_for_overwrite<char[]>(kPiece);
  const ssize_t got = ::recv(connection_.get(), piece.get(), kPiece, MSG_DONTWAIT);
  if (got < 0 && is_only_later(errno)) return;
  if (got <= 0) {
    connection_.reset();
    return;
  }
  // What is wrong with it is told to the other end, and known here by failure().
  (void)channel_.receive({piece.get(), static_cast<std::size_t>(got)});
}

// False also while it is being connected.
bool ChannelPump::has_begun() {
  if (begun_ || !local_) return true;
  pollfd wait{local_.get(), POLLOUT, 0};
  if (::poll(&wait, 1, 0) != 1 || channel_.failure()) return false;
  begun_ = options_.may_begin();
  if (begun_) return true;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(local_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  channel_.fail(error != 0 ? std::string("the connection was broken: ") + std::strerror(error)
                           : "nobody of this job listens there any more");
  return false;
}

void ChannelPump::write_local() {
  if ((size_of(channel_.incoming()) > 0 || channel_.at_end()) && !has_begun()) return;
  for (;;) {
    const RingPieces pieces = channel_.incoming();
    if (size_of(pieces) == 0) break;
    if (!local_) {
      channel_.handed_on(size_of(pieces));
      break;
    }
    const ssize_t wrote = send_pieces(local_.get(), pieces.data(), 2);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) return;
    // Nobody reads it any more, and what they said before is still to be told.
    channel_.handed_on(wrote < 0 ? size_of(pieces) : static_cast<std::size_t>(wrote));
  }
  if (!channel_.at_end()) return;
  if (local_) ::shutdown(local_.get(), SHUT_WR);
  channel_.handed_on_end();
}

void ChannelPump::read_local() {
  if (!local_ || channel_.has_ended() || !has_begun()) return;
  const RingPieces pieces = channel_.space();
  if (size_of(pieces) == 0) return;
  const ssize_t got = ::readv(local_.get(), pieces.data(), pieces[1].iov_len > 0 ? 2 : 1);
  if (got < 0 && is_only_later(errno)) return;
  if (got > 0) {
    channel_.wrote(static_cast<std::size_t>(got));
    return;
  }
  if (got < 0 && !is_reset_after_all(local_.get(), errno)) {
    channel_.fail(std::string("the connection was broken: ") + std::strerror(errno));
    return;
  }
  channel_.end();
  if (options_.ends_at_once) local_.reset();
}

void ChannelPump::flush() {
  while (connection_) {
    const auto pieces = channel_.outgoing();
    if (pieces.empty()) return;
    const ssize_t sent = send_pieces(connection_.get(), pieces.data(), pieces.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) {
      // It may have said something before it went.
      ::shutdown(connection_.get(), SHUT_WR);
      read_connection();
      connection_.reset();
      return;
    }
    channel_.sent(static_cast<std::size_t>(sent));
  }
}

}  // namespace divvy::sys
