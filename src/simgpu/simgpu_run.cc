#include "simgpu/simgpu_run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <ostream>

namespace divvy::simgpu {
namespace {

constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;
constexpr int kSignalBase = 128;

// Signals that somebody sends to `simgpu run` and means for the command.
constexpr int kPassedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};

std::string for_shell(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string with_folder_first(const std::string& folder) {
  const auto before = process_environment()("LD_LIBRARY_PATH");
  return before ? folder + ":" + *before : folder;
}

// The driver's programs lie beside its libraries.
std::string path_with_programs(const std::string& libraries) {
  return libraries +
         "/bin:" + process_environment()("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
}

[[noreturn]] void become(const std::vector<std::string>& command, const sigset_t& mask) {
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const int reason = errno;
  const std::string text =
      "simgpu: " + command[0] + " cannot be started: " + strerror(reason) + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(kNotFound);
  _exit(reason == ENOENT ? kNotFound : kCannotExecute);
}

// Waits for the child and hands on signals that come meanwhile.
int follow(pid_t child, const sigset_t& watched) {
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
    }
    siginfo_t info{};
    const int signal = sigwaitinfo(&watched, &info);
    // What the terminal sends reaches the child by itself.
    if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) kill(child, signal);
  }
}

int run_and_follow(const std::vector<std::string>& command, std::ostream& err) {
  sigset_t watched;
  sigset_t before;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (const int signal : kPassedOn) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, &before);
  const pid_t child = fork();
  if (child == 0) become(command, before);
  int status = kFailed;
  if (child < 0) {
    err << "simgpu: no process could be started: " << strerror(errno) << "\n";
  } else {
    status = follow(child, watched);
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return status;
}

}  // namespace

std::string library_folder(std::string* error) {
  std::error_code code;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", code);
  const std::filesystem::path folder =
      (self.parent_path().parent_path() / "lib" / "divvy" / "simgpu").lexically_normal();
  if (code || !std::filesystem::exists(folder / "libnvidia-ml.so.1", code)) {
    *error = "the simulated driver is not at " + folder.string() +
             "; keep `bin` and `lib` of the installation beside each other";
    return "";
  }
  return folder.string();
}

int run_command(const Source& source, const std::vector<std::string>& command, std::ostream& err) {
  std::string error;
  const std::string folder = library_folder(&error);
  if (folder.empty()) {
    err << "simgpu: " << error << "\n";
    return kFailed;
  }
  // Whoever names GPUs wants those GPUs, not whatever an outer `simgpu run` has.
  Source own = source;
  const bool names_gpus = !source.gpus.empty() || !source.config.empty();
  const bool shared =
      !source.state.empty() || (!names_gpus && process_environment()("DIVVY_SIM_STATE"));
  if (!shared) {
    own.state =
        "/dev/shm/divvy-simgpu-" + std::to_string(getuid()) + "-run-" + std::to_string(getpid());
    SharedState::remove(own.state);
  }
  if (!export_source(own, &error)) {
    err << "simgpu: " << error << "\n";
    return kMisused;
  }
  // Made here and now, so that a wrong configuration is reported before the command starts.
  if (!std::unique_ptr<SharedState>(SharedState::open(&error))) {
    err << "simgpu: " << error << "\n";
    return kFailed;
  }
  setenv("LD_LIBRARY_PATH", with_folder_first(folder).c_str(), 1);
  setenv("PATH", path_with_programs(folder).c_str(), 1);
  const int status = run_and_follow(command, err);
  if (!shared) SharedState::remove(own.state);
  return status;
}

int env_command(const Source& source, std::ostream& out, std::ostream& err) {
  std::string error;
  const std::string folder = library_folder(&error);
  if (folder.empty() || !export_source(source, &error) ||
      !config_from(process_environment(), &error)) {
    err << "simgpu: " << error << "\n";
    return folder.empty() ? kFailed : kMisused;
  }
  const Environment environment = process_environment();
  out << "export LD_LIBRARY_PATH=" << for_shell(with_folder_first(folder)) << "\n";
  out << "export PATH=" << for_shell(path_with_programs(folder)) << "\n";
  out << "export DIVVY_SIM_STATE=" << for_shell(state_path(environment)) << "\n";
  if (const auto config = environment("DIVVY_SIM_CONFIG")) {
    out << "unset DIVVY_SIM_GPUS\nexport DIVVY_SIM_CONFIG=" << for_shell(*config) << "\n";
  } else {
    out << "unset DIVVY_SIM_CONFIG\nexport DIVVY_SIM_GPUS="
        << for_shell(environment("DIVVY_SIM_GPUS").value_or("1")) << "\n";
  }
  return kDone;
}

}  // namespace divvy::simgpu
