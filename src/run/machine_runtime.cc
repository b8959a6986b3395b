#include "run/machine_runtime.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/log.h"
#include "run/leftovers.h"
#include "run/shepherd.h"
#include "run/shepherd_client.h"
#include "sys/exec_pointers.h"
#include "sys/processes.h"

extern char** environ;

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kRetry{1'000};
constexpr std::chrono::seconds kShepherdPatience{10};
constexpr const char* kShepherdLog = "shepherd.log";

bool is_for_tenants_only(std::string_view entry) {
  constexpr std::array<std::string_view, 5> kNames = {
      "LD_PRELOAD=", "DIVVY_SOCKET=", "DIVVY_MEMBER=", "CUDA_VISIBLE_DEVICES=", "CUDA_MPS_"};
  return std::ranges::any_of(kNames, [entry](auto name) { return entry.starts_with(name); });
}

// posix_spawn, because the daemon has threads and much memory.
Result<pid_t> spawn(std::vector<std::string> words, const MemberFolder& folder, int channel) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_for_tenants_only(*entry)) variables.emplace_back(*entry);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, (folder.path() / kShepherdLog).c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, channel, kShepherdChannel);
  // It lives longer than the daemon: a connection that it held would stay open for the other side.
  ::posix_spawn_file_actions_addclosefrom_np(&actions, kShepherdChannel + 1);
  sigset_t none;
  sigset_t usual;
  ::sigemptyset(&none);
  ::sigfillset(&usual);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  pid_t pid = -1;
  const std::string program = words[0];
  // What people see in a list of processes.
  if (program == "/proc/self/exe") words[0] = "divvyd";
  const int failed =
      ::posix_spawn(&pid, program.c_str(), &actions, &attributes, sys::exec_pointers(words).data(),
                    sys::exec_pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed == 0) return pid;
  return err(ErrorCode::kResourceExhausted, "no shepherd could be started: {}",
             std::strerror(failed));
}

// What the shepherd says until it closes the channel or the time is over.
std::string hear(int channel, std::chrono::seconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  std::string text;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd wait{channel, POLLIN, 0};
    if (left.count() <= 0 || text.size() > 65536) return text;
    if (::poll(&wait, 1, static_cast<int>(left.count())) <= 0) continue;
    char buffer[1024];
    const ssize_t got = ::read(channel, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    // Not until it is closed: another process of the daemon may have been forked in between and
    // hold it open.
    if (text == kShepherdReady) return text;
  }
}

void set_end(MemberReport& report, const Ending& ending) {
  report.phase = ending.lost ? MemberPhase::kLost : MemberPhase::kEnded;
  report.end = ending.end;
}

}  // namespace

Result<std::unique_ptr<MachineRuntime>> MachineRuntime::create(Options options,
                                                               const Clock& clock) {
  std::error_code code;
  options.members = fs::absolute(options.members, code);
  fs::create_directories(options.members, code);
  // Through it to the sockets of members, for those who know the name.
  if (code || ::chmod(options.members.c_str(), 0711) != 0) {
    return err(ErrorCode::kIo, "{} could not be made: {}", options.members.string(),
               code ? code.message() : std::strerror(errno));
  }
  std::unique_ptr<MachineRuntime> runtime(new MachineRuntime(std::move(options), clock));
  runtime->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  runtime->timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  if (!runtime->epoll_ || !runtime->timer_ ||
      ::epoll_ctl(runtime->epoll_.get(), EPOLL_CTL_ADD, runtime->timer_.get(), &event) != 0) {
    return err(ErrorCode::kResourceExhausted, "no descriptors: {}", std::strerror(errno));
  }
  return runtime;
}

fs::path MachineRuntime::folder_of(const MemberKey& key) const {
  return options_.members / to_string(key);
}

Status MachineRuntime::start_shepherd(const MemberFolder& folder) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return err(ErrorCode::kResourceExhausted, "no pipe: {}", std::strerror(errno));
  }
  const UniqueFd channel(ends[0]);
  UniqueFd theirs(ends[1]);
  // A descriptor that is the one wanted already would be closed by its own flag.
  if (theirs.get() == kShepherdChannel) theirs = UniqueFd(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  std::vector<std::string> words = options_.shepherd;
  words.push_back(folder.path().string());
  DIVVY_TRY(pid, spawn(std::move(words), folder, theirs.get()));
  theirs.reset();
  const std::string said = hear(channel.get(), options_.patience);
  // The process that was started ends at once, and the shepherd is a child of its own. One that has
  // not come so far will not: what it finds when it does is a member that was given up.
  if (said.empty()) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (said == kShepherdReady) return {};
  return err(ErrorCode::kUnavailable, "the shepherd of {} did not start: {}",
             to_string(folder.key()), said.empty() ? "it said nothing" : said);
}

Status MachineRuntime::start(const MemberStart& member) {
  {
    std::unique_lock guard(mutex_);
    if (!starting_.insert(member.key).second) {
      return err(ErrorCode::kAlreadyExists, "{} is being started", to_string(member.key));
    }
    // Whoever ends what was lost of an earlier start must not find the folder of this one.
    lost_changed_.wait(guard, [&] { return !ending_.contains(member.key); });
  }
  const auto attempt = [&]() -> Status {
    DIVVY_TRY(folder, MemberFolder::create(options_.members, member.key));
    Status started = folder.write(Orders{member, options_.podman, options_.control_groups});
    if (started) started = start_shepherd(folder);
    const MemberReport now = report(folder);
    // It may have come later than we waited; then it is there all the same.
    if (!started && now.phase == MemberPhase::kLost) {
      DIVVY_RETURN_IF_ERROR(folder.remove());
      return started;
    }
    watch(now, folder);
    return {};
  };
  const Status done = attempt();
  const std::lock_guard guard(mutex_);
  starting_.erase(member.key);
  return done;
}

MachineRuntime::Look MachineRuntime::look(const MemberFolder& folder) {
  MemberReport result;
  result.key = folder.key();
  const auto tell = [&](const Ending& ending) -> Look {
    set_end(result, ending);
    return {std::move(result), {}};
  };
  if (const auto watch = folder.watch()) {
    result.begun = true;
    result.pid = watch->pid;
    result.without = watch->without;
  }
  if (const auto ending = folder.ending()) return tell(*ending);
  auto lock = folder.try_lock();
  if (!lock) return {std::move(result), {}};  // Somebody looks after it.
  // Its shepherd may have ended between the two looks.
  if (const auto ending = folder.ending()) return tell(*ending);
  // Nobody but a shepherd can say that it lives; but where its lock was taken from it, it does.
  if (const auto watch = folder.watch(); watch && sys::is_running(watch->shepherd)) {
    look_again_in(kRetry);
    return {std::move(result), {}};
  }
  return {std::move(result), *std::move(lock)};
}

MemberReport MachineRuntime::report(const MemberFolder& folder) {
  {
    // Whoever is at it holds the lock, so that it would seem to live.
    std::unique_lock guard(mutex_);
    lost_changed_.wait(guard, [&] { return !ending_.contains(folder.key()); });
    ending_.insert(folder.key());
  }
  MemberReport result = end_if_lost(folder);
  const std::lock_guard guard(mutex_);
  ending_.erase(folder.key());
  lost_changed_.notify_all();
  return result;
}

MemberReport MachineRuntime::end_if_lost(const MemberFolder& folder) {
  Look seen = look(folder);
  if (!seen.lock) return std::move(seen.report);
  const auto ending = end_lost_member(folder, options_.remover, clock_.wall_now());
  if (ending) {
    set_end(seen.report, *ending);
  } else {
    log_warning("a member that was lost cannot be ended yet",
                {{"member", to_string(folder.key())}, {"reason", ending.error().message}});
    look_again_in(kRetry);
  }
  return std::move(seen.report);
}

MemberReport MachineRuntime::report_now(const MemberFolder& folder) {
  Look seen = look(folder);
  if (seen.lock) {
    // The reaper takes whatever is locked for alive.
    seen.lock.reset();
    const std::lock_guard guard(mutex_);
    lost_.insert(folder.key());
    if (!reaper_.joinable() && !stopping_) reaper_ = std::thread([this] { reap(); });
    lost_changed_.notify_all();
  }
  return std::move(seen.report);
}

// A process that the kernel holds, or a podman that hangs, takes its time here and nobody else's.
void MachineRuntime::reap() {
  std::unique_lock lock(mutex_);
  // Each in its turn: one that does not die comes again when the others had theirs.
  for (MemberKey last{};;) {
    lost_changed_.wait(lock, [this] { return stopping_ || !lost_.empty(); });
    if (stopping_) return;
    auto next = lost_.upper_bound(last);
    if (next == lost_.end()) next = lost_.begin();
    last = *next;
    lost_.erase(next);
    lost_changed_.wait(lock, [&] { return !ending_.contains(last); });
    // It was lost before; the folder that is there now is waiting for its shepherd.
    if (starting_.contains(last)) continue;
    ending_.insert(last);
    lock.unlock();
    const auto folder = MemberFolder::open(options_.members, last);
    // Its end is told by changes(), which also asks again for one that lives.
    if (folder && end_if_lost(*folder).phase != MemberPhase::kLiving) {
      look_again_in(std::chrono::milliseconds(0));
    }
    lock.lock();
    ending_.erase(last);
    lost_changed_.notify_all();
  }
}

MachineRuntime::~MachineRuntime() {
  {
    const std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  lost_changed_.notify_all();
  if (reaper_.joinable()) reaper_.join();
}

void MachineRuntime::watch(const MemberReport& report, const MemberFolder& folder) {
  const auto known = folder.watch();
  const bool runs = known && sys::is_running(known->shepherd);
  auto process = runs ? sys::open_process(known->shepherd) : Result<UniqueFd>(UniqueFd());
  const std::lock_guard guard(mutex_);
  UniqueFd& entry = watched_[report.key];
  if (entry) return;
  if (!runs || !process) {
    // Its end is told at once; what cannot be watched is looked at from time to time.
    look_again_in(report.phase == MemberPhase::kLiving ? kRetry : std::chrono::milliseconds(0));
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, process->get(), &event);
  entry = *std::move(process);
}

void MachineRuntime::look_again_in(std::chrono::milliseconds time) {
  itimerspec when{};
  when.it_value.tv_sec = time.count() / 1'000;
  // Zero would switch it off.
  when.it_value.tv_nsec = time.count() % 1'000 * 1'000'000 + 1;
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

bool MachineRuntime::is_starting(const MemberKey& key) {
  const std::lock_guard guard(mutex_);
  return starting_.contains(key);
}

Result<std::vector<MemberReport>> MachineRuntime::find() {
  DIVVY_TRY(keys, list_members(options_.members));
  std::vector<MemberReport> result;
  for (const MemberKey& key : keys) {
    const auto folder = MemberFolder::open(options_.members, key);
    if (!folder) continue;
    if (is_starting(key)) {
      result.push_back({.key = key, .end = {}, .without = {}});
      continue;
    }
    MemberReport found = report_now(*folder);
    if (found.phase == MemberPhase::kLiving) watch(found, *folder);
    result.push_back(std::move(found));
  }
  return result;
}

Result<MemberReport> MachineRuntime::find(const MemberKey& key) {
  DIVVY_TRY(folder, MemberFolder::open(options_.members, key));
  if (is_starting(key)) return MemberReport{.key = key, .end = {}, .without = {}};
  MemberReport found = report(folder);
  if (found.phase == MemberPhase::kLiving) watch(found, folder);
  return found;
}

std::vector<MemberReport> MachineRuntime::changes() {
  std::uint64_t times = 0;
  (void)!::read(timer_.get(), &times, sizeof times);
  std::vector<MemberKey> gone;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [key, process] : watched_) {
      pollfd look{process.get(), POLLIN, 0};
      if (!process || ::poll(&look, 1, 0) == 1) gone.push_back(key);
    }
  }
  std::vector<MemberReport> result;
  for (const MemberKey& key : gone) {
    const auto folder = MemberFolder::open(options_.members, key);
    MemberReport now =
        folder ? report_now(*folder) : MemberReport{.key = key, .end = {}, .without = {}};
    {
      const std::lock_guard guard(mutex_);
      watched_.erase(key);
    }
    if (!folder) continue;
    if (now.phase == MemberPhase::kLiving) {
      // Its shepherd is gone and something of it is not, or it could not be watched before.
      watch(now, *folder);
    } else {
      result.push_back(std::move(now));
    }
  }
  return result;
}

Status MachineRuntime::stop(const MemberKey& key, std::chrono::seconds grace) {
  DIVVY_TRY(folder, MemberFolder::open(options_.members, key));
  if (report(folder).phase != MemberPhase::kLiving) return {};
  Status stopped = ask_shepherd(folder, StopRequest{grace}, kShepherdPatience);
  if (stopped || report(folder).phase != MemberPhase::kLiving) return {};
  // Somebody has removed the socket: there is another way, with the grace that it was started with.
  if (stopped.error().code != ErrorCode::kUnavailable) return stopped;
  DIVVY_TRY(watch, folder.watch());
  DIVVY_TRY(shepherd, sys::open_process(watch.shepherd));
  if (::syscall(SYS_pidfd_send_signal, shepherd.get(), SIGTERM, nullptr, 0) == 0) return {};
  return stopped;
}

Result<std::map<MemberKey, Bytes>> MachineRuntime::log_sizes() {
  DIVVY_TRY(keys, list_members(options_.members));
  std::map<MemberKey, Bytes> sizes;
  for (const MemberKey& key : keys) {
    std::uint64_t bytes = 0;
    std::error_code code;
    // One that is removed meanwhile has none.
    for (fs::directory_iterator at(folder_of(key), code), end; !code && at != end;
         at.increment(code)) {
      struct stat file{};
      if (!at->path().filename().string().starts_with("log.")) continue;
      if (::lstat(at->path().c_str(), &file) == 0 && S_ISREG(file.st_mode)) {
        bytes += static_cast<std::uint64_t>(file.st_size);
      }
    }
    sizes[key] = Bytes(bytes);
  }
  return sizes;
}

Status MachineRuntime::forget(const MemberKey& key) {
  DIVVY_TRY(folder, MemberFolder::open(options_.members, key));
  if (is_starting(key) || report(folder).phase == MemberPhase::kLiving) {
    return err(ErrorCode::kFailedPrecondition, "{} lives; end it first", to_string(key));
  }
  {
    const std::lock_guard guard(mutex_);
    watched_.erase(key);
  }
  return folder.remove();
}

}  // namespace divvy::run
