// The shepherd at work, from the start of the command to the last word. Inside this room: made by
// run_shepherd in a process of its own, with one thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "run/attachments.h"
#include "run/cgroups.h"
#include "run/kill_schedule.h"
#include "run/member_folder.h"
#include "run/member_program.h"
#include "run/output_log.h"
#include "run/shepherd_messages.h"

namespace divvy::run {

class ShepherdLoop {
 public:
  // `folder`, whose lock the caller holds, outlives it. `signals` is a signalfd with SIGCHLD and
  // the signals that ask the shepherd to end; `listener` is the socket of the member, or is none.
  ShepherdLoop(const MemberFolder& folder, Orders orders, Watch watch, UniqueFd signals,
               UniqueFd listener);

  // Until nothing of the member is left and the last word is written.
  void run();

 private:
  using Moment = std::chrono::steady_clock::time_point;
  enum class Phase {
    kRunning,
    kAsking,    // The command has ended; podman is asked how.
    kRemoving,  // Podman is told to leave nothing.
    kEnding,    // Whoever is left is killed; if there was somebody, podman is told once more.
    kDone,
  };
  struct Caller {
    UniqueFd socket;
    pid_t child = 0;        // started through this connection
    bool is_users = false;  // of the member's user, and not of the daemon alone
  };

  void start();
  void wait_for_something();
  void take_signals();
  void collect_children();
  void child_ended(pid_t pid, int status);
  void read_output(LogStream stream, UniqueFd& pipe);
  void drain_output();

  // --- Ending: shepherd_loop_end.cc ---
  void stop(std::chrono::seconds grace);
  void kill_when_due();
  void signal_all(int number) const;
  // False: it could not be started.
  bool run_aside(ChildPlan plan);
  void begin(Phase phase);
  void aside_ended(int status);
  void find_reason();
  // What all of it used: call it when nobody is left and the group is still there.
  void count_use();
  void finish();
  [[nodiscard]] bool anybody_left();
  [[nodiscard]] std::optional<Moment> next_deadline() const;

  // --- Requests: shepherd_loop_requests.cc ---
  void let_in();
  // False: hang up.
  bool serve(Caller& caller);
  void answer(const Caller& caller, const ShepherdAnswer& answer,
              const std::vector<int>& fds = {}) const;
  void refuse(const Caller& caller, std::string reason) const;
  void handle(Caller& caller, const StopRequest& request, const std::vector<UniqueFd>& fds);
  void handle(Caller& caller, const ExecRequest& request, const std::vector<UniqueFd>& fds);
  void handle(Caller& caller, const CopyRequest& request, const std::vector<UniqueFd>& fds);
  void handle(Caller& caller, const AttachRequest& request, const std::vector<UniqueFd>& fds);
  void handle(Caller& caller, const CloseInputRequest& request, const std::vector<UniqueFd>& fds);
  void handle(Caller& caller, const SignalRequest& request, const std::vector<UniqueFd>& fds);
  void start_for(Caller& caller, ChildPlan plan, const std::vector<UniqueFd>& fds);
  void hang_up(Caller& caller);

  const MemberFolder& folder_;
  Orders orders_;
  Watch watch_;
  UniqueFd signals_;
  UniqueFd listener_;
  SystemClock clock_;
  std::unique_ptr<MemberProgram> program_;
  Cgroup group_;
  OutputLog log_;
  Attachments attachments_;
  std::vector<std::unique_ptr<Caller>> callers_;

  Phase phase_ = Phase::kRunning;
  pid_t command_ = 0;
  UniqueFd output_;
  UniqueFd error_;
  UniqueFd input_;  // our end, where the member keeps its input
  std::optional<Moment> kill_at_;
  bool asked_ = false;   // to end
  bool killed_ = false;  // because the time was over
  std::chrono::seconds grace_{0};
  model::MemberEnd end_;
  bool start_failed_ = false;

  pid_t aside_ = 0;  // what podman is doing for the present phase
  UniqueFd aside_output_;
  std::optional<Moment> aside_until_;
  bool removed_ = false;
  bool killed_leftovers_ = false;
  KillSchedule kills_;
};

}  // namespace divvy::run
