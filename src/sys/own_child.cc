#include "sys/own_child.h"

#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "sys/exec_pointers.h"
#include "sys/process.h"

extern char** environ;

namespace divvy::sys {
namespace {

// A child is none of a tenant's processes, even where the daemon was started by one.
bool is_for_tenants_only(std::string_view entry) {
  constexpr std::array<std::string_view, 4> kNames = {
      "LD_PRELOAD=", "DIVVY_SOCKET=", "CUDA_VISIBLE_DEVICES=", "CUDA_MPS_"};
  return std::ranges::any_of(kNames, [entry](auto name) { return entry.starts_with(name); });
}

class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t usual;
    ::sigemptyset(&none);
    ::sigemptyset(&usual);
    for (const int signal : {SIGPIPE, SIGHUP}) ::sigaddset(&usual, signal);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &usual);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

}  // namespace

Result<OwnChild> OwnChild::start(const Options& options) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket for a child: {}", std::strerror(errno));
  }
  OwnChild child;
  child.channel_ = UniqueFd(pair[0]);
  const UniqueFd theirs(pair[1]);
  SpawnPlan plan;
  // The copy stays open in the child; everything else of ours closes by itself.
  ::posix_spawn_file_actions_adddup2(&plan.actions, theirs.get(), options.channel);

  std::vector<std::string> words = {"divvyd"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_for_tenants_only(*entry)) environment.emplace_back(*entry);
  }
  environment.insert(environment.end(), options.environment.begin(), options.environment.end());
  // Also where the file was replaced meanwhile: this is the program that runs.
  const int failed = ::posix_spawn(&child.pid_, "/proc/self/exe", &plan.actions, &plan.attributes,
                                   exec_pointers(words).data(), exec_pointers(environment).data());
  if (failed != 0) {
    child.pid_ = -1;
    return err(ErrorCode::kResourceExhausted, "no child could be started: {}",
               std::strerror(failed));
  }
  // It is our own and not collected yet, so that its number cannot be another's.
  auto life = open_process(child.pid_);
  if (!life) return err(std::move(life).error());
  child.life_ = *std::move(life);
  return child;
}

OwnChild::OwnChild(OwnChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      channel_(std::move(other.channel_)),
      life_(std::move(other.life_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

OwnChild& OwnChild::operator=(OwnChild&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(channel_, other.channel_);
  std::swap(life_, other.life_);
  std::swap(status_, other.status_);
  return *this;
}

OwnChild::~OwnChild() {
  if (pid_ <= 0 || ended()) return;
  kill();
  (void)ended();
}

void OwnChild::kill() const {
  if (life_) {
    ::syscall(SYS_pidfd_send_signal, life_.get(), SIGKILL, nullptr, 0);
  } else if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
  }
}

std::optional<int> OwnChild::ended() {
  if (status_ || pid_ <= 0) return status_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

}  // namespace divvy::sys
