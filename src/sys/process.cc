#include "sys/process.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/text.h"

namespace divvy::sys {

Result<Peer> peer_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return err(ErrorCode::kIo, "the kernel does not say who is at the other end of a socket: {}",
               std::strerror(errno));
  }
  return Peer{credentials.pid, credentials.uid, credentials.gid};
}

Result<UniqueFd> open_process(pid_t pid) {
  // glibc 2.36 has pidfd_open, older ones do not; the number is the same everywhere.
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (fd) return fd;
  if (errno == ESRCH || errno == EINVAL) {
    return err(ErrorCode::kNotFound, "there is no process {}", pid);
  }
  return err(ErrorCode::kIo, "process {} cannot be watched: {}", pid, std::strerror(errno));
}

Result<UniqueFd> open_process(const ProcessName& name) {
  DIVVY_TRY(fd, open_process(name.pid));
  // Looked at after the descriptor was opened, so that both are about the same process.
  if (start_ticks(name.pid) != name.start_ticks) {
    return err(ErrorCode::kNotFound, "process {} is another one now", name.pid);
  }
  return fd;
}

bool is_gone(int process) {
  pollfd wait{process, POLLIN, 0};
  return ::poll(&wait, 1, 0) == 1;
}

std::optional<std::uint64_t> start_ticks(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The name in parentheses may hold spaces and parentheses itself; what follows the last one is
  // numbers. The start is the 22nd field, and the first after the name is the third.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) {
    if (!(fields >> field)) return std::nullopt;
  }
  std::uint64_t ticks = 0;
  const auto [end, code] = std::from_chars(field.data(), field.data() + field.size(), ticks);
  if (code != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return ticks;
}

std::optional<uid_t> owner_of(pid_t pid) {
  // Not who owns the folder in /proc: of a program that its user cannot read that is root.
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; file >> word;) {
    uid_t uid = 0;
    if (word == "Uid:" && file >> uid) return uid;
  }
  return std::nullopt;
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

std::string user_name(uid_t uid) {
  // Not getpwuid: a program that is linked statically or runs in a bare image has no name service,
  // and a slow one must not hold the daemon.
  std::ifstream file("/etc/passwd");
  std::string wanted = std::to_string(uid);
  for (std::string line; std::getline(file, line);) {
    const auto fields = split(line, ':');
    if (fields.size() > 2 && fields[2] == wanted) return std::string(fields[0]);
  }
  return wanted;
}

std::optional<gid_t> group_id(const std::string& name) {
  const auto number = [](std::string_view text) -> std::optional<gid_t> {
    gid_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || code != std::errc() || end != text.data() + text.size()) return {};
    return value;
  };
  std::ifstream file("/etc/group");  // For the same reasons
  for (std::string line; std::getline(file, line);) {
    const auto fields = split(line, ':');
    if (fields.size() > 2 && fields[0] == name) return number(fields[2]);
  }
  return number(name);
}

}  // namespace divvy::sys
