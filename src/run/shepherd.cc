#include "run/shepherd.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/log.h"
#include "run/member_folder.h"
#include "run/member_program.h"
#include "run/sealed_file.h"
#include "run/shepherd_loop.h"
#include "run/shepherd_socket.h"
#include "sys/durable_file.h"

namespace divvy::run {
namespace {

constexpr int kRemovals = 3;
// As much as a job may have of them, escaped.
constexpr std::size_t kMaxSecrets = std::size_t{8} << 20;

// The daemon waits for this word; where nobody waits any more that does not matter.
void tell(UniqueFd& channel, std::string_view text) {
  if (channel) (void)sys::write_all(channel.get(), text);
  channel.reset();
}

UniqueFd take_signals_by_descriptor() {
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT}) ::sigaddset(&wanted, number);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  return UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

// A member whose orders cannot be carried out has ended, and that is its last word.
int give_up(const MemberFolder& folder, UniqueFd& channel, const Error& why) {
  Ending ending;
  ending.end.at = SystemClock().wall_now();
  ending.end.exit_code = 126;
  ending.end.reason = "could not be started: " + why.message;
  const Status written = folder.write(ending);
  tell(channel, written ? kShepherdReady : std::string_view(written.error().message));
  return 1;
}

Result<Orders> read_orders(const MemberFolder& folder) {
  DIVVY_TRY(orders, folder.orders());
  if (!orders.with_secrets) return orders;
  const UniqueFd file(kShepherdSecrets);
  DIVVY_TRY(text, with_context(read_sealed_file(file.get(), kMaxSecrets), "secrets"));
  DIVVY_TRY(secrets, parse_secrets(text));
  orders.member.secrets = std::move(secrets);
  return orders;
}

int look_after(const MemberFolder& folder, UniqueFd channel) {
  auto orders = read_orders(folder);
  if (!orders && orders.error().code == ErrorCode::kNotFound) {
    // Orders are written before a shepherd is started: this one belongs to a start that was given
    // up, and the folder to the next one. Not even its lock is taken: whoever holds it is taken for
    // the one who looks after the member.
    tell(channel, "there are no orders for this shepherd");
    return 1;
  }
  // Before the lock is taken: whoever sees that a member is looked after finds a socket to connect
  // to.
  auto listener =
      orders ? listen_as_shepherd(folder.fd(), orders->member.uid) : Result<UniqueFd>(UniqueFd());
  if (!listener) log_warning("members cannot be entered", {{"reason", listener.error().message}});
  // Held until this process is gone, however it goes.
  const auto lock = folder.lock();
  if (!lock) {
    tell(channel, lock.error().message);
    return 1;
  }
  if (folder.ending() || folder.ending().error().code != ErrorCode::kNotFound) {
    tell(channel, "somebody gave this member up before it was started");
    return 1;
  }
  if (!orders) return give_up(folder, channel, orders.error());
  UniqueFd signals = take_signals_by_descriptor();
  // Whoever below loses its parent becomes our child, so that nobody gets away.
  if (!signals || ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return give_up(folder, channel, {ErrorCode::kInternal, std::strerror(errno)});
  }
  const auto own = sys::mark_of(::getpid());
  Watch watch;
  if (own) watch.shepherd = *own;
  if (const Status written = folder.write(watch); !own || !written) {
    return give_up(folder, channel,
                   written ? Error{ErrorCode::kInternal, "there is no /proc"} : written.error());
  }
  if (const Status room = folder.reserve_ending(); !room) {
    return give_up(folder, channel, room.error());
  }
  ShepherdLoop loop(folder, *std::move(orders), std::move(watch), std::move(signals),
                    listener ? *std::move(listener) : UniqueFd());
  tell(channel, kShepherdReady);
  loop.run();
  return 0;
}

}  // namespace

int run_shepherd(const std::filesystem::path& path) {
  UniqueFd channel(kShepherdChannel);
  ::fcntl(channel.get(), F_SETFD, FD_CLOEXEC);
  // Its name has to stay right when the working directory changes.
  auto folder = MemberFolder::open(std::filesystem::absolute(path));
  if (!folder) {
    tell(channel, folder.error().message);
    return 1;
  }
  const pid_t shepherd = ::fork();
  if (shepherd < 0) {
    tell(channel, std::strerror(errno));
    return 1;
  }
  if (shepherd > 0) return 0;
  ::setsid();
  // No folder that somebody may want to unmount.
  if (::chdir("/") != 0) return 1;
  return look_after(*folder, std::move(channel));
}

int run_removal(const std::filesystem::path& path) {
  const auto failed = [](const std::string& why) {
    log_error("a container could not be removed", {{"reason", why}});
    return 1;
  };
  const auto folder = MemberFolder::open(std::filesystem::absolute(path));
  if (!folder) return failed(folder.error().message);
  const auto orders = folder->orders();
  if (!orders) return failed(orders.error().message);
  const auto program = make_program(*orders, *folder);
  if (const Status prepared = program->prepare(); !prepared) {
    return failed(prepared.error().message);
  }
  auto plan = program->remove();
  if (!plan) return 0;
  // It is not one of the member's processes.
  plan->environment.erase(kMemberVariable);
  // Podman believes at first that a container runs whose processes were killed, and fails when it
  // finds out; the next time it knows.
  int status = -1;
  for (int tries = 0; tries < kRemovals && status != 0; ++tries) {
    const auto child = start_child(*plan);
    if (!child) return failed(child.error().message);
    while (::waitpid(*child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace divvy::run
