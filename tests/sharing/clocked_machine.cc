#include "sharing/clocked_machine.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "abi/nvml.h"
#include "agent/agents.h"
#include "agent/local_agent.h"
#include "agent/tenants.h"
#include "base/clock.h"
#include "base/log.h"
#include "control_parts.h"
#include "driver.h"
#include "ledger/ledger.h"
#include "net/http.h"
#include "net/local_paths.h"
#include "nvml/inventory.h"
#include "share/arbiter.h"
#include "share/keeper.h"
#include "simgpu/fault.h"
#include "simgpu/manual_clock.h"
#include "sys/daemon.h"

namespace divvy::testing {
namespace {

// No part of the lengths of the loads' kernels: what ends between two steps ends anywhere there.
constexpr std::uint64_t kStepNs = 160'000;
constexpr std::chrono::seconds kPatience{30};

std::string config(int gpus) {
  return "clock: manual\ngpus:\n  - model: H200\n    count: " + std::to_string(gpus) + "\n";
}

// The simulated GPUs' own time.
class GpuClock final : public Clock {
 public:
  explicit GpuClock(simgpu::SharedState& gpus) : gpus_(gpus) {}
  [[nodiscard]] TimePoint now() const override {
    return TimePoint(Duration(static_cast<Duration::rep>(gpus_.shared().manual_now_ns.load())));
  }
  [[nodiscard]] WallTime wall_now() const override { return system_.wall_now(); }
  bool wait_until(TimePoint deadline, const std::function<bool()>& stop) override {
    return system_.wait_until(deadline, stop);
  }
  void wake() override { system_.wake(); }

 private:
  simgpu::SharedState& gpus_;
  SystemClock system_;
};

// Whether the program waits for the GPU, and would not go on after what it has been told last.
bool waits(const simgpu::ProcessSlot& slot) {
  return slot.callers_waiting.load() > 0 && slot.caller_seen_wake.load() == slot.wake.load();
}

// A file of the kernel's about a thread, kept open and read again and again.
class ThreadFile {
 public:
  ThreadFile() = default;
  explicit ThreadFile(const std::filesystem::path& path)
      : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ThreadFile(ThreadFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  ThreadFile& operator=(ThreadFile&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ThreadFile(const ThreadFile&) = delete;
  ThreadFile& operator=(const ThreadFile&) = delete;
  ~ThreadFile() {
    if (file_ >= 0) close(file_);
  }
  [[nodiscard]] std::string_view read() {
    const ssize_t got = pread(file_, text_.data(), text_.size(), 0);
    return {text_.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  }

 private:
  int file_ = -1;
  std::array<char, 4096> text_{};
};

// The shim's own thread in a program, which closes a batch that nobody adds to when it has looked
// twice, by the clock on the wall. Seen from outside, by what the kernel tells of it.
class Watcher {
 public:
  explicit Watcher(pid_t pid) : pid_(pid) {
    std::error_code gone;
    const std::filesystem::path threads = "/proc/" + std::to_string(pid) + "/task";
    for (const auto& thread : std::filesystem::directory_iterator(threads, gone)) {
      std::string name;
      std::getline(std::ifstream(thread.path() / "comm"), name);
      const bool main = thread.path().filename() == std::to_string(pid);
      if (main || name == "simgpu") continue;
      syscall_ = ThreadFile(thread.path() / "syscall");
      status_ = ThreadFile(thread.path() / "status");
      found_ = true;
    }
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool found() const { return found_; }

  // It looks again and again while a batch is open, and waits without an end while none is; or for
  // the GPU, where the queue that it writes the end of a batch into is full.
  [[nodiscard]] bool has_nothing_to_look_at() {
    if (!found_) return true;
    std::istringstream words{std::string(syscall_.read())};
    std::string number;
    std::string fds;
    std::string count;
    std::string timeout;
    words >> number >> fds >> count >> timeout;
    return number == std::to_string(SYS_futex) || timeout == "0x0";
  }
  // How often it has gone to sleep: once for each look.
  [[nodiscard]] std::uint64_t looks() {
    constexpr std::string_view kKey = "\nvoluntary_ctxt_switches:\t";
    const std::string_view text = status_.read();
    const std::size_t at = text.find(kKey);
    std::uint64_t count = 0;
    if (at == std::string_view::npos) return count;
    std::from_chars(text.data() + at + kKey.size(), text.data() + text.size(), count);
    return count;
  }

 private:
  pid_t pid_;
  bool found_ = false;
  ThreadFile syscall_;
  ThreadFile status_;
};

template <typename T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

}  // namespace

struct ClockedMachine::Parts {
  explicit Parts(simgpu::SharedState& gpus)
      : keeper(must(share::Keeper::create())),
        library(must(open_driver())),
        gpu_clock(gpus),
        // Gates of simulated GPUs take no time.
        arbiter(gpu_clock, share::Arbiter::Drive::kCaller, {.gate_ns = 0}) {
    const std::filesystem::path run = net::run_folder();
    const std::filesystem::path state = net::state_folder();
    if (const Status made = sys::make_folders(run, state); !made) {
      throw std::runtime_error(made.error().message);
    }
    disk = sys::open_disk(state);
    ledger = must(ledger::Ledger::open(*disk, sys::boot_id()));
    tenants = must(agent::Tenants::create({.library = *library,
                                           .node = must(nvml::take_inventory(*library)),
                                           .arbiter = arbiter,
                                           .keeper = keeper,
                                           .clock = clock,
                                           .run_folder = run,
                                           .ledger = *ledger,
                                           .mps = nullptr,
                                           .containers = nullptr}));
    ControlSettings settings;
    settings.state = state;
    run::MachineRuntime::Options members;
    members.members = state / "members";
    runtime = must(run::MachineRuntime::create(std::move(members), clock));
    local = must(agent::LocalAgent::create({.tenants = *tenants, .runtime = *runtime}));
    agents.emplace(std::vector<agent::Agent*>{local.get()});
    queue = must(ControlSide::create(*agents, clock, std::move(settings)));
    net::HttpServerOptions options;
    options.socket = net::api_socket(run);
    server = must(net::HttpServer::create(options, [this](const auto& request, const auto& caller) {
      return queue->handle(request, caller);
    }));
  }

  share::Keeper keeper;
  std::unique_ptr<nvml::Library> library;
  SystemClock clock;
  GpuClock gpu_clock;
  share::Arbiter arbiter;
  std::unique_ptr<sys::Disk> disk;
  std::unique_ptr<ledger::Ledger> ledger;
  std::unique_ptr<agent::Tenants> tenants;
  std::unique_ptr<run::MachineRuntime> runtime;
  std::unique_ptr<agent::LocalAgent> local;
  std::optional<agent::Agents> agents;
  std::unique_ptr<ControlSide> queue;
  std::unique_ptr<net::HttpServer> server;
  std::map<std::size_t, std::optional<Watcher>> watchers;  // by the place of its process
};

ClockedMachine::ClockedMachine(int gpu_count) : SharingMachine(config(gpu_count)) {
  // Caps follow the power of the last second on the clock on the wall, on which the GPUs' own time
  // says nothing.
  for (int i = 0; i < gpu_count; ++i) {
    simgpu::fail_queries(gpus(), i, simgpu::QueryClass::kPower, NVML_ERROR_NOT_SUPPORTED);
  }
  parts_ = std::make_unique<Parts>(gpus());
}

ClockedMachine::~ClockedMachine() = default;

namespace {

// Waits for what process `pid` will do as soon as it is given a core.
void wait_for(pid_t pid, const std::function<bool()>& done) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("process " + std::to_string(pid) + " never waits");
    }
    std::this_thread::yield();
  }
}

}  // namespace

// A real one is rung for when a context is made.
void ClockedMachine::seen_by_the_arbiter() { parts_->arbiter.step(); }

bool ClockedMachine::is_at_rest(pid_t pid) const {
  return std::ranges::any_of(watched_, [pid](const Tenant* tenant) {
    return tenant->pid() == pid && (tenant->is_idle() || tenant->is_stopped());
  });
}

bool ClockedMachine::is_stopped(pid_t pid) const {
  return std::ranges::any_of(watched_, [pid](const Tenant* tenant) {
    return tenant->pid() == pid && tenant->is_stopped();
  });
}

void ClockedMachine::wait_for_programs() {
  for (const simgpu::ProcessSlot& slot : gpus().shared().slot) {
    if (slot.state.load() == 0) continue;
    wait_for(slot.pid,
             [&] { return slot.state.load() == 0 || waits(slot) || is_at_rest(slot.pid); });
  }
}

void ClockedMachine::wait_for_watchers() {
  struct Looking {
    Watcher& watcher;
    std::uint64_t looks;
  };
  std::vector<Looking> looking;
  for (std::size_t i = 0; i < std::size(gpus().shared().slot); ++i) {
    const simgpu::ProcessSlot& slot = gpus().shared().slot[i];
    if (slot.state.load() == 0 || is_stopped(slot.pid)) continue;
    std::optional<Watcher>& watcher = parts_->watchers[i];
    if (!watcher || watcher->pid() != slot.pid || !watcher->found()) watcher.emplace(slot.pid);
    if (!watcher->has_nothing_to_look_at()) looking.push_back({*watcher, watcher->looks()});
  }
  // All at once: one look of each takes as long as that of one. A look for each step is more often
  // than it looks in real time.
  for (const Looking& one : looking) {
    wait_for(one.watcher.pid(), [&one] {
      return one.watcher.has_nothing_to_look_at() || one.watcher.looks() > one.looks;
    });
  }
}

void ClockedMachine::move_clock(std::uint64_t ns) {
  std::string error;
  constexpr std::uint64_t kPatienceMs = 10'000;
  const auto excused = [this](int pid) { return is_stopped(pid); };
  if (!simgpu::advance_manual_clock(gpus(), ns, &error, kPatienceMs, excused)) {
    throw std::runtime_error(error);
  }
}

void ClockedMachine::advance(std::uint64_t ns) {
  gpus().reap();  // Nobody waits for the dead.
  for (std::uint64_t passed = 0; passed < ns; passed += kStepNs) step();
}

void ClockedMachine::step() {
  wait_for_programs();
  wait_for_watchers();
  move_clock(kStepNs);
  parts_->arbiter.step();
  move_clock(0);  // everybody sees which gates are open now
}

std::uint64_t ClockedMachine::time_to_serve(const Tenant& service) {
  service.ask();
  for (std::uint64_t passed = 0;; passed += kStepNs) {
    wait_for_programs();
    if (service.is_idle()) return passed;
    step();
  }
}

std::vector<double> ClockedMachine::shares_while(std::uint64_t ns,
                                                 const std::vector<const Tenant*>& tenants) {
  std::vector<std::uint64_t> before;
  before.reserve(tenants.size());
  for (const Tenant* tenant : tenants) before.push_back(gpu_ns(tenant->pid()));
  advance(ns);
  std::vector<double> shares;
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    shares.push_back(1000.0 * static_cast<double>(gpu_ns(tenants[i]->pid()) - before[i]) /
                     static_cast<double>(ns));
  }
  return shares;
}

}  // namespace divvy::testing
