// The service manager that started the daemon, as systemd's protocol has it: datagrams of
// "KEY=value" lines to the socket that NOTIFY_SOCKET names. Where nothing is named, all of it does
// nothing. Main makes one before any thread exists and calls it from its own thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace divvy::sys {

class Supervisor {
 public:
  // Nobody is told anything.
  Supervisor() = default;
  // Takes the variables out of the environment: what the daemon starts is not the service.
  [[nodiscard]] static Supervisor from_environment();
  // `address` as in NOTIFY_SOCKET: a path, or '@' and the name of an abstract socket.
  Supervisor(std::string address, std::optional<Duration> watchdog)
      : address_(std::move(address)), watchdog_(watchdog) {}

  // Ready for work; also after reloading().
  void ready(std::string_view status) const;
  void reloading() const;
  void stopping() const;
  // Still alive. To be said more often than watchdog_period(), or the daemon is ended and started
  // anew.
  void alive(std::string_view status) const;

  // How long to wait between two alive(): half of what is asked for. Nothing: nobody asked.
  [[nodiscard]] std::optional<Duration> watchdog_period() const;

 private:
  void tell(const std::string& lines) const;

  std::string address_;
  std::optional<Duration> watchdog_;
};

}  // namespace divvy::sys
