#include "share/mps_control.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>
#include <vector>

#include "sys/pipe.h"

extern char** environ;

namespace divvy::share {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAnswerTimeout{3000};
constexpr milliseconds kBetweenQuestions{20};
constexpr std::size_t kLastWords = 600;

Result<std::string> find_program(const std::string& program) {
  const auto runnable = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (program.find('/') != std::string::npos) {
    if (runnable(program)) return program;
  } else if (const char* path = std::getenv("PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      std::string candidate = (fs::path(rest.substr(0, colon)) / program).string();
      if (colon > 0 && runnable(candidate)) return candidate;
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
  }
  return err(ErrorCode::kUnsupported,
             "mode mps needs {}, which is not in PATH; it comes with the driver's utilities "
             "(nvidia-compute-utils, nvidia-cuda-mps). Install it, or ask for --mode timeslice",
             program);
}

// Our environment with what the control daemon has to know, and without what would put the daemon
// into a slice or at another one's pipes.
std::vector<std::string> environment_for(const model::GpuUuid& gpu, const fs::path& pipe,
                                         const fs::path& log) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    if (name.starts_with("CUDA_MPS_") || name == "CUDA_VISIBLE_DEVICES" || name == "LD_PRELOAD" ||
        name == "DIVVY_SOCKET") {
      continue;
    }
    variables.emplace_back(variable);
  }
  variables.push_back("CUDA_VISIBLE_DEVICES=" + gpu.str());
  variables.push_back("CUDA_MPS_PIPE_DIRECTORY=" + pipe.string());
  variables.push_back("CUDA_MPS_LOG_DIRECTORY=" + log.string());
  return variables;
}

// A process of its own session with default signals, whose standard streams are these descriptors.
Result<pid_t> spawn(const std::string& program, const char* argument,
                    std::vector<std::string> variables, int input, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, input, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));

  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string name = program;
  std::string word = argument == nullptr ? "" : argument;
  char* arguments[] = {name.data(), argument == nullptr ? nullptr : word.data(), nullptr};
  pid_t pid = -1;
  const int code =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    return err(ErrorCode::kIo, "{} cannot be started: {}", program,
               std::generic_category().message(code));
  }
  return pid;
}

bool wait_readable(int fd, milliseconds timeout) {
  pollfd entry{fd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&entry, 1, static_cast<int>(timeout.count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

// The clients of the daemon may be of any user, whatever the umask.
Status make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) fs::permissions(path, fs::perms(0755), error);
  if (!error) return {};
  return err(ErrorCode::kIo, "cannot make {} for MPS: {}", path.string(), error.message());
}

// The exit status where the process was our child; it may have been an earlier divvyd's.
std::optional<int> collect(pid_t pid) {
  int status = 0;
  pid_t found = 0;
  do {
    found = ::waitpid(pid, &status, 0);
  } while (found < 0 && errno == EINTR);
  if (found != pid) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

MpsControl::MpsControl(model::GpuUuid gpu, fs::path folder, const MpsControlOptions& options)
    : gpu_(std::move(gpu)), folder_(std::move(folder)), options_(options) {}

bool MpsControl::running() const { return process_ && !sys::is_gone(process_.get()); }

Status MpsControl::check_installed(const MpsControlOptions& options) {
  const auto program = find_program(options.program);
  return program ? Status() : Status(err(program.error()));
}

Status MpsControl::start() {
  if (running()) return {};
  forget();
  DIVVY_TRY(program, find_program(options_.program));
  if (take_over() && tell(program, "get_server_list\n", kAnswerTimeout)) return {};
  if (process_) stop();
  DIVVY_RETURN_IF_ERROR(launch(program));
  if (Status answers = wait_until_it_answers(program); !answers) {
    stop();
    return answers;
  }
  return {};
}

Status MpsControl::launch(const std::string& program) {
  for (const fs::path& path : {folder_.parent_path(), folder_, pipe_folder(), log_folder()}) {
    DIVVY_RETURN_IF_ERROR(make_folder(path));
  }
  // What a daemon that died left behind would confuse the next one. The folder itself stays:
  // containers have it mounted.
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(pipe_folder(), ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
  const UniqueFd input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd output(::open((log_folder() / "output.log").c_str(),
                               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!input || !output) {
    return err(ErrorCode::kIo, "cannot write {}: {}", log_folder().string(),
               std::generic_category().message(errno));
  }
  DIVVY_TRY(pid, spawn(program, "-f", environment_for(gpu_, pipe_folder(), log_folder()),
                       input.get(), output.get()));
  DIVVY_TRY(process, sys::open_process(pid));
  process_ = std::move(process);
  name_ = {pid, sys::start_ticks(pid).value_or(0)};
  std::ofstream(folder_ / "process")
      << gpu_.str() << ' ' << name_.pid << ' ' << name_.start_ticks << '\n';
  return {};
}

Status MpsControl::wait_until_it_answers(const std::string& program) {
  const auto deadline = steady_clock::now() + options_.start_timeout;
  while (steady_clock::now() < deadline) {
    // The pause between two questions ends early when the daemon does.
    if (wait_readable(process_.get(), kBetweenQuestions)) {
      const auto status = collect(name_.pid);
      process_.reset();
      return err(ErrorCode::kUnavailable,
                 "the MPS control daemon for {} ended with status {} right after its start{}", gpu_,
                 status.value_or(-1), last_words());
    }
    if (tell(program, "get_server_list\n", kAnswerTimeout)) return {};
  }
  return err(ErrorCode::kTimeout, "the MPS control daemon for {} did not answer within {} ms{}",
             gpu_, options_.start_timeout.count(), last_words());
}

bool MpsControl::take_over() {
  std::ifstream file(folder_ / "process");
  std::string uuid;
  sys::ProcessName name;
  if (!(file >> uuid >> name.pid >> name.start_ticks) || uuid != gpu_.str()) return false;
  auto process = sys::open_process(name);
  if (!process || sys::is_gone(process->get())) return false;
  process_ = std::move(*process);
  name_ = name;
  return true;
}

bool MpsControl::tell(const std::string& program, const std::string& lines,
                      milliseconds timeout) const {
  auto question = sys::make_pipe();
  auto answer = sys::make_pipe();
  if (!question || !answer) return false;
  // The lines fit into the pipe, so that nobody has to read while we write.
  if (::write(question->writer.get(), lines.data(), lines.size()) !=
      static_cast<ssize_t>(lines.size())) {
    return false;
  }
  question->writer.reset();
  const auto pid = spawn(program, nullptr, environment_for(gpu_, pipe_folder(), log_folder()),
                         question->reader.get(), answer->writer.get());
  if (!pid) return false;
  answer->writer.reset();

  std::string said;
  const auto deadline = steady_clock::now() + timeout;
  bool in_time = true;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0 || !wait_readable(answer->reader.get(), left)) {
      in_time = false;
      ::kill(*pid, SIGKILL);
      break;
    }
    char buffer[512];
    const ssize_t count = ::read(answer->reader.get(), buffer, sizeof buffer);
    if (count <= 0) break;
    if (said.size() < kLastWords) said.append(buffer, static_cast<std::size_t>(count));
  }
  const auto status = collect(*pid);
  // Older versions say that they found nobody and still exit with 0.
  return in_time && status == 0 && said.find("Cannot find MPS") == std::string::npos;
}

void MpsControl::stop() {
  if (running()) {
    if (const auto program = find_program(options_.program)) {
      const auto seconds =
          std::chrono::duration_cast<std::chrono::seconds>(options_.quit_timeout).count();
      const std::string quit = seconds > 0 ? fmt::format("quit -t {}\n", seconds) : "quit\n";
      (void)tell(*program, quit, options_.quit_timeout + kAnswerTimeout);
    }
    for (const int signal : {0, SIGTERM, SIGKILL}) {
      // The name guards against another process under the same number.
      if (signal != 0 && sys::start_ticks(name_.pid) == name_.start_ticks)
        ::kill(name_.pid, signal);
      if (wait_readable(process_.get(), milliseconds(1000))) break;
    }
  }
  forget();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void MpsControl::forget() {
  // One that not even SIGKILL ends is waited for by nobody.
  if (process_ && sys::is_gone(process_.get())) (void)collect(name_.pid);
  process_.reset();
  name_ = {};
}

std::string MpsControl::last_words() const {
  for (const char* name : {"output.log", "control.log"}) {
    std::ifstream file(log_folder() / name);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (text.empty()) continue;
    if (text.size() > kLastWords) text.erase(0, text.size() - kLastWords);
    return ": " + text;
  }
  return {};
}

std::optional<model::GpuUuid> MpsControl::gpu_of_folder(const fs::path& folder) {
  std::ifstream file(folder / "process");
  std::string uuid;
  if (!(file >> uuid)) return std::nullopt;
  auto gpu = model::GpuUuid::parse(uuid);
  if (!gpu) return std::nullopt;
  return *gpu;
}

}  // namespace divvy::share
