#include "run/shepherd_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "sys/cgroup_tree.h"
#include "sys/pipe.h"

namespace divvy::run {
namespace {

// A member without one of its streams is better than none.
sys::Pipe make_pipe() {
  auto pipe = sys::make_pipe();
  if (pipe) return *std::move(pipe);
  log_error("a stream is missing", {{"reason", pipe.error().message}});
  return {};
}

}  // namespace

ShepherdLoop::ShepherdLoop(const MemberFolder& folder, Orders orders, Watch watch, UniqueFd signals,
                           UniqueFd listener)
    : folder_(folder),
      orders_(std::move(orders)),
      watch_(std::move(watch)),
      signals_(std::move(signals)),
      listener_(std::move(listener)),
      program_(make_program(orders_, folder_)),
      log_(folder_.fd(), orders_.member.log_part, orders_.member.log_parts) {}

void ShepherdLoop::start() {
  if (orders_.control_groups) {
    const CgroupPlan plan = plan_cgroup(sys::find_cgroup_tree(), unique_name(folder_));
    // Written down first: whoever comes after a shepherd that was killed has to find them.
    for (const auto& path : plan.folders) watch_.groups.push_back(path.string());
    if (const Status written = folder_.write(watch_); !written) {
      log_error("the watch could not be written", {{"reason", written.error().message}});
    }
    group_ = Cgroup::make(plan, program_->group_limits(), watch_.without);
  } else if (program_->group_limits().ram || program_->group_limits().cpu_milli ||
             program_->group_limits().pids) {
    watch_.without = "no limit on memory, CPU and processes: control groups are switched off";
  }
  if (!watch_.without.empty()) log_.say(watch_.without, clock_.wall_now());

  const Status prepared = program_->prepare();
  auto plan = prepared ? program_->start() : err(prepared.error());
  sys::Pipe output = make_pipe();
  sys::Pipe error = make_pipe();
  sys::Pipe input = orders_.member.keep_input ? make_pipe() : sys::Pipe{};
  tl::expected<pid_t, ChildFailure> child =
      tl::unexpected(ChildFailure{126, plan ? "" : plan.error().message});
  if (plan) {
    plan->input = input.reader.get();
    plan->output = output.writer.get();
    plan->error = error.writer.get();
    plan->cgroup_procs = group_.procs_files();
    // So that it can open /dev/stdout once more, which looks at who owns the pipe.
    for (const int end : {plan->input, plan->output, plan->error}) {
      if (end >= 0) (void)::fchown(end, plan->uid, plan->gid);
    }
    child = start_child(*plan);
  }
  output_ = std::move(output.reader);
  error_ = std::move(error.reader);
  input_ = std::move(input.writer);
  for (const int end : {output_.get(), error_.get()}) ::fcntl(end, F_SETFL, O_NONBLOCK);
  if (child) {
    command_ = *child;
    watch_.pid = command_;
  } else {
    end_.exit_code = child.error().exit_code;
    end_.reason = "could not be started: " + child.error().message;
    log_.say(end_.reason, clock_.wall_now());
    start_failed_ = true;
    begin(Phase::kEnding);
  }
  if (const Status written = folder_.write(watch_); !written) {
    log_error("the watch could not be written", {{"reason", written.error().message}});
  }
}

void ShepherdLoop::run() {
  start();
  while (phase_ != Phase::kDone) wait_for_something();
  finish();
}

void ShepherdLoop::wait_for_something() {
  std::vector<pollfd> waits = {{signals_.get(), POLLIN, 0},
                               {output_.get(), POLLIN, 0},
                               {error_.get(), POLLIN, 0},
                               {listener_.get(), POLLIN, 0}};
  const std::size_t fixed = waits.size();
  for (const auto& caller : callers_) waits.push_back({caller->socket.get(), POLLIN, 0});

  int timeout = -1;
  if (const auto deadline = next_deadline()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now());
    timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }
  const int ready = ::poll(waits.data(), waits.size(), timeout);
  if (ready < 0 && errno != EINTR) log_error("poll", {{"reason", std::strerror(errno)}});

  // Output before ends, so that a member's last line comes before the news that it is gone.
  if (waits[1].revents != 0) read_output(LogStream::kStdout, output_);
  if (waits[2].revents != 0) read_output(LogStream::kStderr, error_);
  if (waits[0].revents != 0) take_signals();
  std::vector<Caller*> knocking;
  for (std::size_t i = fixed; i < waits.size(); ++i) {
    if (waits[i].revents != 0) knocking.push_back(callers_[i - fixed].get());
  }
  for (Caller* caller : knocking) {
    if (serve(*caller)) continue;
    hang_up(*caller);
    std::erase_if(callers_, [caller](const auto& each) { return each.get() == caller; });
  }
  if (waits[3].revents != 0) let_in();
  collect_children();
  if (kill_at_ && std::chrono::steady_clock::now() >= *kill_at_) {
    killed_ = true;
    kill_when_due();
  }
  if (phase_ == Phase::kEnding && !anybody_left()) {
    const bool again = removed_ && killed_leftovers_;
    killed_leftovers_ = false;
    begin(again ? Phase::kRemoving : Phase::kDone);
  }
  if (aside_ > 0 && aside_until_ && std::chrono::steady_clock::now() >= *aside_until_) {
    ::kill(aside_, SIGKILL);
    aside_until_.reset();
  }
}

void ShepherdLoop::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) stop(orders_.member.grace);
  }
}

void ShepherdLoop::collect_children() {
  for (;;) {
    int status = 0;
    const pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    kills_.progressed();
    child_ended(pid, status);
  }
}

void ShepherdLoop::child_ended(pid_t pid, int status) {
  const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (pid == aside_) {
    aside_ended(status);
    return;
  }
  if (pid == command_) {
    command_ = 0;
    end_.exit_code = exit_code;
    end_.signal = signal;
    begin(Phase::kAsking);
    return;
  }
  for (const auto& caller : callers_) {
    if (caller->child != pid) continue;
    caller->child = 0;
    answer(*caller, {ShepherdAnswer::Kind::kEnded, pid, exit_code, signal, {}});
  }
}

void ShepherdLoop::read_output(LogStream stream, UniqueFd& pipe) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(pipe.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    pipe.reset();
    return;
  }
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  log_.write(stream, bytes, clock_.wall_now());
  for (const int connection : attachments_.write(stream, bytes)) {
    for (const auto& caller : callers_) {
      if (caller->socket.get() == connection)
        refuse(*caller, "you did not read the output in time");
    }
  }
}

// All writers are gone; what they wrote last is still in the pipes.
void ShepherdLoop::drain_output() {
  for (std::size_t before = 1; before > 0;) {
    before = 0;
    for (auto& [stream, pipe] : {std::pair<LogStream, UniqueFd&>(LogStream::kStdout, output_),
                                 std::pair<LogStream, UniqueFd&>(LogStream::kStderr, error_)}) {
      pollfd wait{pipe.get(), POLLIN, 0};
      if (!pipe || ::poll(&wait, 1, 0) != 1) continue;
      read_output(stream, pipe);
      ++before;
    }
  }
}

}  // namespace divvy::run
