#include "run/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "run/shepherd_socket.h"
#include "sys/durable_file.h"
#include "sys/exec_pointers.h"

extern char** environ;

namespace divvy::run {
namespace {

constexpr int kNotExecutable = 126;
constexpr int kNoSuchProgram = 127;

struct NamedLimit {
  const char* name;
  int number;
};
constexpr NamedLimit kUlimits[] = {
    {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},         {"cpu", RLIMIT_CPU},
    {"data", RLIMIT_DATA},       {"fsize", RLIMIT_FSIZE},       {"locks", RLIMIT_LOCKS},
    {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
    {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},       {"rss", RLIMIT_RSS},
    {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME},     {"sigpending", RLIMIT_SIGPENDING},
    {"stack", RLIMIT_STACK},
};

// Writes why to the parent and ends.
[[noreturn]] void give_up(int report, int exit_code, const std::string& what) {
  const std::string text =
      fmt::format("{}{}: {}", static_cast<char>(exit_code), what, std::strerror(errno));
  (void)sys::write_all(report, text);
  ::_exit(exit_code);
}

// False with errno set.
bool become_user(const ChildPlan& plan) {
  const bool same = ::geteuid() == plan.uid && ::getegid() == plan.gid;
  if (!same || ::geteuid() == 0) {
    // Where root may not even change its groups, its own jobs keep them; nobody else's do.
    if (::setgroups(plan.groups.size(), plan.groups.data()) != 0 && (!same || errno != EPERM)) {
      return false;
    }
    if (::setresgid(plan.gid, plan.gid, plan.gid) != 0) return false;
    if (::setresuid(plan.uid, plan.uid, plan.uid) != 0) return false;
  }
  return ::getuid() == plan.uid && ::geteuid() == plan.uid && ::getgid() == plan.gid;
}

void set_ulimits(const ChildPlan& plan, int report) {
  for (const auto& [name, limit] : plan.ulimits) {
    const auto number = ulimit_number(name);
    errno = EINVAL;
    if (!number) give_up(report, kNotExecutable, "limits.ulimits: " + name);
    const rlimit value{limit.soft, limit.hard};
    if (::setrlimit(static_cast<__rlimit_resource>(*number), &value) != 0) {
      rlimit own{};
      ::getrlimit(static_cast<__rlimit_resource>(*number), &own);
      errno = EPERM;
      give_up(report, kNotExecutable, ulimit_refusal(name, limit, own.rlim_max));
    }
  }
}

// What the daemon has for itself is not for its jobs: many descriptors, which old programs cannot
// count (they use select), and protection when memory runs out.
void set_usual_limits(const ChildPlan& plan) {
  constexpr rlim_t kUsualDescriptors = 1024;
  rlimit own{};
  if (!plan.ulimits.contains("nofile") && ::getrlimit(RLIMIT_NOFILE, &own) == 0) {
    own.rlim_cur = std::min(own.rlim_max, kUsualDescriptors);
    (void)::setrlimit(RLIMIT_NOFILE, &own);
  }
  const UniqueFd score(::open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
  char text[16] = {};
  if (score && ::read(score.get(), text, sizeof text - 1) > 0 && text[0] == '-') {
    (void)sys::write_all(score.get(), "0");
  }
}

void connect_streams(const ChildPlan& plan, int report) {
  int streams[3] = {plan.input, plan.output, plan.error};
  if (plan.terminal >= 0) {
    if (::ioctl(plan.terminal, TIOCSCTTY, 0) != 0) give_up(report, kNotExecutable, "terminal");
    for (int& stream : streams) stream = plan.terminal;
  }
  for (int& stream : streams) {
    if (stream < 0) stream = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    // Out of the way of 0, 1 and 2, which are filled one after the other.
    stream = ::fcntl(stream, F_DUPFD_CLOEXEC, 10);
    if (stream < 0) give_up(report, kNotExecutable, "its streams");
  }
  for (int i = 0; i < 3; ++i) {
    if (::dup2(streams[i], i) < 0) give_up(report, kNotExecutable, "its streams");
  }
}

void reset_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
}

std::vector<std::string> entries(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> result;
  result.reserve(environment.size());
  for (const auto& [name, value] : environment) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

[[noreturn]] void be_child(const ChildPlan& plan, int report, pid_t parent) {
  ::setsid();
  reset_signals();
  connect_streams(plan, report);
  ::umask(022);
  // While it may still do all that.
  for (const std::string& file_name : plan.cgroup_procs) {
    const UniqueFd file(::open(file_name.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file || !sys::write_all(file.get(), "0")) give_up(report, kNotExecutable, file_name);
  }
  set_usual_limits(plan);
  if (!become_user(plan)) {
    give_up(report, kNotExecutable, fmt::format("it cannot run as user {}", plan.uid));
  }
  // As the user, who cannot go beyond what the daemon has; root could.
  set_ulimits(plan, report);
  if (plan.inside && !plan.inside->enter()) {
    give_up(report, kNotExecutable, fmt::format("the user namespace of user {}", plan.uid));
  }
  // After the change of user, which would take it away again.
  if (plan.dies_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(kNotExecutable);
  }
  const std::string folder = plan.working_directory.empty() ? "/" : plan.working_directory;
  if (::chdir(folder.c_str()) != 0) {
    give_up(report, kNotExecutable, "working directory " + folder);
  }
  std::vector<std::string> variables = entries(plan.environment);
  std::vector<char*> variable_pointers = sys::exec_pointers(variables);
  std::vector<std::string> words = plan.words;
  std::vector<char*> word_pointers = sys::exec_pointers(words);
  environ = variable_pointers.data();
  // Whatever somebody has left open is nothing for a foreign program. On an old kernel it is as it
  // was opened.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  if (plan.kept) {
    report = ::fcntl(report, F_DUPFD_CLOEXEC, 10);
    // Not dup2 alone, which does nothing where it is that one already.
    const int kept = ::fcntl(plan.kept->get(), F_DUPFD_CLOEXEC, 10);
    if (kept < 0 || ::dup2(kept, kKeptDescriptor) < 0) give_up(report, kNotExecutable, "dup2");
  }
  ::execvp(word_pointers[0], word_pointers.data());
  give_up(report, errno == ENOENT ? kNoSuchProgram : kNotExecutable, plan.words[0]);
}

}  // namespace

std::string ulimit_refusal(const std::string& name, const model::Ulimit& limit, std::uint64_t own) {
  const auto shown = [](std::uint64_t value) {
    return value == model::Ulimit::kUnlimited ? "unlimited" : std::to_string(value);
  };
  return fmt::format(
      "limits.ulimits: {} cannot be {}, because the daemon's own is {}; ask for less, or have the "
      "operator raise it (Limit...= in its unit)",
      name, shown(limit.hard), shown(own));
}

Status check_ulimits(const std::map<std::string, model::Ulimit>& ulimits) {
  for (const auto& [name, limit] : ulimits) {
    DIVVY_TRY(number, ulimit_number(name));
    rlimit own{};
    ::getrlimit(static_cast<__rlimit_resource>(number), &own);
    if (limit.hard <= own.rlim_max) continue;
    return err(ErrorCode::kPermissionDenied, "{}", ulimit_refusal(name, limit, own.rlim_max));
  }
  return {};
}

Result<int> ulimit_number(const std::string& name) {
  for (const NamedLimit& limit : kUlimits) {
    if (name == limit.name) return limit.number;
  }
  return err(ErrorCode::kInvalidArgument, "there is no ulimit {}", name);
}

tl::expected<pid_t, ChildFailure> start_child(const ChildPlan& plan) {
  const auto failure = [](int code, std::string message) {
    return tl::unexpected(ChildFailure{code, std::move(message)});
  };
  if (plan.words.empty() || plan.words[0].empty()) {
    return failure(kNoSuchProgram, "there is no command");
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failure(kNotExecutable, std::strerror(errno));
  const UniqueFd told(ends[0]);
  UniqueFd report(ends[1]);
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return failure(kNotExecutable, fmt::format("fork: {}", std::strerror(errno)));
  if (child == 0) be_child(plan, report.get(), self);
  report.reset();
  // Ends without a word when the program is executed, which closes the other side.
  std::string text;
  char buffer[1024];
  for (;;) {
    const ssize_t got = ::read(told.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  if (text.empty()) return child;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return failure(static_cast<unsigned char>(text[0]), text.substr(1));
}

Result<UniqueFd> open_as(const ChildPlan& user, const std::string& path) {
  const auto refused = [&path] {
    return err(ErrorCode::kPermissionDenied, "{} cannot be reached", path);
  };
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return refused();
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    const int fd = become_user(user) ? ::open(path.c_str(), O_PATH | O_CLOEXEC) : -1;
    ::_exit(fd >= 0 && send_shepherd_message(theirs.get(), "opened", std::span(&fd, 1)) ? 0 : 1);
  }
  theirs.reset();
  int status = -1;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  sys::Packet packet = receive_shepherd_packet(ours.get());
  if (status != 0 || packet.fds.size() != 1) return refused();
  return std::move(packet.fds[0]);
}

}  // namespace divvy::run
