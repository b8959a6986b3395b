#include "cli/raw_terminal.h"

#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace divvy::cli {

Result<RawTerminal> RawTerminal::take() {
  termios before{};
  if (::tcgetattr(STDIN_FILENO, &before) != 0) {
    return err(ErrorCode::kFailedPrecondition, "standard input is no terminal; leave out -t");
  }
  termios raw = before;
  ::cfmakeraw(&raw);
  if (::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0) {
    return err(ErrorCode::kIo, "the terminal: {}", std::strerror(errno));
  }
  return RawTerminal(before);
}

RawTerminal::RawTerminal(RawTerminal&& other) noexcept
    : before_(std::exchange(other.before_, std::nullopt)) {}

RawTerminal::~RawTerminal() {
  if (before_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before_);
}

sys::WindowFrame terminal_size() {
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return {};
  return {.rows = size.ws_row, .columns = size.ws_col};
}

Result<SignalPipe> SignalPipe::create(std::initializer_list<int> signals) {
  sigset_t wanted;
  sigset_t before;
  ::sigemptyset(&wanted);
  for (const int number : signals) ::sigaddset(&wanted, number);
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before);
  const int fd = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) {
    const int reason = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return err(ErrorCode::kResourceExhausted, "signals: {}", std::strerror(reason));
  }
  return SignalPipe(fd, before);
}

SignalPipe::SignalPipe(SignalPipe&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), before_(other.before_) {}

SignalPipe::~SignalPipe() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int SignalPipe::next() const {
  signalfd_siginfo info{};
  return ::read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace divvy::cli
