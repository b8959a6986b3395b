#include "cli/pager.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"

extern char** environ;

namespace divvy::cli {

std::optional<std::filesystem::path> find_program(const std::string& name,
                                                  const std::string& path) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    return ::access(name.c_str(), X_OK) == 0 ? std::optional(std::filesystem::path(name))
                                             : std::nullopt;
  }
  for (const std::string_view folder : split(path, ':')) {
    std::filesystem::path file = std::filesystem::path(folder) / name;
    std::error_code code;
    if (std::filesystem::is_regular_file(file, code) && ::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return std::nullopt;
}

Status show_in_pager(std::vector<std::string> command, const std::string& text) {
  // A file and no pipe: a pager that is left early breaks nothing.
  const int input = ::memfd_create("divvy", MFD_CLOEXEC);
  if (input < 0) return err(ErrorCode::kResourceExhausted, "no memory for the page");
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t wrote = ::write(input, rest.data(), rest.size());
    if (wrote <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(wrote));
  }
  ::lseek(input, 0, SEEK_SET);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, arguments.front(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input);
  if (failed != 0) {
    return err(ErrorCode::kIo, "{} could not be started: {}", command.front(),
               std::strerror(failed));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return {};
}

}  // namespace divvy::cli
