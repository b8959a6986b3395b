#include "sys/supervisor.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "base/unique_fd.h"

namespace divvy::sys {
namespace {

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

std::optional<std::int64_t> number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A line end inside the value would begin another "KEY=value".
std::string one_line(std::string_view status) {
  std::string text(status);
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\0'; }, ' ');
  return text;
}

// The clock by which systemd tells a reload from an earlier one.
std::int64_t monotonic_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

Supervisor Supervisor::from_environment() {
  const std::string address = take_variable("NOTIFY_SOCKET");
  const auto microseconds = number(take_variable("WATCHDOG_USEC"));
  const auto pid = number(take_variable("WATCHDOG_PID"));
  const bool ours = !pid || *pid == ::getpid();
  std::optional<Duration> watchdog;
  if (microseconds && *microseconds > 0 && ours) {
    watchdog = std::chrono::microseconds(*microseconds);
  }
  return {address, watchdog};
}

void Supervisor::ready(std::string_view status) const {
  tell(fmt::format("READY=1\nSTATUS={}", one_line(status)));
}

void Supervisor::reloading() const {
  tell(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=Reading the configuration again.",
                   monotonic_us()));
}

void Supervisor::stopping() const { tell("STOPPING=1\nSTATUS=Ending; tenants go on."); }

void Supervisor::alive(std::string_view status) const {
  tell(fmt::format("WATCHDOG=1\nSTATUS={}", one_line(status)));
}

std::optional<Duration> Supervisor::watchdog_period() const {
  if (address_.empty() || !watchdog_) return std::nullopt;
  return *watchdog_ / 2;
}

void Supervisor::tell(const std::string& lines) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (address_.empty() || (address_[0] != '/' && address_[0] != '@')) return;
  if (address_.size() >= sizeof address.sun_path) return;
  address_.copy(address.sun_path, address_.size());
  // An abstract name begins with a zero byte and has no end but its length.
  if (address_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::sendto(socket.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
                          reinterpret_cast<const sockaddr*>(&address), size) < 0) {
    log_debug("the service manager cannot be told", {{"reason", std::strerror(errno)}});
  }
}

}  // namespace divvy::sys
