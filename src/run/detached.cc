#include "run/detached.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"
#include "run/shepherd.h"
#include "sys/exec_pointers.h"

extern char** environ;

namespace divvy::run {
namespace {

bool is_for_tenants_only(std::string_view entry) {
  constexpr std::array<std::string_view, 5> kNames = {
      "LD_PRELOAD=", "DIVVY_SOCKET=", "DIVVY_MEMBER=", "CUDA_VISIBLE_DEVICES=", "CUDA_MPS_"};
  return std::ranges::any_of(kNames, [entry](auto name) { return entry.starts_with(name); });
}

// posix_spawn, because the daemon has threads and much memory.
Result<pid_t> spawn(const std::string& what, std::vector<std::string> words,
                    const MemberFolder& folder, int channel, int secrets) {
  const std::string log = folder.path() / (what + ".log");
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_for_tenants_only(*entry)) variables.emplace_back(*entry);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, channel, kShepherdChannel);
  if (secrets >= 0) ::posix_spawn_file_actions_adddup2(&actions, secrets, kShepherdSecrets);
  // It lives longer than the daemon: a connection that it held would stay open for the other side.
  ::posix_spawn_file_actions_addclosefrom_np(
      &actions, (secrets >= 0 ? kShepherdSecrets : kShepherdChannel) + 1);
  sigset_t none;
  sigset_t usual;
  ::sigemptyset(&none);
  ::sigfillset(&usual);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const std::string program = words[0];
  // What people see in a list of processes.
  if (program == "/proc/self/exe") words[0] = "divvyd";
  const int failed =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, sys::exec_pointers(words).data(),
                    sys::exec_pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed == 0) return pid;
  return err(ErrorCode::kResourceExhausted, "no {} could be started: {}", what,
             std::strerror(failed));
}

// What it says until it closes the channel or the time is over.
std::string hear(int channel, std::chrono::seconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  std::string text;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wait{channel, POLLIN, 0};
    if (left.count() <= 0 || text.size() > 65536) return text;
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[1024];
    const ssize_t got = ::read(channel, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    // Not until it is closed: another process of the daemon may have been forked in between and
    // hold it open.
    if (text == kShepherdReady) return text;
  }
}

}  // namespace

Status start_detached(const std::string& what, std::vector<std::string> words,
                      const MemberFolder& folder, std::chrono::seconds patience,
                      const UniqueFd& secrets) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return err(ErrorCode::kResourceExhausted, "no pipe: {}", std::strerror(errno));
  }
  const UniqueFd channel(ends[0]);
  UniqueFd theirs(ends[1]);
  // A descriptor that is the one wanted already would be closed by its own flag.
  if (theirs.get() == kShepherdChannel) theirs = UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  const UniqueFd kept(secrets ? ::fcntl(secrets.get(), F_DUPFD_CLOEXEC, 10) : -1);
  if (secrets && !kept) {
    return err(ErrorCode::kResourceExhausted, "no descriptor: {}", std::strerror(errno));
  }
  words.push_back(folder.path().string());
  DIVVY_TRY(pid, spawn(what, std::move(words), folder, theirs.get(), kept.get()));
  theirs.reset();
  const std::string said = hear(channel.get(), patience);
  // The process that was started ends at once, and the one that stays is a child of its own. One
  // that has not come so far will not: what it finds when it does is a member that was given up.
  if (said.empty()) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (said == kShepherdReady) return {};
  return err(ErrorCode::kUnavailable, "the {} of {} did not start: {}", what,
             to_string(folder.key()), said.empty() ? "it said nothing" : said);
}

}  // namespace divvy::run
