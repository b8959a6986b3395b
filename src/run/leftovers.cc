#include "run/leftovers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/log.h"
#include "run/cgroups.h"
#include "run/member_program.h"
#include "sys/exec_pointers.h"
#include "sys/processes.h"

namespace divvy::run {
namespace {

using std::chrono::steady_clock;

// A process dies at once, unless the kernel holds it.
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::seconds kPodmanPatience{60};
constexpr int kPauseMs = 5;
constexpr int kLongestPauseMs = 1'000;
constexpr int kEmptyLooks = 4;

// True when there was somebody.
bool kill_marked(const std::string& name) {
  bool any = false;
  const std::string entry = std::string(kMemberVariable) + "=" + name;
  for (const pid_t pid : sys::processes_with(entry, ::getpid())) {
    const auto mark = sys::mark_of(pid);
    const auto process = mark ? sys::open_process(*mark) : Result<UniqueFd>(UniqueFd());
    if (!process || !*process) continue;
    any = true;
    ::syscall(SYS_pidfd_send_signal, process->get(), SIGKILL, nullptr, 0);
  }
  return any;
}

// A process that is just becoming another program has no mark for that moment: nobody is left only
// when several looks in a row found nobody.
Status kill_processes(const Cgroup& group, const std::string& name) {
  const auto until = steady_clock::now() + kPatience;
  // Each look reads through all processes of the machine: fewer and fewer while nobody dies.
  int pause_ms = kPauseMs;
  for (int empty = 0;;) {
    const bool grouped = group.kill();
    const bool marked = kill_marked(name);
    const bool any = grouped || marked;
    empty = any ? 0 : empty + 1;
    if (empty == kEmptyLooks) return {};
    if (steady_clock::now() > until) {
      return err(ErrorCode::kUnavailable, "a process of {} does not die", name);
    }
    (void)::poll(nullptr, 0, pause_ms);
    pause_ms = any ? std::min(2 * pause_ms, kLongestPauseMs) : kPauseMs;
  }
}

// Without fork: the daemon has threads.
Status run_to_the_end(const ChildPlan& plan) {
  std::vector<std::string> words = plan.words;
  std::vector<std::string> variables;
  for (const auto& [name, value] : plan.environment) {
    // It is not one of the member's processes.
    if (name != kMemberVariable) variables.push_back(fmt::format("{}={}", name, value));
  }
  posix_spawn_file_actions_t streams;
  ::posix_spawn_file_actions_init(&streams);
  for (const int stream : {0, 1, 2}) {
    ::posix_spawn_file_actions_addopen(&streams, stream, "/dev/null", O_RDWR, 0);
  }
  pid_t child = -1;
  const int failed =
      ::posix_spawnp(&child, words[0].c_str(), &streams, nullptr, sys::exec_pointers(words).data(),
                     sys::exec_pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&streams);
  if (failed != 0) return err(ErrorCode::kNotFound, "{} could not be started", words[0]);
  const UniqueFd life(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd wait{life.get(), POLLIN, 0};
  const int ready =
      ::poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(kPodmanPatience).count()));
  if (ready != 1) ::kill(child, SIGKILL);
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    return err(ErrorCode::kUnavailable, "{} did not succeed (status {})", words[0], status);
  }
  return {};
}

ChildPlan remove_as_user(const MemberFolder& folder, const std::vector<std::string>& remover) {
  ChildPlan plan;
  plan.words = remover;
  plan.words.push_back(folder.path().string());
  return plan;
}

}  // namespace

Result<Ending> end_lost_member(const MemberFolder& folder, const std::vector<std::string>& remover,
                               WallTime now) {
  // Where its files are damaged it is still found by its name.
  const Watch watch = folder.watch().value_or(Watch{});
  const Cgroup group = Cgroup::adopt(watch.groups);
  DIVVY_RETURN_IF_ERROR(kill_processes(group, unique_name(folder)));
  const auto orders = folder.orders();
  if (orders) {
    const auto remove = make_program(*orders, folder)->remove();
    if (remove && remove->uid != ::geteuid()) {
      const Status removed = run_to_the_end(remove_as_user(folder, remover));
      // No process of it is left, and what is left is the user's own: who spoils that must not hold
      // a GPU for ever.
      if (!removed) {
        log_warning("the container of a lost member was not removed",
                    {{"member", to_string(folder.key())}, {"reason", removed.error().message}});
      }
    } else if (remove) {
      const Status removed = run_to_the_end(*remove);
      // Where there is no podman there is no container either.
      if (!removed && removed.error().code != ErrorCode::kNotFound) return err(removed.error());
    }
  }
  Ending ending;
  if (orders && !orders->member.container) ending.end.use = group.use();
  for (int tries = 0; tries < 100 && !group.remove(); ++tries) (void)::poll(nullptr, 0, kPauseMs);

  ending.lost = true;
  ending.end.at = now;
  ending.end.signal = SIGKILL;
  const auto damaged = folder.ending();
  if (!damaged && damaged.error().code != ErrorCode::kNotFound) {
    ending.end.reason = "how it ended cannot be read: " + damaged.error().message;
  } else if (watch.shepherd.pid == 0) {
    ending.end.reason = "it was never started";
  } else if (watch.shepherd.boot != sys::this_boot()) {
    ending.end.reason = "the machine was restarted";
  } else {
    ending.end.reason = "the process that looked after it was killed";
  }
  DIVVY_RETURN_IF_ERROR(folder.write(ending));
  return ending;
}

}  // namespace divvy::run
