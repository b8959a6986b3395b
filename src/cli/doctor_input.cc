#include "cli/doctor_input.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/text.h"

namespace divvy::cli {
namespace {

// The loader prints why it does not load a library, and starts the program without it.
Status preload(const std::filesystem::path& shim) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return err(ErrorCode::kResourceExhausted, "no pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDERR_FILENO);
  std::string variable = "LD_PRELOAD=" + shim.string();
  std::string program = "/bin/true";
  char* arguments[] = {program.data(), nullptr};
  char* environment[] = {variable.data(), nullptr};
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environment);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  std::string said;
  char buffer[1024];
  for (ssize_t got = 1; failed == 0 && got > 0;) {
    got = ::read(pipe[0], buffer, sizeof buffer);
    if (got > 0) said.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  int status = 0;
  while (failed == 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed != 0) return err(ErrorCode::kIo, "{} could not be started", program);
  if (said.empty() && status == 0) return {};
  return err(ErrorCode::kUnsupported, "{}",
             trim(said.empty() ? "the program ended at once" : said.substr(0, said.find('\n'))));
}

std::uint64_t open_files() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 0;
}

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "unknown";
}

bool clock_is_synchronized() {
  timex question{};
  const int state = ::adjtimex(&question);
  return state >= 0 && (question.status & STA_UNSYNC) == 0;
}

}  // namespace

DoctorInput this_machine(const Services& services) {
  DoctorInput input;
  input.version = services.version;
  input.simulated = services.daemon.simulated;
  input.uid = ::geteuid();
  input.run_folder = services.daemon.socket.parent_path();
  input.state_folder = services.state_folder;
  input.shim = services.libraries.shim;
  const char* path = std::getenv("PATH");
  input.search_path = path == nullptr ? "" : path;
  input.kernel = kernel_release();
  input.open_files = open_files();
  input.now = std::chrono::system_clock::now();
  input.clock_synchronized = clock_is_synchronized();
  input.inventory = services.inventory;
  input.ask_daemon = [daemon = Daemon(services.daemon)](const std::string& what) {
    return daemon.ask("GET", what, {}, std::chrono::seconds(5));
  };
  input.preload = [shim = input.shim] { return preload(shim); };
  if (services.daemon_settings) input.settings = services.daemon_settings();
  return input;
}

}  // namespace divvy::cli
