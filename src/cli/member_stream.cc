#include "cli/member_stream.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "cli/daemon.h"
#include "cli/raw_terminal.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

constexpr const char* kProtocol = "divvy-stream";
constexpr std::size_t kPiece = std::size_t{32} << 10;
// Beyond it no more input is read until some is gone.
constexpr std::size_t kMostOut = std::size_t{256} << 10;

Status write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EAGAIN) {
      pollfd ready{fd, POLLOUT, 0};
      (void)::poll(&ready, 1, -1);
    } else if (wrote < 0 && errno != EINTR) {
      return err(ErrorCode::kIo, "what comes from the job cannot be written: {}",
                 std::strerror(errno));
    } else if (wrote > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
  }
  return {};
}

// A shell in the background would be stopped for reading what is typed for somebody else.
bool is_ours_to_read(int fd) { return ::isatty(fd) == 0 || ::tcgetpgrp(fd) == ::getpgrp(); }

}  // namespace

tl::expected<MemberStream, int> MemberStream::open(const Session& session, const MemberPlace& place,
                                                   boost::json::object request) {
  const auto daemon = session.daemon();
  if (!daemon) return tl::unexpected(session.fail(daemon.error()));
  request["rank"] = place.rank;
  auto made = daemon->upgrade({.method = "POST",
                               .path = fmt::format("/v1/jobs/{}/stream", place.job),
                               .body = boost::json::serialize(request)},
                              kProtocol);
  if (!made) return tl::unexpected(session.fail(made.error()));
  if (made->tunnel == nullptr) return tl::unexpected(session.fail(made->reply));
  return MemberStream(std::move(made->tunnel));
}

Result<std::optional<sys::EndFrame>> MemberStream::run(Rules rules) {
  if (rules.ends.input < 0) out_ += sys::to_bytes(sys::InputEndFrame{});
  for (;;) {
    Ends& ends = rules.ends;
    const bool wants_input =
        started_ && ends.input >= 0 && out_.size() < kMostOut && is_ours_to_read(ends.input);
    const short events = out_.empty() ? POLLIN : POLLIN | POLLOUT;
    pollfd waits[] = {{tunnel_->fd(), events, 0},
                      {rules.signals != nullptr ? rules.signals->fd() : -1, POLLIN, 0},
                      {wants_input ? ends.input : -1, POLLIN, 0}};
    if (::poll(waits, 3, -1) < 0 && errno != EINTR) {
      return err(ErrorCode::kIo, "nothing can be waited for: {}", std::strerror(errno));
    }
    if (waits[1].revents != 0) {
      for (int number = 0; (number = rules.signals->next()) != 0;) {
        if (rules.signals_stop) return std::optional<sys::EndFrame>();
        if (const auto frame = rules.on_signal(number)) out_ += sys::to_bytes(*frame);
      }
    }
    if (waits[2].revents != 0) read_input(ends);
    if ((waits[0].revents & POLLOUT) != 0) DIVVY_RETURN_IF_ERROR(send());
    if ((waits[0].revents & ~POLLOUT) != 0) {
      DIVVY_TRY(end, receive(rules));
      if (end) return end;
    }
  }
}

void MemberStream::read_input(Ends& ends) {
  std::array<char, kPiece> piece;
  const ssize_t got = ::read(ends.input, piece.data(), piece.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got > 0) {
    out_ +=
        sys::to_bytes(sys::InputFrame{std::string(piece.data(), static_cast<std::size_t>(got))});
    return;
  }
  ends.input = -1;
  out_ += sys::to_bytes(sys::InputEndFrame{});
}

Status MemberStream::send() {
  const ssize_t sent = ::send(tunnel_->fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) out_.erase(0, static_cast<std::size_t>(sent));
  // Whoever takes no more may have said why.
  if (sent < 0 && errno != EAGAIN && errno != EINTR) out_.clear();
  return {};
}

Result<std::optional<sys::EndFrame>> MemberStream::receive(Rules& rules) {
  std::array<char, kPiece> piece;
  const ssize_t got = ::recv(tunnel_->fd(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<sys::EndFrame>();
  if (got <= 0) {
    return err(ErrorCode::kUnavailable,
               "the connection to the job was lost; what was started there was hung up");
  }
  frames_.add({piece.data(), static_cast<std::size_t>(got)});
  for (;;) {
    DIVVY_TRY(frame, frames_.next());
    if (!frame) return std::optional<sys::EndFrame>();
    if (auto* const end = std::get_if<sys::EndFrame>(&*frame)) {
      return std::optional<sys::EndFrame>(std::move(*end));
    }
    if (auto* const refused = std::get_if<sys::RefusedFrame>(&*frame)) {
      refused_ = true;
      return err(std::move(refused->error));
    }
    DIVVY_RETURN_IF_ERROR(handle(*frame, rules));
  }
}

Status MemberStream::handle(const sys::Frame& frame, Rules& rules) {
  if (const auto* const started = std::get_if<sys::StartedFrame>(&frame)) {
    started_ = true;
    if (rules.on_start) return rules.on_start(started->takes_input, rules.ends);
  } else if (const auto* const output = std::get_if<sys::OutputFrame>(&frame)) {
    if (rules.ends.output >= 0) return write_all(rules.ends.output, output->bytes);
  } else if (const auto* const error = std::get_if<sys::ErrorFrame>(&frame)) {
    if (rules.ends.error >= 0) return write_all(rules.ends.error, error->bytes);
  }
  return {};
}

}  // namespace divvy::cli
