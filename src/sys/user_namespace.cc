#include "sys/user_namespace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace divvy::sys {
namespace {

// One line for the user, one for each range.
std::string map_text(std::uint32_t own, const std::vector<IdRange>& ranges) {
  std::string text = fmt::format("0 {} 1\n", own);
  std::uint32_t next = 1;
  for (const IdRange& range : ranges) {
    text += fmt::format("{} {} {}\n", next, range.first, range.count);
    next += range.count;
  }
  return text;
}

bool become(const NamespaceUser& user) {
  return ::setgroups(user.groups.size(), user.groups.data()) == 0 &&
         ::setresgid(user.gid, user.gid, user.gid) == 0 &&
         ::setresuid(user.uid, user.uid, user.uid) == 0;
}

// The kernel wants whoever writes the maps to own the namespace, that is, to be the user, and to
// have the two capabilities outside of it.
bool become_writer(const NamespaceUser& user) {
  if (::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || !become(user)) return false;
  constexpr std::uint32_t kNeeded = 1U << CAP_SETUID | 1U << CAP_SETGID;
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct halves[2] = {{kNeeded, kNeeded, 0}, {0, 0, 0}};
  return ::syscall(SYS_capset, &header, halves) == 0;
}

bool write_map(pid_t inside, const char* name, const std::string& text) {
  const std::string path = fmt::format("/proc/{}/{}", inside, name);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// What becomes the user's process must have nothing of the shepherd's open.
void keep_only(int channel) {
  const auto above = static_cast<unsigned>(channel);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {0, 1, 2}) ::dup2(null, stream);
  if (above > 3) ::syscall(SYS_close_range, 3U, above - 1, 0U);
  ::syscall(SYS_close_range, above + 1, ~0U, 0U);
}

// A process that is being talked with.
struct Helper {
  pid_t pid = -1;
  UniqueFd channel;

  Helper() = default;
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper() {
    channel.reset();
    if (pid <= 0) return;
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // `work` has the other end and does not return.
  template <typename Work>
  bool start(const Work& work) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return false;
    channel = UniqueFd(ends[0]);
    const UniqueFd theirs(ends[1]);
    pid = ::fork();
    if (pid != 0) return pid > 0;
    keep_only(theirs.get());
    ::_exit(work(theirs.get()));
  }
  // What the other side says: 0 or an errno. It says something, or is gone.
  [[nodiscard]] int hear() const {
    int said = 0;
    ssize_t got = 0;
    while ((got = ::read(channel.get(), &said, sizeof said)) < 0 && errno == EINTR) {
    }
    return got == static_cast<ssize_t>(sizeof said) ? said : ESRCH;
  }
};

void say(int channel, int what) {
  while (::write(channel, &what, sizeof what) < 0 && errno == EINTR) {
  }
}

// Goes in, and waits there until nobody needs it any more.
int stay_inside(const NamespaceUser& user, int channel) {
  errno = 0;
  // /proc of a process that has changed its user is root's; this one has nothing to hide.
  const bool in = become(user) && ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 &&
                  ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
  say(channel, in ? 0 : errno);
  char end = 0;
  while (::read(channel, &end, 1) < 0 && errno == EINTR) {
  }
  return 0;
}

int write_maps(const NamespaceUser& user, pid_t inside, int channel) {
  errno = 0;
  const bool done = become_writer(user) &&
                    write_map(inside, "uid_map", map_text(user.uid, user.uids)) &&
                    write_map(inside, "gid_map", map_text(user.gid, user.gids));
  say(channel, done ? 0 : errno);
  return 0;
}

Result<UserNamespace> refused(std::string_view what, int why) {
  return err(ErrorCode::kUnavailable,
             "user namespaces, which containers need, cannot be had: {}: {}; see "
             "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
             "kernel.apparmor_restrict_unprivileged_userns in sysctl",
             what, std::strerror(why));
}

}  // namespace

Result<UserNamespace> UserNamespace::create(const NamespaceUser& user) {
  if (user.uid == 0 || user.gid == 0) {
    return err(ErrorCode::kInvalidArgument, "root has no user namespace of its own");
  }
  Helper inside;
  if (!inside.start([&user](int channel) { return stay_inside(user, channel); })) {
    return refused("fork", errno);
  }
  if (const int why = inside.hear(); why != 0) return refused("unshare", why);
  Helper writer;
  if (!writer.start([&](int channel) { return write_maps(user, inside.pid, channel); })) {
    return refused("fork", errno);
  }
  if (const int why = writer.hear(); why != 0) return refused("the maps", why);
  const auto open = [&inside](const char* kind) {
    return UniqueFd(
        ::open(fmt::format("/proc/{}/ns/{}", inside.pid, kind).c_str(), O_RDONLY | O_CLOEXEC));
  };
  UniqueFd users = open("user");
  UniqueFd mounts = open("mnt");
  if (!users || !mounts) return refused("/proc", errno);
  return UserNamespace(std::move(users), std::move(mounts));
}

bool UserNamespace::enter() const {
  return ::setns(user_.get(), CLONE_NEWUSER) == 0 && ::setns(mount_.get(), CLONE_NEWNS) == 0 &&
         ::setresgid(0, 0, 0) == 0 && ::setresuid(0, 0, 0) == 0;
}

}  // namespace divvy::sys
