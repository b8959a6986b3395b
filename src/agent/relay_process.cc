#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include "agent/relay.h"
#include "base/sanitized.h"
#include "run/member_folder.h"
#include "run/podman_runtime.h"
#include "run/shepherd.h"
#include "run/shepherd_socket.h"
#include "sys/durable_file.h"
#include "sys/privileges.h"
#include "sys/subordinate_ids.h"

namespace divvy::agent {
namespace {

constexpr const char* kLock = "relay.lock";

void tell(UniqueFd& channel, std::string_view text) {
  if (channel) (void)sys::write_all(channel.get(), text);
  channel.reset();
}

// What a tenant can have kept here: channels that are full and that nobody reads.
void bound_memory() {
  // Shadow memory would be counted.
  if (kSanitized) return;
  constexpr rlim_t kMost = rlim_t{2} << 30;
  const rlimit limit{kMost, kMost};
  (void)::setrlimit(RLIMIT_DATA, &limit);
  // Threads of streams need little, and what is set aside for them counts, too.
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, std::size_t{512} << 10);
  (void)::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

// False with errno set. For good: nothing of what we were is kept.
bool become_user(const run::MemberStart& member) {
  const bool same = ::geteuid() == member.uid && ::getegid() == member.gid;
  if (!same || ::geteuid() == 0) {
    // Where root may not even change its groups, its own jobs keep them; nobody else's do.
    if (::setgroups(member.groups.size(), member.groups.data()) != 0 && (!same || errno != EPERM)) {
      return false;
    }
    if (::setresgid(member.gid, member.gid, member.gid) != 0) return false;
    if (::setresuid(member.uid, member.uid, member.uid) != 0) return false;
  }
  sys::drop_all_privileges();
  return ::getuid() == member.uid && ::geteuid() == member.uid && ::getgid() == member.gid;
}

// Also those of numbers that root has given to the user: processes in a container may have them.
// Root publishes ports of containers, and has no need to deceive anybody.
IsOfMember is_of_member(const run::Orders& orders) {
  std::vector<sys::IdRange> others;
  if (orders.member.container) {
    const passwd* const user = ::getpwuid(orders.member.uid);
    others = sys::read_subordinate_ids("/etc/subuid", user != nullptr ? user->pw_name : "",
                                       orders.member.uid);
  }
  return [own = orders.member.uid, others](uid_t uid) {
    return uid == own || uid == 0 || std::ranges::any_of(others, [uid](const sys::IdRange& range) {
             return uid >= range.first && uid - range.first < range.count;
           });
  };
}

int relay(const run::MemberFolder& folder, UniqueFd channel) {
  const auto orders = folder.orders();
  if (!orders) {
    tell(channel, orders.error().message);
    return 1;
  }
  // Held until this process is gone: a second one would take the socket away from the first.
  const UniqueFd lock(
      ::openat(folder.fd(), kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    // Whoever started us tries to connect again.
    tell(channel, errno == EWOULDBLOCK ? run::kShepherdReady : std::strerror(errno));
    return 1;
  }
  auto listener = run::listen_in(folder.fd(), kRelaySocket, SOCK_STREAM, orders->member.uid);
  if (!listener) {
    tell(channel, listener.error().message);
    return 1;
  }
  bound_memory();
  if (!become_user(orders->member)) {
    tell(channel, std::strerror(errno));
    return 1;
  }
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  Relay keeps(*std::move(listener), {.folder = folder.path(),
                                     .folder_fd = folder.fd(),
                                     .port_on_machine =
                                         [orders = *orders](std::uint16_t port) {
                                           return run::port_on_machine(orders, port);
                                         },
                                     .is_of_member = is_of_member(*orders)});
  tell(channel, run::kShepherdReady);
  keeps.run();
  return 0;
}

}  // namespace

int run_relay(const std::filesystem::path& path) {
  UniqueFd channel(run::kShepherdChannel);
  ::fcntl(channel.get(), F_SETFD, FD_CLOEXEC);
  auto folder = run::MemberFolder::open(std::filesystem::absolute(path));
  if (!folder) {
    tell(channel, folder.error().message);
    return 1;
  }
  const pid_t child = ::fork();
  if (child < 0) {
    tell(channel, std::strerror(errno));
    return 1;
  }
  if (child > 0) return 0;
  ::setsid();
  // No folder that somebody may want to unmount.
  if (::chdir("/") != 0) return 1;
  return relay(*folder, std::move(channel));
}

}  // namespace divvy::agent
