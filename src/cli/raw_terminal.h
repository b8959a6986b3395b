// The terminal of this process, handed through to another one: every key goes to the other side,
// and the screen takes what comes from there. As before when it goes, however that happens. One at
// a time, on the main thread.
#pragma once

#include <termios.h>

#include <csignal>
#include <initializer_list>
#include <optional>

#include "base/result.h"
#include "sys/frames.h"

namespace divvy::cli {

class RawTerminal {
 public:
  // kFailedPrecondition when standard input is no terminal.
  [[nodiscard]] static Result<RawTerminal> take();
  ~RawTerminal();
  RawTerminal(RawTerminal&& other) noexcept;
  RawTerminal& operator=(RawTerminal&&) = delete;

 private:
  explicit RawTerminal(const termios& before) : before_(before) {}
  std::optional<termios> before_;
};

[[nodiscard]] sys::WindowFrame terminal_size();

// Signals as something to poll for; as before when it goes.
class SignalPipe {
 public:
  [[nodiscard]] static Result<SignalPipe> create(std::initializer_list<int> signals);
  ~SignalPipe();
  SignalPipe(SignalPipe&& other) noexcept;
  SignalPipe& operator=(SignalPipe&&) = delete;

  // Readable when one came.
  [[nodiscard]] int fd() const { return fd_; }
  // The next one; 0: none.
  [[nodiscard]] int next() const;

 private:
  SignalPipe(int fd, const sigset_t& before) : fd_(fd), before_(before) {}
  int fd_;
  sigset_t before_;
};

}  // namespace divvy::cli
