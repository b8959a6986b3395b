// How a member comes to its end: asked, killed, cleaned up after, and the last word.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/text.h"
#include "run/shepherd_loop.h"
#include "sys/processes.h"

namespace divvy::run {
namespace {

// Between two attempts to remove a control group, in which the kernel is still busy.
constexpr int kGroupPauseMs = 20;
constexpr std::chrono::seconds kAsidePatience{60};
// How long a full disk is waited for between two attempts at the last word.
constexpr int kDiskPauseMs = 1'000;
constexpr std::string_view kOutOfMemory = "out of memory";
constexpr int kKilledInside = 128 + SIGKILL;  // as podman says it

}  // namespace

void ShepherdLoop::signal_all(int number) const {
  if (program_->passes_signals_on()) {
    // A child of ours that was not collected: the number is its own.
    if (command_ > 0) ::kill(command_, number);
    return;
  }
  sys::signal_descendants(::getpid(), number);
}

void ShepherdLoop::stop(std::chrono::seconds grace) {
  if (phase_ != Phase::kRunning) return;
  const Moment at = std::chrono::steady_clock::now() + grace;
  asked_ = true;
  if (!kill_at_) {
    log_.say(fmt::format("asked to end within {} s", grace.count()), clock_.wall_now());
    signal_all(SIGTERM);
    // Who stands still hears nothing.
    if (const auto plan = program_->thaw()) {
      (void)run_aside(*plan);
    } else {
      (void)group_.freeze(false);
      sys::signal_descendants(::getpid(), SIGCONT);
    }
  }
  if (!kill_at_ || at < *kill_at_) {
    kill_at_ = at;
    grace_ = grace;
  }
}

void ShepherdLoop::kill_when_due() {
  const Moment now = std::chrono::steady_clock::now();
  if (!kills_.is_due(now)) return;
  kills_.tried(now);
  (void)group_.kill();
  sys::signal_descendants(::getpid(), SIGKILL);
}

bool ShepherdLoop::anybody_left() {
  collect_children();
  siginfo_t child{};
  const bool children = ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (!children && group_.processes().empty()) return false;
  killed_leftovers_ = true;
  kill_when_due();
  return true;
}

std::optional<ShepherdLoop::Moment> ShepherdLoop::next_deadline() const {
  std::optional<Moment> result = kill_at_;
  const auto sooner = [&result](Moment at) {
    if (!result || at < *result) result = at;
  };
  if (phase_ == Phase::kEnding) sooner(kills_.due());
  // Killed and not collected yet: once more, in case it had a child in that moment.
  if (killed_ && kill_at_) result = kills_.due();
  if (aside_ > 0 && aside_until_) sooner(*aside_until_);
  return result;
}

bool ShepherdLoop::run_aside(ChildPlan plan) {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  plan.output = writer.get();
  // A user's podman may say as much as the user likes.
  if (plan.uid == ::geteuid()) plan.error = ::fileno(stderr);
  const auto child = start_child(plan);
  if (!child) {
    log_warning("podman could not be started", {{"reason", child.error().message}});
    return false;
  }
  if (phase_ == Phase::kRunning) return true;  // Nobody waits for it.
  aside_ = *child;
  aside_output_ = std::move(reader);
  aside_until_ = std::chrono::steady_clock::now() + kAsidePatience;
  return true;
}

void ShepherdLoop::begin(Phase phase) {
  phase_ = phase;
  kill_at_.reset();
  if (phase == Phase::kAsking) {
    const auto plan = program_->ask_out_of_memory();
    if (plan && run_aside(*plan)) return;
    return begin(Phase::kRemoving);
  }
  if (phase == Phase::kRemoving) {
    const auto plan = program_->remove();
    removed_ = plan.has_value();
    if (plan && run_aside(*plan)) return;
    return begin(Phase::kEnding);
  }
}

void ShepherdLoop::aside_ended(int status) {
  aside_ = 0;
  aside_until_.reset();
  char text[64] = {};
  const ssize_t got = ::read(aside_output_.get(), text, sizeof text - 1);
  aside_output_.reset();
  if (phase_ == Phase::kAsking) {
    const std::string_view said(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (status == 0 && trim(said) == "true") end_.reason = kOutOfMemory;
    return begin(Phase::kRemoving);
  }
  if (phase_ != Phase::kRemoving) return;
  if (status != 0) log_warning("podman could not remove a container", {{"status", status}});
  begin(Phase::kEnding);
}

// What is to be said beside the code and the signal.
void ShepherdLoop::find_reason() {
  const auto& ram = orders_.member.limits.ram;
  if (group_.out_of_memory() > 0 && (end_.signal == SIGKILL || end_.exit_code != 0)) {
    end_.reason = kOutOfMemory;
  }
  if (end_.reason == kOutOfMemory && ram) {
    end_.reason += fmt::format(": it needed more than its limit of {}", *ram);
  }
  if (!end_.reason.empty()) return;
  if (killed_) {
    end_.reason =
        fmt::format("killed: it had not ended {} s after it was asked to", grace_.count());
  } else if (orders_.member.container && end_.exit_code == kKilledInside && ram && !asked_) {
    // Podman does not tell with every runtime, and nobody else is likely to have done it.
    end_.reason =
        fmt::format("killed, most likely because it needed more than its limit of {}", *ram);
  }
}

// The group knows everybody who was in it. Without one, what those used whom we collected: all of
// them end as our children, because orphans become ours. Containers are in a group of podman's.
void ShepherdLoop::count_use() {
  if (start_failed_) return;
  if (!orders_.member.container) end_.use = group_.use();
  rusage children{};
  if (::getrusage(RUSAGE_CHILDREN, &children) != 0) return;
  const auto time = [](const timeval& value) {
    return std::chrono::seconds(value.tv_sec) + std::chrono::microseconds(value.tv_usec);
  };
  if (!end_.use.cpu) end_.use.cpu = time(children.ru_utime) + time(children.ru_stime);
  if (!end_.use.ram_peak && children.ru_maxrss > 0) {
    end_.use.ram_peak = Bytes(static_cast<std::uint64_t>(children.ru_maxrss) * 1024);
  }
}

void ShepherdLoop::finish() {
  drain_output();
  find_reason();
  count_use();
  if (!end_.reason.empty() && !start_failed_) log_.say(end_.reason, clock_.wall_now());
  for (int tries = 0; tries < 100 && !group_.remove(); ++tries) {
    (void)::poll(nullptr, 0, kGroupPauseMs);
  }
  listener_.reset();
  ::unlinkat(folder_.fd(), "door", 0);

  end_.at = clock_.wall_now();
  for (;;) {
    const Status written = folder_.write(Ending{end_, false});
    // Without a folder there is nobody to tell, and there never will be.
    if (written || folder_.is_gone()) break;
    // As long as it is not told it has not ended: the lock is ours, and nobody gives it up.
    log_error("the last word could not be written", {{"reason", written.error().message}});
    (void)::poll(nullptr, 0, kDiskPauseMs);
  }
  for (const auto& caller : callers_) {
    if (attachments_.has(caller->socket.get())) {
      answer(*caller, {ShepherdAnswer::Kind::kEnded, 0, end_.exit_code, end_.signal, end_.reason});
    }
  }
}

}  // namespace divvy::run
