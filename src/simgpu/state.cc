#include "simgpu/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "simgpu/config.h"
#include "simgpu/timeline.h"

namespace divvy::simgpu {
namespace {

uint64_t monotonic_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(ts.tv_nsec);
}

void init_mutex(RobustMutex& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex.mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

void fill(Shared& shared, const SimConfig& config) {
  shared.magic = kSharedMagic;
  shared.version = kSharedVersion;
  shared.bytes = sizeof(Shared);
  snprintf(shared.driver_version, sizeof(shared.driver_version), "%s",
           config.driver_version.c_str());
  shared.cuda_version = config.cuda_version;
  shared.gpu_count = static_cast<uint32_t>(config.gpus.size());
  shared.slice_ns = config.slice_ns;
  shared.default_kernel_ns = config.default_kernel_ns;
  shared.launch_ns = config.launch_ns;
  shared.clock_mode = static_cast<uint32_t>(config.clock);
  shared.created_ns = monotonic_ns();
  // The manual clock starts away from zero, so that "never" and "at the beginning" differ.
  shared.manual_now_ns = 1'000'000'000;
  init_mutex(shared.table_lock);
  for (size_t i = 0; i < config.gpus.size(); ++i) {
    Gpu& gpu = shared.gpu[i];
    gpu.spec = config.gpus[i];
    gpu.owner = -1;
    init_mutex(gpu.lock);
    init_mutex(gpu.memory_lock);
  }
}

std::string problem(const char* what, const std::string& path) {
  return std::string("the simulated GPUs' state ") + path + " " + what + ": " + strerror(errno);
}

Shared* map_file(int fd) {
  void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
}

// Root's GPUs are for every user of the machine, as the device files of real ones are; a user's are
// for that user. Whoever may use a file that is there does not ask to make it, which the kernel
// refuses for files of others in /tmp and /dev/shm.
int open_shared(const std::string& path) {
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  struct stat info{};
  if (fd >= 0 && geteuid() == 0 && fstat(fd, &info) == 0 && info.st_uid == 0) {
    (void)fchmod(fd, 0666);
  }
  return fd;
}

// The exclusive flock on the state file serialises creation: the first process through fills the
// file, everybody else finds it ready. A creator that died half-way leaves `ready` unset, and the
// next one starts over.
Shared* map_or_create(const std::string& path, std::string* error) {
  const int fd = open_shared(path);
  if (fd < 0) {
    *error = problem("cannot be opened", path);
    return nullptr;
  }
  while (flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat info{};
  fstat(fd, &info);
  Shared* shared = nullptr;
  const bool exists = static_cast<uint64_t>(info.st_size) >= sizeof(Shared);
  if (!exists && ftruncate(fd, sizeof(Shared)) != 0) {
    *error = problem("cannot be sized", path);
  } else if (shared = map_file(fd); shared == nullptr) {
    *error = problem("cannot be mapped", path);
  } else if (shared->ready.load() == 0) {
    const auto config = config_from(process_environment(), error);
    if (config) {
      fill(*shared, *config);
      // Beside it, in a folder in which others may not make files. Nobody has a life sign yet that
      // closing it would take away.
      close(open_shared(path + ".alive"));
      shared->ready.store(1);
    } else {
      munmap(shared, sizeof(Shared));
      shared = nullptr;
    }
  }
  if (shared == nullptr && !exists) unlink(path.c_str());
  // The mapping keeps the open file alive, and with it a lock that is not given back by hand.
  flock(fd, LOCK_UN);
  close(fd);
  return shared;
}

bool valid(const Shared& shared, const std::string& path, std::string* error) {
  if (shared.magic == kSharedMagic && shared.version == kSharedVersion &&
      shared.bytes == sizeof(Shared) && shared.gpu_count <= kMaxGpus) {
    return true;
  }
  *error = "the file " + path +
           " was not written by this version of the simulated GPUs; run `simgpu reset` or name "
           "another file in DIVVY_SIM_STATE";
  return false;
}

}  // namespace

Locked::Locked(RobustMutex& mutex, void (*repair)(void*), void* data) : mutex_(mutex) {
  if (pthread_mutex_lock(&mutex_.mutex) == EOWNERDEAD) {
    if (repair != nullptr) repair(data);
    pthread_mutex_consistent(&mutex_.mutex);
  }
}

Locked::~Locked() { pthread_mutex_unlock(&mutex_.mutex); }

SharedState* SharedState::open(std::string* error) {
  const std::string path = state_path(process_environment());
  Shared* shared = map_or_create(path, error);
  if (shared == nullptr) return nullptr;
  if (!valid(*shared, path, error)) {
    munmap(shared, sizeof(Shared));
    return nullptr;
  }
  auto* state = new SharedState();
  state->shared_ = shared;
  state->path_ = path;
  return state;
}

SharedState* SharedState::attach(const std::string& path, std::string* error) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    *error = "there is no state of simulated GPUs at " + path +
             "; start a program on them first, or name the right file in DIVVY_SIM_STATE";
    return nullptr;
  }
  struct stat info{};
  fstat(fd, &info);
  Shared* shared = nullptr;
  if (static_cast<uint64_t>(info.st_size) >= sizeof(Shared)) shared = map_file(fd);
  close(fd);
  if (shared == nullptr || !valid(*shared, path, error)) {
    if (error->empty()) *error = "the file " + path + " is not a state of simulated GPUs";
    return nullptr;
  }
  auto* state = new SharedState();
  state->shared_ = shared;
  state->path_ = path;
  return state;
}

bool SharedState::remove(const std::string& path) {
  unlink((path + ".alive").c_str());
  return unlink(path.c_str()) == 0;
}

// The life sign is a record lock on byte `slot` of a file of its own. Record locks belong to the
// process: the kernel drops them when it ends, and a forked child does not inherit them. The file
// is separate from the state because closing any descriptor of a file drops a process's record
// locks on it, and the NVML library opens and closes the state as it likes.
static struct flock slot_range(int slot, short type) {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = slot;
  range.l_len = 1;
  return range;
}

int SharedState::claim_slot() {
  if (alive_fd_ < 0) {
    alive_fd_ = open_shared(path_ + ".alive");
    if (alive_fd_ < 0) return -1;
  }
  reap();
  Locked lock(shared_->table_lock);
  for (int i = 0; i < kMaxProcesses; ++i) {
    ProcessSlot& slot = shared_->slot[i];
    if (slot.state.load() != static_cast<uint32_t>(SlotState::kFree)) continue;
    struct flock range = slot_range(i, F_WRLCK);
    if (fcntl(alive_fd_, F_SETLK, &range) != 0) continue;
    slot.pid = getpid();
    slot.started_ns = now_ns(*shared_);
    slot.settled_at_ns = UINT64_MAX;
    slot.seen_wake = slot.wake.load();
    slot.callers_waiting = 0;
    memset(slot.name, 0, sizeof(slot.name));
    const int comm = ::open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (comm >= 0) {
      const ssize_t got = read(comm, slot.name, sizeof(slot.name) - 1);
      if (got > 0 && slot.name[got - 1] == '\n') slot.name[got - 1] = 0;
      close(comm);
    }
    for (ProcessOnGpu& on : slot.gpu) {
      on.used_bytes = 0;
      on.peak_bytes = 0;
      on.contexts = 0;
      on.consumed_ns = 0;
      on.launches = 0;
    }
    slot.generation.fetch_add(1);
    slot.state.store(static_cast<uint32_t>(SlotState::kClaimed));
    shared_->slot_high = std::max(shared_->slot_high, static_cast<uint32_t>(i + 1));
    own_slot_ = i;
    return i;
  }
  return -1;
}

bool SharedState::ask_for_holder(int slot, struct flock* range) {
  if (alive_fd_ < 0) {
    alive_fd_ = open_shared(path_ + ".alive");
    if (alive_fd_ < 0) return false;
  }
  // Asked on behalf of the open file rather than of the process: a process that has both driver
  // libraries loaded must also see the lock that its other library holds.
  *range = slot_range(slot, F_WRLCK);
  return fcntl(alive_fd_, F_OFD_GETLK, range) == 0;
}

bool SharedState::alive(int slot) {
  if (slot == own_slot_) return true;
  struct flock range{};
  return !ask_for_holder(slot, &range) || range.l_type != F_UNLCK;
}

int SharedState::pid_of(int slot) {
  struct flock range{};
  const bool known = slot != own_slot_ && ask_for_holder(slot, &range) && range.l_type != F_UNLCK;
  // A process in another pid namespace has another number there than here, and the kernel knows
  // both. Of one that cannot be seen from here only its own is known.
  return known && range.l_pid > 0 ? range.l_pid : shared_->slot[slot].pid;
}

void SharedState::free_slot(int index) {
  ProcessSlot& slot = shared_->slot[index];
  for (int g = 0; g < gpu_count(); ++g) {
    Gpu& gpu_state = gpu(g);
    Locked lock(gpu_state.lock, repair_timeline, &gpu_state);
    for (uint32_t c = 0; c < gpu_state.channel_high; ++c) {
      Channel& channel = gpu_state.channel[c];
      if (channel.used == 0 || channel.slot != static_cast<uint32_t>(index)) continue;
      channel.used = 0;
      channel.wants = 0;
      if (gpu_state.owner == static_cast<int32_t>(c)) {
        gpu_state.owner = -1;
        gpu_state.last_owner = static_cast<int32_t>(c);
        gpu_state.free_since_ns = now_ns(*shared_);
      }
    }
    slot.gpu[g].used_bytes = 0;
    slot.gpu[g].contexts = 0;
  }
  slot.pid = 0;
  slot.state.store(static_cast<uint32_t>(SlotState::kFree));
}

int SharedState::reap() {
  Locked lock(shared_->table_lock);
  int reaped = 0;
  for (uint32_t i = 0; i < shared_->slot_high; ++i) {
    if (shared_->slot[i].state.load() == static_cast<uint32_t>(SlotState::kFree)) continue;
    if (alive(static_cast<int>(i))) continue;
    free_slot(static_cast<int>(i));
    ++reaped;
  }
  return reaped;
}

void SharedState::release_slot(int slot) {
  Locked lock(shared_->table_lock);
  free_slot(slot);
  struct flock range = slot_range(slot, F_UNLCK);
  if (alive_fd_ >= 0) fcntl(alive_fd_, F_SETLK, &range);
  own_slot_ = -1;
}

uint64_t SharedState::used_bytes(int gpu) {
  uint64_t sum = 0;
  const uint32_t high = shared_->slot_high;
  for (uint32_t i = 0; i < high; ++i) {
    const ProcessSlot& slot = shared_->slot[i];
    if (slot.state.load(std::memory_order_relaxed) != 0) sum += slot.gpu[gpu].used_bytes.load();
  }
  return sum;
}

bool SharedState::reserve_bytes(int gpu_index, int slot, uint64_t bytes) {
  Gpu& target = gpu(gpu_index);
  const uint64_t capacity = target.spec.memory_bytes - target.spec.reserved_bytes;
  for (int attempt = 0; attempt < 2; ++attempt) {
    {
      Locked lock(target.memory_lock);
      if (bytes <= capacity && used_bytes(gpu_index) <= capacity - bytes) {
        ProcessOnGpu& on = shared_->slot[slot].gpu[gpu_index];
        const uint64_t used = on.used_bytes.fetch_add(bytes) + bytes;
        if (used > on.peak_bytes.load()) on.peak_bytes.store(used);
        return true;
      }
    }
    // Somebody may have died and still be counted.
    if (attempt == 0 && reap() == 0) return false;
  }
  return false;
}

void SharedState::unreserve_bytes(int gpu_index, int slot, uint64_t bytes) {
  shared_->slot[slot].gpu[gpu_index].used_bytes.fetch_sub(bytes);
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, const uint64_t* deadline_ns) {
  timespec ts{};
  if (deadline_ns != nullptr) {
    ts.tv_sec = static_cast<time_t>(*deadline_ns / 1'000'000'000u);
    ts.tv_nsec = static_cast<long>(*deadline_ns % 1'000'000'000u);
  }
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC deadline.
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_BITSET, seen,
          deadline_ns != nullptr ? &ts : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT32_MAX, nullptr, nullptr,
          0);
}

uint64_t now_ns(const Shared& shared) {
  if (shared.clock_mode == static_cast<uint32_t>(ClockMode::kManual)) {
    return shared.manual_now_ns.load(std::memory_order_acquire);
  }
  return monotonic_ns();
}

void add_busy(BusyBuckets& buckets, uint64_t start_ns, uint64_t end_ns) {
  while (start_ns < end_ns) {
    const uint64_t number = start_ns / kBucketNs;
    const uint64_t stop = std::min(end_ns, (number + 1) * kBucketNs);
    auto& bucket = buckets.bucket[number % kBuckets];
    if (bucket.number.load(std::memory_order_relaxed) != number) {
      bucket.busy_ns.store(0, std::memory_order_relaxed);
      bucket.number.store(number, std::memory_order_relaxed);
    }
    bucket.busy_ns.fetch_add(stop - start_ns, std::memory_order_relaxed);
    start_ns = stop;
  }
}

uint64_t busy_in_window(const BusyBuckets& buckets, uint64_t now, int count, uint64_t* window_ns) {
  const uint64_t current = now / kBucketNs;
  uint64_t busy = 0;
  for (const auto& bucket : buckets.bucket) {
    const uint64_t number = bucket.number.load(std::memory_order_relaxed);
    if (number < current && number + static_cast<uint64_t>(count) >= current) {
      busy += std::min(bucket.busy_ns.load(std::memory_order_relaxed), kBucketNs);
    }
  }
  *window_ns = static_cast<uint64_t>(count) * kBucketNs;
  return busy;
}

}  // namespace divvy::simgpu
