#include "cli/member_stream.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "cli/daemon.h"
#include "cli/detach.h"
#include "cli/raw_terminal.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

// For a daemon that is just being replaced. Whoever types a command wants an answer.
constexpr std::chrono::seconds kOpening{30};
constexpr std::size_t kPiece = std::size_t{32} << 10;
// Beyond it no more input is read until some is gone.
constexpr std::size_t kMostOut = std::size_t{256} << 10;
constexpr char kInterrupt = '\3';  // Ctrl-C

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
                                                   const boost::json::object& request, int stop) {
  auto daemon = session.daemon();
  if (!daemon) return tl::unexpected(session.fail(daemon.error()));
  std::string name = new_channel_name();
  if (daemon->is_cluster()) {
    auto made = open_in_pod(*daemon, place, name, request);
    if (!made) return tl::unexpected(session.fail(made.error()));
    if (!made->here) return tl::unexpected(session.fail(made->reply));
    auto channel = MemberChannel::over(std::move(made->here));
    if (!channel) return tl::unexpected(session.fail(channel.error()));
    return MemberStream(*std::move(channel));
  }
  const auto opened = open_channel_patiently(*daemon, place, name, request, kOpening, stop);
  if (!opened) return tl::unexpected(session.fail(opened.error()));
  if (!*opened) return tl::unexpected(kExitDetached);
  if (!(*opened)->ok()) return tl::unexpected(session.fail(**opened));
  auto channel =
      MemberChannel::begin(*std::move(daemon), place, std::move(name), time_kept(**opened));
  if (!channel) return tl::unexpected(session.fail(channel.error()));
  return MemberStream(*std::move(channel));
}

Result<std::optional<sys::EndFrame>> MemberStream::run(Rules rules) {
  const Error given_up{ErrorCode::kCancelled,
                       "given up; what was started in the job is hung up when nobody has come back "
                       "to it in time"};
  if (rules.ends.input < 0) out_ += sys::to_bytes(sys::InputEndFrame{});
  for (;;) {
    const int input = rules.ends.input;
    const bool wants_input =
        started_ && input >= 0 && out_.size() < kMostOut && is_ours_to_read(input);
    const short events = out_.empty() ? POLLIN : POLLIN | POLLOUT;
    pollfd waits[] = {{channel_->fd(), events, 0},
                      {rules.signals != nullptr ? rules.signals->fd() : -1, POLLIN, 0},
                      {wants_input ? input : -1, POLLIN, 0},
                      {channel_->news(), POLLIN, 0}};
    if (::poll(waits, 4, -1) < 0 && errno != EINTR) {
      return err(ErrorCode::kIo, "nothing can be waited for: {}", std::strerror(errno));
    }
    if (waits[3].revents != 0) hear_news(rules);
    if (waits[1].revents != 0) {
      for (int number = 0; (number = rules.signals->next()) != 0;) {
        if (rules.signals_stop) return std::optional<sys::EndFrame>();
        if (lost_ && number != SIGWINCH) return err(given_up);
        if (const auto frame = rules.on_signal(number)) out_ += sys::to_bytes(*frame);
      }
    }
    if (waits[2].revents != 0 && !read_input(rules)) return err(given_up);
    if ((waits[0].revents & POLLOUT) != 0) send();
    if ((waits[0].revents & ~POLLOUT) != 0) {
      DIVVY_TRY(end, receive(rules));
      if (end) return end;
    }
  }
}

void MemberStream::hear_news(const Rules& rules) {
  std::uint64_t rung = 0;
  (void)!::read(channel_->news(), &rung, sizeof rung);
  const bool lost = channel_->is_lost();
  if (!rules.on_loss || lost == lost_) return;
  lost_ = lost;
  rules.on_loss(lost);
}

bool MemberStream::read_input(Rules& rules) {
  std::array<char, kPiece> piece;
  const ssize_t got = ::read(rules.ends.input, piece.data(), piece.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got > 0) {
    const std::string_view typed(piece.data(), static_cast<std::size_t>(got));
    // A terminal that is handed through makes no signal of it.
    if (lost_ && typed.find(kInterrupt) != std::string_view::npos &&
        ::isatty(rules.ends.input) == 1) {
      return false;
    }
    out_ += sys::to_bytes(sys::InputFrame{std::string(typed)});
    return true;
  }
  rules.ends.input = -1;
  out_ += sys::to_bytes(sys::InputEndFrame{});
  return true;
}

void MemberStream::send() {
  const ssize_t sent =
      ::send(channel_->fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) out_.erase(0, static_cast<std::size_t>(sent));
  // Whoever takes no more may have said why.
  if (sent < 0 && errno != EAGAIN && errno != EINTR) out_.clear();
}

Result<std::optional<sys::EndFrame>> MemberStream::receive(Rules& rules) {
  std::array<char, kPiece> piece;
  const ssize_t got = ::recv(channel_->fd(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<sys::EndFrame>();
  if (got <= 0) {
    DIVVY_RETURN_IF_ERROR(channel_->result());
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
    if (!rules.first_input.empty()) {
      out_ += sys::to_bytes(sys::InputFrame{std::move(rules.first_input)});
    }
    if (rules.on_start) return rules.on_start(started->takes_input, rules.ends);
  } else if (const auto* const output = std::get_if<sys::OutputFrame>(&frame)) {
    if (rules.on_output) return rules.on_output(output->bytes);
    if (rules.ends.output >= 0) return write_all(rules.ends.output, output->bytes);
  } else if (const auto* const error = std::get_if<sys::ErrorFrame>(&frame)) {
    if (rules.ends.error >= 0) return write_all(rules.ends.error, error->bytes);
  }
  return {};
}

}  // namespace divvy::cli
