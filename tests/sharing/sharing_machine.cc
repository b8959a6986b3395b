#include "sharing/sharing_machine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace divvy::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{30};

pid_t spawn_shell(const std::string& command, int* output, int* input = nullptr) {
  int ends[2];
  int words[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0 || (input != nullptr && pipe2(words, O_CLOEXEC) != 0)) {
    throw std::runtime_error("no pipe");
  }
  const pid_t pid = fork();
  // A pid of -1 would mean everybody to kill().
  if (pid < 0) throw std::runtime_error("no process");
  if (pid == 0) {
    dup2(ends[1], 1);
    if (input != nullptr) dup2(words[0], 0);
    // Nobody outlives a test that was stopped.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // `exec`, so that the pid is the command's own.
    const std::string line = "exec " + command;
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  *output = ends[0];
  if (input != nullptr) {
    close(words[0]);
    *input = words[1];
  }
  return pid;
}

}  // namespace

Tenant::~Tenant() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_);
  if (input_ >= 0) close(input_);
}

bool Tenant::says(const std::string& line) {
  const auto deadline = Clock::now() + kPatience;
  while (seen_.find(line + "\n") == std::string::npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{output_, POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) <= 0) return false;
    char buffer[512];
    const ssize_t got = read(output_, buffer, sizeof buffer);
    if (got <= 0) return false;
    seen_.append(buffer, static_cast<std::size_t>(got));
  }
  return true;
}

void Tenant::send(int signal) const { ::kill(pid_, signal); }

void Tenant::ask() const {
  if (write(input_, "r", 1) != 1) throw std::runtime_error("it does not listen any more");
}

bool Tenant::is_idle() const {
  int unread = 1;
  if (input_ < 0 || ioctl(input_, FIONREAD, &unread) != 0 || unread > 0) return false;
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(pid_) + "/syscall"), line);
  return line.starts_with(std::to_string(SYS_read) + " 0x0 ");
}

bool Tenant::is_stopped() const {
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(pid_) + "/stat"), line);
  return line.find(") T ") != std::string::npos;
}

int Tenant::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  reaped_ = true;
  return status;
}

SharingMachine::SharingMachine(const std::string& gpus) {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) throw std::runtime_error("no subreaper");
  char name[] = "/tmp/divvy-machine-XXXXXX";
  if (mkdtemp(name) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
  if (gpus.find('\n') == std::string::npos) {
    setenv("DIVVY_SIM_GPUS", gpus.c_str(), 1);
    unsetenv("DIVVY_SIM_CONFIG");
  } else {
    std::ofstream(folder_ + "/gpus.yaml") << gpus;
    setenv("DIVVY_SIM_CONFIG", (folder_ + "/gpus.yaml").c_str(), 1);
    unsetenv("DIVVY_SIM_GPUS");
  }
  setenv("DIVVY_SIM_STATE", (folder_ + "/gpus").c_str(), 1);
  setenv("DIVVY_RUN_DIR", (folder_ + "/run").c_str(), 1);
  setenv("DIVVY_STATE_DIR", (folder_ + "/state").c_str(), 1);
  setenv("LD_LIBRARY_PATH", SIMGPU_FOLDER, 1);
  std::string error;
  state_ = simgpu::SharedState::open(&error);
  if (state_ == nullptr) throw std::runtime_error(error);
}

namespace {

// Those whose environment has this entry, but this process.
std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(process.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    std::ifstream file(process.path() / "environ");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (('\0' + text).find('\0' + entry + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

}  // namespace

void SharingMachine::end_everybody() const {
  const std::string entry = "DIVVY_RUN_DIR=" + folder_ + "/run";
  const bool gone = eventually([&] {
    for (const pid_t pid : processes_with(entry)) ::kill(pid, SIGKILL);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    // A process between fork and exec has no environment to be seen by, but is a child.
    return processes_with(entry).empty() && waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD;
  });
  EXPECT_TRUE(gone) << "a process of the test is left";
}

SharingMachine::~SharingMachine() {
  if (daemon_ > 0) kill_daemon(SIGTERM);
  end_everybody();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void SharingMachine::start_daemon() {
  int output = -1;
  daemon_ = spawn_shell(std::string(DIVVYD_PROGRAM) + " 2>>" + folder_ + "/log", &output);
  close(output);
  if (!eventually([this] {
        int status = 1;
        output_of(std::string(DIVVY_PROGRAM) + " ps -o json 2>/dev/null", &status);
        return status == 0;
      })) {
    throw std::runtime_error("divvyd does not answer; see " + folder_ + "/log");
  }
}

void SharingMachine::kill_daemon(int signal) {
  if (daemon_ <= 0) throw std::logic_error("no daemon runs");
  ::kill(daemon_, signal);
  waitpid(daemon_, nullptr, 0);
  daemon_ = -1;
}

std::unique_ptr<Tenant> SharingMachine::spawn(const std::string& command) {
  int output = -1;
  const pid_t pid = spawn_shell(command, &output);
  return std::make_unique<Tenant>(pid, output);
}

std::unique_ptr<Tenant> SharingMachine::start_ready(const std::string& options,
                                                    const std::string& kind, int* input) {
  int output = -1;
  const pid_t pid = spawn_shell(std::string(DIVVY_PROGRAM) + " run " + options + " -- " +
                                    LOAD_PROGRAM + " " + kind + " 2>>" + folder_ + "/programs.log",
                                &output, input);
  auto tenant = std::make_unique<Tenant>(pid, output, kind == "request" ? *input : -1);
  if (tenant->says("ready")) {
    seen_by_the_arbiter();
    return tenant;
  }
  throw std::runtime_error("divvy run " + options + " -- load " + kind + " did not start:\n" +
                           output_of("cat " + folder_ + "/programs.log " + folder_ + "/log"));
}

std::unique_ptr<Tenant> SharingMachine::start(const std::string& options, const std::string& kind) {
  int input = -1;
  auto tenant = start_ready(options, kind, &input);
  close(input);  // It begins.
  return tenant;
}

std::unique_ptr<Tenant> SharingMachine::start_service(const std::string& options) {
  int input = -1;
  return start_ready(options, "request", &input);
}

std::string SharingMachine::output_of(const std::string& command, int* status) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, got);
  const int ended = pclose(pipe);
  if (status != nullptr) *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  return text;
}

std::string SharingMachine::tenant_names() {
  const std::string json = output_of(std::string(DIVVY_PROGRAM) + " ps -o json");
  std::string names;
  const std::string key = "\n      \"name\": \"";
  for (std::size_t at = json.find(key); at != std::string::npos; at = json.find(key, at + 1)) {
    const std::size_t begin = at + key.size();
    names += json.substr(begin, json.find('"', begin) - begin) + " ";
  }
  return names;
}

std::uint64_t SharingMachine::gpu_ns(pid_t pid) {
  std::uint64_t total = 0;
  for (simgpu::ProcessSlot& slot : state_->shared().slot) {
    if (slot.state.load() == 0 || slot.pid != pid) continue;
    for (const simgpu::ProcessOnGpu& gpu : slot.gpu) total += gpu.consumed_ns.load();
  }
  return total;
}

std::uint64_t SharingMachine::gpu_bytes(int gpu) {
  state_->reap();
  return state_->used_bytes(gpu);
}

void SharingMachine::stop(const Tenant& tenant) {
  const simgpu::Locked nobody_else(gpus().gpu(0).lock);
  tenant.send(SIGSTOP);
  const std::filesystem::path threads = "/proc/" + std::to_string(tenant.pid()) + "/task";
  const auto stopped = [](const std::filesystem::directory_entry& thread) {
    std::string line;
    std::getline(std::ifstream(thread.path() / "stat"), line);
    return line.find(") T ") != std::string::npos;
  };
  if (!eventually(
          [&] { return std::all_of(std::filesystem::directory_iterator(threads), {}, stopped); })) {
    throw std::runtime_error("process " + std::to_string(tenant.pid()) + " does not stop");
  }
}

bool SharingMachine::eventually(const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::vector<double> shares_over(SharingMachine& machine, const std::vector<const Tenant*>& tenants,
                                double seconds) {
  const auto now = [] { return Clock::now(); };
  std::vector<std::uint64_t> before;
  const auto start = now();
  before.reserve(tenants.size());
  for (const Tenant* tenant : tenants) before.push_back(machine.gpu_ns(tenant->pid()));
  std::this_thread::sleep_until(start + std::chrono::duration<double>(seconds));
  std::vector<double> shares;
  const auto elapsed = std::chrono::duration<double, std::nano>(now() - start).count();
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    shares.push_back(1000.0 * static_cast<double>(machine.gpu_ns(tenants[i]->pid()) - before[i]) /
                     elapsed);
  }
  return shares;
}

}  // namespace divvy::testing
