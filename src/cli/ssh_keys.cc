#include "cli/ssh_keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/text.h"
#include "model/name.h"
#include "sys/durable_file.h"
#include "sys/exec_pointers.h"

extern char** environ;

namespace divvy::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestKey = 16'384;
constexpr std::size_t kLongestFile = std::size_t{64} << 20;
constexpr const char* kHosts = "hosts";
constexpr const char* kPublic = ".pub";

Status generate(const fs::path& file) {
  std::vector<std::string> words{"ssh-keygen", "-q", "-t",    "ed25519", "-N",
                                 "",           "-C", "divvy", "-f",      file.string()};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // Standard output may be somebody's connection.
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, words.front().c_str(), &actions, nullptr,
                                    sys::exec_pointers(words).data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return err(ErrorCode::kNotFound,
               "ssh-keygen is needed on this machine: {}; install openssh-client",
               std::strerror(failed));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return err(ErrorCode::kIo, "ssh-keygen could make no key in {}", file.string());
}

Status make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return err(ErrorCode::kIo, "{}: {}", folder.string(), std::strerror(errno));
}

// One line of "ssh-ed25519 AAAA... divvy".
Result<std::string> read_public(int folder, const std::string& name) {
  DIVVY_TRY(text, sys::read_file(folder, name + kPublic, kLongestKey));
  const std::string_view line = trim(text);
  if (!line.starts_with("ssh-ed25519 ") || line.find('\n') != std::string_view::npos) {
    return err(ErrorCode::kDataLoss, "{}{} is no public key", name, kPublic);
  }
  return std::string(line);
}

}  // namespace

std::string ssh_host_of(const std::string& job, std::uint32_t rank) {
  return to_lower(rank == 0 ? "divvy-" + job : fmt::format("divvy-{}-{}", job, rank));
}

Result<SshKeys> SshKeys::open(const Environment& environment) {
  DIVVY_TRY(config, client_config_file(environment));
  const fs::path folder = fs::absolute(config.parent_path()) / "ssh";
  std::error_code code;
  fs::create_directories(folder.parent_path(), code);
  DIVVY_RETURN_IF_ERROR(make_folder(folder));
  DIVVY_TRY(fd, sys::open_folder(folder.string()));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return err(
        ErrorCode::kPermissionDenied,
        "{} has keys in it, and others can get at them; chmod 700 it, and it has to be yours",
        folder.string());
  }
  SshKeys keys(folder, std::move(fd));
  DIVVY_TRY(locked, keys.lock());
  DIVVY_RETURN_IF_ERROR(keys.make_key("id_ed25519"));
  return keys;
}

Result<UniqueFd> SshKeys::lock() const {
  UniqueFd file(
      ::openat(fd_.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file || ::flock(file.get(), LOCK_EX) != 0) {
    return err(ErrorCode::kIo, "{}: {}", (folder_ / "lock").string(), std::strerror(errno));
  }
  return file;
}

Status SshKeys::make_key(const std::string& name) const {
  const fs::path file = folder_ / name;
  std::error_code code;
  if (fs::exists(file, code)) return {};
  const fs::path fresh = file.string() + ".new";
  fs::remove(fresh, code);
  DIVVY_RETURN_IF_ERROR(generate(fresh));
  // The private one last: where it is, there is the public one, too.
  for (const char* const which : {kPublic, ""}) {
    if (::rename((fresh.string() + which).c_str(), (file.string() + which).c_str()) != 0) {
      return err(ErrorCode::kIo, "{}{}: {}", file.string(), which, std::strerror(errno));
    }
  }
  return {};
}

Status SshKeys::write_known_hosts() const {
  std::vector<std::string> lines;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / kHosts, code)) {
    if (entry.path().extension() != kPublic) continue;
    const std::string host = entry.path().stem().string();
    const auto key = read_public(fd_.get(), (fs::path(kHosts) / host).string());
    if (key) lines.push_back(fmt::format("{} {}\n", host, *key));
  }
  std::ranges::sort(lines);
  std::string text;
  for (const std::string& line : lines) text += line;
  return sys::write_whole(fd_.get(), "known_hosts", text);
}

Result<SshKeys::Handover> SshKeys::for_host(const std::string& host) const {
  DIVVY_RETURN_IF_ERROR(model::check_name("host", host));
  const std::string name = (fs::path(kHosts) / host).string();
  DIVVY_TRY(locked, lock());
  DIVVY_RETURN_IF_ERROR(make_folder(folder_ / kHosts));
  DIVVY_RETURN_IF_ERROR(make_key(name));
  const auto known = sys::read_file(fd_.get(), "known_hosts", kLongestFile);
  // Whatever key it has there: another one than ours is for ssh to refuse.
  if (!known || ("\n" + *known).find("\n" + host + " ") == std::string::npos) {
    DIVVY_RETURN_IF_ERROR(write_known_hosts());
  }
  Handover handover;
  DIVVY_TRY(login, read_public(fd_.get(), "id_ed25519"));
  DIVVY_TRY(key, sys::read_file(fd_.get(), name, kLongestKey));
  handover.login = std::move(login);
  handover.host = std::move(key);
  return handover;
}

}  // namespace divvy::cli
