#include "proxy/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/text.h"
#include "sys/exec_pointers.h"
#include "sys/process.h"

namespace divvy::proxy {
namespace {

constexpr std::size_t kMostSaid = 600;

Result<pid_t> spawn(std::vector<std::string> words, const std::filesystem::path& log) {
  std::vector<std::string> variables{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  sigset_t none;
  sigset_t usual;
  ::sigemptyset(&none);
  ::sigfillset(&usual);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const int failed =
      ::posix_spawn(&pid, words[0].c_str(), &actions, &attributes, sys::exec_pointers(words).data(),
                    sys::exec_pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed == 0) return pid;
  return err(ErrorCode::kResourceExhausted, "{} could not be started: {}", words[0],
             std::strerror(failed));
}

std::string last_words(const std::filesystem::path& log) {
  std::ifstream file(log);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() > kMostSaid) text.erase(0, text.size() - kMostSaid);
  return escape_for_terminal(trim(text));
}

}  // namespace

std::filesystem::path find_program(const std::string& name) {
  for (const char* folder : {"/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin"}) {
    std::filesystem::path path = std::filesystem::path(folder) / name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

Status run_program(std::vector<std::string> words, const std::filesystem::path& log,
                   std::chrono::seconds patience) {
  const std::string program = words[0];
  DIVVY_TRY(pid, spawn(std::move(words), log));
  const auto life = sys::open_process(pid);
  if (life) {
    pollfd wait{life->get(), POLLIN, 0};
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (left.count() > 0 && ::poll(&wait, 1, static_cast<int>(left.count())) < 0 &&
          errno == EINTR) {
        continue;
      }
      break;
    }
    if (!sys::is_gone(life->get())) ::kill(pid, SIGKILL);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return err(ErrorCode::kFailedPrecondition, "{} {}: {}", program,
             WIFEXITED(status) ? fmt::format("ended with status {}", WEXITSTATUS(status))
                               : fmt::format("was ended by signal {}", WTERMSIG(status)),
             last_words(log));
}

}  // namespace divvy::proxy
