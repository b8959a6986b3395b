// What a shepherd does on request.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "run/shepherd_loop.h"
#include "run/shepherd_socket.h"
#include "sys/process.h"
#include "sys/processes.h"

namespace divvy::run {
namespace {

// Of the member's user, and as many of the daemon.
constexpr std::size_t kMaxCallers = 64;

struct Terminal {
  UniqueFd ours;  // goes to whoever asked
  UniqueFd childs;
};

Result<Terminal> open_terminal(const TerminalSize& size) {
  Terminal terminal;
  terminal.ours = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  char name[128];
  if (!terminal.ours || ::grantpt(terminal.ours.get()) != 0 ||
      ::unlockpt(terminal.ours.get()) != 0 ||
      ::ptsname_r(terminal.ours.get(), name, sizeof name) != 0) {
    return err(ErrorCode::kResourceExhausted, "no terminal: {}", std::strerror(errno));
  }
  terminal.childs = UniqueFd(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.childs) {
    return err(ErrorCode::kResourceExhausted, "no terminal: {}", std::strerror(errno));
  }
  winsize window{};
  window.ws_row = size.rows;
  window.ws_col = size.columns;
  ::ioctl(terminal.ours.get(), TIOCSWINSZ, &window);
  return terminal;
}

}  // namespace

void ShepherdLoop::let_in() {
  auto caller = std::make_unique<Caller>();
  caller->socket = accept_caller(listener_.get(), orders_.member.uid);
  if (!caller->socket) return;
  const auto peer = sys::peer_of(caller->socket.get());
  caller->is_users = peer && peer->uid == orders_.member.uid;
  const auto others = std::ranges::count(callers_, caller->is_users,
                                         [](const auto& each) { return each->is_users; });
  // Nobody is left standing in the line: it is the daemon's as well, and members could fill it.
  if (static_cast<std::size_t>(others) >= kMaxCallers) {
    return refuse(*caller, fmt::format("{} are at the member already; end some", others));
  }
  callers_.push_back(std::move(caller));
}

void ShepherdLoop::answer(const Caller& caller, const ShepherdAnswer& answer,
                          const std::vector<int>& fds) const {
  // Whoever does not take an answer finds the connection closed with the member.
  (void)send_shepherd_message(caller.socket.get(), to_message(answer), fds);
}

void ShepherdLoop::refuse(const Caller& caller, std::string reason) const {
  answer(caller, {ShepherdAnswer::Kind::kRefused, 0, 0, 0, std::move(reason)});
}

bool ShepherdLoop::serve(Caller& caller) {
  const sys::Packet packet = receive_shepherd_packet(caller.socket.get());
  if (packet.outcome == sys::Packet::Outcome::kNothingYet) return true;
  if (packet.outcome == sys::Packet::Outcome::kClosed) return false;
  if (!packet.complete) {
    refuse(caller, "the request is too long");
    return false;
  }
  const auto request = parse_shepherd_request(text_of(packet));
  if (!request) {
    refuse(caller, request.error().message);
    return false;
  }
  std::visit([&](const auto& which) { handle(caller, which, packet.fds); }, *request);
  return true;
}

void ShepherdLoop::handle(Caller& caller, const StopRequest& request,
                          const std::vector<UniqueFd>& /*fds*/) {
  stop(request.grace);
  answer(caller, {});
}

void ShepherdLoop::start_for(Caller& caller, ChildPlan plan, const std::vector<UniqueFd>& fds) {
  if (phase_ != Phase::kRunning) return refuse(caller, "the member is ending");
  if (caller.child > 0) return refuse(caller, "one command to a connection");
  if (fds.size() == 3) {
    plan.input = fds[0].get();
    plan.output = fds[1].get();
    plan.error = fds[2].get();
  } else if (plan.terminal < 0) {
    return refuse(caller, "three descriptors have to come with it: input, output and error");
  }
  plan.cgroup_procs = group_.procs_files();
  const auto child = start_child(plan);
  if (!child) {
    answer(caller,
           {ShepherdAnswer::Kind::kEnded, 0, child.error().exit_code, 0, child.error().message});
    return;
  }
  caller.child = *child;
}

void ShepherdLoop::handle(Caller& caller, const ExecRequest& request,
                          const std::vector<UniqueFd>& fds) {
  ChildPlan plan = program_->exec(request);
  if (!request.terminal) {
    start_for(caller, std::move(plan), fds);
    if (caller.child > 0) answer(caller, {ShepherdAnswer::Kind::kStarted, caller.child, 0, 0, {}});
    return;
  }
  auto terminal = open_terminal(*request.terminal);
  if (!terminal) return refuse(caller, terminal.error().message);
  // Whoever owns it may open it once more by its name.
  (void)::fchown(terminal->childs.get(), plan.uid, plan.gid);
  plan.terminal = terminal->childs.get();
  start_for(caller, std::move(plan), {});
  if (caller.child > 0) {
    answer(caller, {ShepherdAnswer::Kind::kStarted, caller.child, 0, 0, {}},
           {terminal->ours.get()});
  }
}

void ShepherdLoop::handle(Caller& caller, const CopyRequest& request,
                          const std::vector<UniqueFd>& fds) {
  start_for(caller, program_->copy(request), fds);
  if (caller.child > 0) answer(caller, {ShepherdAnswer::Kind::kStarted, caller.child, 0, 0, {}});
}

void ShepherdLoop::handle(Caller& caller, const AttachRequest& /*request*/,
                          const std::vector<UniqueFd>& /*fds*/) {
  if (phase_ != Phase::kRunning) return refuse(caller, "the member is ending");
  const auto ends = attachments_.add(caller.socket.get());
  if (!ends) return refuse(caller, ends.error().message);
  std::vector<int> fds = {ends->output.get(), ends->error.get()};
  if (input_) fds.push_back(input_.get());
  answer(caller, {ShepherdAnswer::Kind::kStarted, command_, 0, 0, {}}, fds);
}

void ShepherdLoop::handle(Caller& caller, const CloseInputRequest& /*request*/,
                          const std::vector<UniqueFd>& /*fds*/) {
  if (!attachments_.has(caller.socket.get())) return refuse(caller, "you are not attached");
  input_.reset();
  answer(caller, {});
}

void ShepherdLoop::handle(Caller& caller, const SignalRequest& request,
                          const std::vector<UniqueFd>& /*fds*/) {
  if (caller.child <= 0) return refuse(caller, "nothing runs for this connection");
  // In a container it is root's podman that gets it. Stopped at the wrong moment, it would hold
  // locks that every container of the machine waits for.
  constexpr int kForPodman[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
  if (program_->passes_signals_on() && std::ranges::count(kForPodman, request.signal) == 0) {
    return refuse(caller, "only SIGHUP, SIGINT, SIGQUIT and SIGTERM reach a container");
  }
  // The group that it leads: it was started in a session of its own.
  ::kill(-caller.child, request.signal);
  answer(caller, {});
}

void ShepherdLoop::hang_up(Caller& caller) {
  attachments_.remove(caller.socket.get());
  // As when a terminal is closed; what wants to stay may, until the member ends.
  if (caller.child > 1) ::kill(-caller.child, SIGHUP);
}

}  // namespace divvy::run
