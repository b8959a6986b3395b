#include "run/machine_runtime.h"

#include <poll.h>
#include <signal.h>
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
#include "run/detached.h"
#include "run/leftovers.h"
#include "run/member_documents.h"
#include "run/sealed_file.h"
#include "run/shepherd_client.h"
#include "sys/processes.h"

namespace divvy::run {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kRetry{1'000};
constexpr std::chrono::seconds kShepherdPatience{10};

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
  remove_leftovers(options.members);
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

Status MachineRuntime::start_shepherd(const MemberFolder& folder,
                                      const std::map<std::string, std::string>& secrets) {
  UniqueFd file;
  if (!secrets.empty()) {
    DIVVY_TRY(sealed, sealed_file("divvy-secrets", secrets_document(secrets)));
    file = std::move(sealed);
  }
  return start_detached("shepherd", options_.shepherd, folder, options_.patience, file);
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
    Status started = folder.write(
        Orders{member, options_.podman, options_.control_groups, !member.secrets.empty()});
    if (started) started = start_shepherd(folder, member.secrets);
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
  // Somebody has removed the socket, or all places at it are taken: there is another way, with the
  // grace that it was started with.
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
