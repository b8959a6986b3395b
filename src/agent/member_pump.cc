#include "agent/member_pump.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

namespace divvy::agent {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;
// Beyond it nothing more is read on that side until some is gone. More for input, because signals
// come behind it.
constexpr std::size_t kMostOutput = std::size_t{256} << 10;
constexpr std::size_t kMostInput = std::size_t{1} << 20;
// So much always fits into a pipe that can be written to.
constexpr std::size_t kAtOnce = 4096;
constexpr std::chrono::seconds kFarewell{10};

}  // namespace

UniqueFd unblocked(UniqueFd fd, bool shared) {
  if (!fd) return fd;
  if (!shared) {
    ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
    return fd;
  }
  const std::string path = fmt::format("/proc/self/fd/{}", fd.get());
  UniqueFd own(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  return own ? std::move(own) : std::move(fd);
}

void end_stream(int peer, std::string_view frames) {
  if (!sys::send_frames(peer, frames)) return;
  ::shutdown(peer, SHUT_WR);
  // Closed with something unread, it would break for those who still pass on what we said.
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    pollfd wait{peer, POLLIN, 0};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0) return;
    std::array<char, kAtOnce> ignored;
    const ssize_t got = ::recv(peer, ignored.data(), ignored.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return;
  }
}

void MemberPump::run() {
  out_ += sys::to_bytes(sys::StartedFrame{static_cast<bool>(parts_.input)});
  while (step()) {
  }
}

bool MemberPump::has_outputs() const {
  return std::ranges::any_of(parts_.outputs,
                             [](const Output& output) { return static_cast<bool>(output.fd); });
}

bool MemberPump::step() {
  if (!last_.empty() && !has_outputs()) {
    end_stream(parts_.peer, out_ + last_);
    return false;
  }
  const bool room = out_.size() < kMostOutput;
  short events = input_.size() < kMostInput ? POLLIN : 0;
  if (!out_.empty()) events = static_cast<short>(events | POLLOUT);
  std::vector<pollfd> waits{{parts_.peer, events, 0},
                            {last_.empty() ? parts_.client->fd() : -1, POLLIN, 0},
                            {input_.empty() ? -1 : parts_.input.get(), POLLOUT, 0}};
  for (const Output& output : parts_.outputs)
    waits.push_back({room ? output.fd.get() : -1, POLLIN, 0});
  const bool only_what_is_there = !last_.empty() && !parts_.all_output && room;
  if (::poll(waits.data(), waits.size(), only_what_is_there ? 0 : -1) < 0) return errno == EINTR;
  bool any = false;
  for (std::size_t i = 0; i < parts_.outputs.size(); ++i) {
    if (waits[i + 3].revents == 0) continue;
    any = true;
    read_output(parts_.outputs[i]);
  }
  if (only_what_is_there && !any) parts_.outputs.clear();
  if (waits[2].revents != 0) write_input();
  if (waits[1].revents != 0) look_at_end();
  if ((waits[0].revents & POLLOUT) != 0 && !flush()) return false;
  if ((waits[0].revents & POLLIN) != 0) return receive();
  return (waits[0].revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

bool MemberPump::flush() {
  const ssize_t sent = ::send(parts_.peer, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  out_.erase(0, static_cast<std::size_t>(sent));
  return true;
}

bool MemberPump::receive() {
  std::array<char, kPiece> piece;
  const ssize_t got = ::recv(parts_.peer, piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  frames_.add({piece.data(), static_cast<std::size_t>(got)});
  for (;;) {
    const auto frame = frames_.next();
    if (!frame) {
      end_stream(parts_.peer, out_ + sys::to_bytes(sys::RefusedFrame{frame.error()}));
      return false;
    }
    if (!*frame) break;
    if (!handle(**frame)) return false;
  }
  // Most of it fits at once.
  write_input();
  return true;
}

bool MemberPump::handle(const sys::Frame& frame) {
  if (const auto* const input = std::get_if<sys::InputFrame>(&frame)) {
    if (parts_.input && !input_ended_) input_ += input->bytes;
  } else if (std::holds_alternative<sys::InputEndFrame>(frame)) {
    input_ended_ = true;
  } else if (const auto* const window = std::get_if<sys::WindowFrame>(&frame)) {
    winsize size{};
    size.ws_row = window->rows;
    size.ws_col = window->columns;
    if (parts_.input) (void)::ioctl(parts_.input.get(), TIOCSWINSZ, &size);
  } else if (const auto* const signal = std::get_if<sys::SignalFrame>(&frame)) {
    if (!last_.empty() || signal->signal <= 0 || signal->signal > SIGRTMAX) return true;
    (void)parts_.client->signal(signal->signal);
    // It may have heard of the end while it waited for an answer.
    look_at_end();
  }
  return true;
}

void MemberPump::write_input() {
  while (!input_.empty() && parts_.input) {
    const ssize_t wrote =
        ::write(parts_.input.get(), input_.data(), std::min(input_.size(), kAtOnce));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) return;
    if (wrote < 0) {
      // Nobody reads it any more.
      input_.clear();
      parts_.input.reset();
      return;
    }
    input_.erase(0, static_cast<std::size_t>(wrote));
  }
  if (input_ended_ && input_.empty()) end_input();
}

void MemberPump::end_input() {
  if (!parts_.input) return;
  switch (parts_.input_end) {
    case Input::kUnclosed:
      return;
    case Input::kClosed:
      parts_.input.reset();
      return;
    case Input::kAttached:
      parts_.input.reset();
      if (last_.empty()) {
        (void)parts_.client->close_input();
        look_at_end();
      }
      return;
  }
}

void MemberPump::read_output(Output& output) {
  std::array<char, kPiece> piece;
  const ssize_t got = ::read(output.fd.get(), piece.data(), piece.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    output.fd.reset();
    return;
  }
  std::string bytes(piece.data(), static_cast<std::size_t>(got));
  out_ += output.is_error ? sys::to_bytes(sys::ErrorFrame{std::move(bytes)})
                          : sys::to_bytes(sys::OutputFrame{std::move(bytes)});
}

void MemberPump::look_at_end() {
  if (!last_.empty()) return;
  const auto end = parts_.client->ended(std::chrono::milliseconds(0));
  if (!end) {
    last_ = sys::to_bytes(sys::RefusedFrame{end.error()});
  } else if (*end) {
    last_ = sys::to_bytes(sys::EndFrame{(*end)->exit_code, (*end)->signal, (*end)->reason});
  }
}

}  // namespace divvy::agent
