// A daemon of its own on simulated GPUs, and programs started under `divvy run`: the fixture of the
// whole-system tests of sharing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simgpu/state.h"

namespace divvy::testing {

// A program under a slice. Killed and reaped when it goes.
class Tenant {
 public:
  // `input`: the other end of what it reads; none: -1.
  Tenant(pid_t pid, int output, int input = -1) : pid_(pid), output_(output), input_(input) {}
  ~Tenant();
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits for a line that the program prints, or for its end.
  [[nodiscard]] bool says(const std::string& line);
  void send(int signal) const;
  // One more byte for it to read.
  void ask() const;
  // It has read all that it was asked, and waits for more.
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] bool is_stopped() const;
  // Waits for its end; as waitpid.
  int wait();

 private:
  pid_t pid_;
  int output_;
  int input_;
  bool reaped_ = false;
  std::string seen_;
};

class SharingMachine {
 public:
  // `gpus` as in DIVVY_SIM_GPUS, or the text of a DIVVY_SIM_CONFIG if it has more than one line.
  explicit SharingMachine(const std::string& gpus);
  virtual ~SharingMachine();
  SharingMachine(const SharingMachine&) = delete;
  SharingMachine& operator=(const SharingMachine&) = delete;

  // Starts the daemon and waits until it answers.
  void start_daemon();
  void kill_daemon(int signal);
  [[nodiscard]] pid_t daemon() const { return daemon_; }

  // `divvy run OPTIONS -- tests/sharing/load KIND`, when it runs.
  [[nodiscard]] std::unique_ptr<Tenant> start(const std::string& options, const std::string& kind);
  // The same with the load `request`, which does nothing until it is asked.
  [[nodiscard]] std::unique_ptr<Tenant> start_service(const std::string& options);
  // Any command line, in the environment of this machine.
  [[nodiscard]] std::unique_ptr<Tenant> spawn(const std::string& command);
  // Runs a command to its end; its output.
  std::string output_of(const std::string& command, int* status = nullptr);

  // Stops a tenant outside the simulated driver. What the driver guards by a lock in shared memory
  // a real one guards in the kernel, where nobody is stopped.
  void stop(const Tenant& tenant);

  // Names of all tenants, in order, each followed by a blank.
  [[nodiscard]] std::string tenant_names();

  // GPU time that a process has had on all GPUs, as the simulated hardware counts it.
  [[nodiscard]] std::uint64_t gpu_ns(pid_t pid);
  // Memory of living processes on a GPU, as the simulated hardware counts it.
  [[nodiscard]] std::uint64_t gpu_bytes(int gpu);

  // Looks again and again until the condition holds; false after half a minute.
  [[nodiscard]] static bool eventually(const std::function<bool()>& condition);

  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] simgpu::SharedState& gpus() { return *state_; }

 private:
  // Whoever has lost its parent is ours: daemons that a command has started while ours was away,
  // and what a daemon that was killed leaves.
  void end_everybody() const;
  std::unique_ptr<Tenant> start_ready(const std::string& options, const std::string& kind,
                                      int* input);
  // A program has its context, and has launched nothing yet.
  virtual void seen_by_the_arbiter() {}

  std::string folder_;
  pid_t daemon_ = -1;
  simgpu::SharedState* state_ = nullptr;
};

// GPU time of each tenant over a stretch of time, in thousandths of that time.
[[nodiscard]] std::vector<double> shares_over(SharingMachine& machine,
                                              const std::vector<const Tenant*>& tenants,
                                              double seconds);

}  // namespace divvy::testing
