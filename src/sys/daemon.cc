#include "sys/daemon.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <thread>

#include "base/trusted_path.h"
#include "sys/process.h"

namespace divvy::sys {
namespace {

Status make_folder(const std::filesystem::path& folder, mode_t mode) {
  std::error_code code;
  std::filesystem::create_directories(folder.parent_path(), code);
  if (::mkdir(folder.c_str(), mode) == 0) {
    ::chmod(folder.c_str(), mode);  // Whatever the umask
    return {};
  }
  const int reason = errno;
  struct stat status{};
  if (reason != EEXIST || ::stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return err(ErrorCode::kIo, "the folder {} could not be made: {}", folder.string(),
               std::strerror(reason));
  }
  // In a folder of somebody else, others could put their sockets in place of ours.
  if (status.st_uid != ::geteuid()) {
    return err(ErrorCode::kPermissionDenied,
               "the folder {} belongs to another user; name one of your own with --run-dir or "
               "DIVVY_RUN_DIR",
               folder.string());
  }
  return {};
}

// A daemon that was killed while it started a process has left its lock in that one's hands, until
// it is the program that it should become.
constexpr std::chrono::seconds kChildrenLetGo{5};

bool is_gone(const std::string& pid) {
  const long number = std::strtol(pid.c_str(), nullptr, 10);
  return number > 0 && ::kill(static_cast<pid_t>(number), 0) != 0 && errno == ESRCH;
}

Result<UniqueFd> lock(const std::filesystem::path& path,
                      const std::function<std::string(const std::string& pid)>& taken) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file) {
    return err(ErrorCode::kIo, "{} could not be opened: {}", path.string(), std::strerror(errno));
  }
  const auto patience = std::chrono::steady_clock::now() + kChildrenLetGo;
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    std::string pid = "unknown";
    std::ifstream(path) >> pid;
    if (!is_gone(pid) || std::chrono::steady_clock::now() > patience) {
      return err({ErrorCode::kAlreadyExists, taken(pid)});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::ftruncate(file.get(), 0) != 0 ||
      ::pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return err(ErrorCode::kIo, "{} could not be written: {}", path.string(), std::strerror(errno));
  }
  return file;
}

}  // namespace

Status make_folders(const std::filesystem::path& run, const std::filesystem::path& state) {
  DIVVY_RETURN_IF_ERROR(make_folder(run, ::geteuid() == 0 ? 0755 : 0700));
  // Commands ask the same before they believe what answers there.
  if (const Status trusted = check_trusted_folder(run); !trusted) {
    return err(trusted.error().code,
               "{} cannot be the run folder, because {}; name another with --run-dir or "
               "DIVVY_RUN_DIR",
               run.string(), trusted.error().message);
  }
  // Others may pass through to the driver's files that are kept in it for containers.
  return make_folder(state, ::geteuid() == 0 ? 0711 : 0700);
}

Result<UniqueFd> lock_run_folder(const std::filesystem::path& run) {
  return lock(run / "divvyd.lock", [&run](const std::string& pid) {
    return fmt::format(
        "a divvyd (pid {}) runs in {} already; use that one, stop it, or choose another folder "
        "with --run-dir",
        pid, run.string());
  });
}

Result<UniqueFd> lock_state_folder(const std::filesystem::path& state) {
  return lock(state / "ledger.lock", [&state](const std::string& pid) {
    return fmt::format(
        "a divvyd (pid {}) keeps its ledger in {} already; use that one, stop it, or choose "
        "another folder with --state-dir",
        pid, state.string());
  });
}

Status give_socket(const std::filesystem::path& socket, mode_t mode, const std::string& group) {
  gid_t gid = ::getegid();
  if (!group.empty()) {
    const auto found = group_id(group);
    if (!found) return err(ErrorCode::kNotFound, "there is no group {} on this machine", group);
    gid = *found;
  }
  struct stat status{};
  const bool stays = ::stat(socket.c_str(), &status) == 0 && status.st_gid == gid;
  // First the group: while it is the old one, its members must not have the new rights.
  if ((!stays && (::chmod(socket.c_str(), 0600) != 0 ||
                  ::chown(socket.c_str(), static_cast<uid_t>(-1), gid) != 0)) ||
      ::chmod(socket.c_str(), mode) != 0) {
    return err(ErrorCode::kPermissionDenied, "the rights of {} could not be changed: {}",
               socket.string(), std::strerror(errno));
  }
  return {};
}

Result<Background> Background::enter(const std::filesystem::path& log_file) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) {
    return err(ErrorCode::kResourceExhausted, "no pipe: {}", std::strerror(errno));
  }
  UniqueFd reading(pipe[0]);
  UniqueFd writing(pipe[1]);
  const UniqueFd log(::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!log || !null) {
    return err(ErrorCode::kIo, "{} could not be opened: {}", log_file.string(),
               std::strerror(errno));
  }
  const pid_t child = ::fork();
  if (child < 0) return err(ErrorCode::kResourceExhausted, "no process: {}", std::strerror(errno));
  if (child > 0) {
    writing.reset();
    std::string message;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(reading.get(), buffer, sizeof buffer)) != 0;) {
      if (got > 0) message.append(buffer, static_cast<std::size_t>(got));
      if (got < 0 && errno != EINTR) break;
    }
    if (message.empty()) message = "\1divvyd ended at once; see " + log_file.string();
    if (message.size() > 1) std::fprintf(stderr, "divvyd: %s\n", message.c_str() + 1);
    ::_exit(message[0]);
  }
  ::setsid();
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
  ::dup2(log.get(), STDERR_FILENO);
  (void)!::chdir("/");
  Background background;
  background.parent_ = std::move(writing);
  return background;
}

void Background::tell(const Status& status, int exit_status) {
  if (!status) std::cerr << "divvyd: " << status.error().message << std::endl;
  if (!parent_) return;
  // The status is one byte, the message follows.
  std::string text(1, static_cast<char>(exit_status));
  if (!status) text += status.error().message;
  (void)!::write(parent_.get(), text.data(), text.size());
  parent_.reset();
}

void share_one_heap() { ::mallopt(M_ARENA_MAX, 1); }

void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace divvy::sys
