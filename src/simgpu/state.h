// Opening, creating and tidying the shared state (shared.h).
//
// A process maps the state once and keeps it. Thread-safe after open().
#pragma once

#include <fcntl.h>

#include <string>

#include "simgpu/shared.h"

namespace divvy::simgpu {

// Takes a RobustMutex for a scope. When the former holder died inside, the data is put right by
// `repair` before anybody reads it.
class Locked {
 public:
  explicit Locked(RobustMutex& mutex, void (*repair)(void*) = nullptr, void* data = nullptr);
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  RobustMutex& mutex_;
};

class SharedState {
 public:
  // Maps the state that the environment names (config.h), creating it when there is none. On
  // failure returns null and says why in `error`.
  static SharedState* open(std::string* error);
  // Maps an existing state file and never creates one.
  static SharedState* attach(const std::string& path, std::string* error);
  // Removes the state file; processes that have it mapped keep their copy.
  static bool remove(const std::string& path);

  Shared& shared() { return *shared_; }
  Gpu& gpu(int index) { return shared_->gpu[index]; }
  int gpu_count() const { return static_cast<int>(shared_->gpu_count); }
  const std::string& path() const { return path_; }

  // Takes a slot for this process and the file lock that tells its life. -1 when all are taken.
  int claim_slot();
  int own_slot() const { return own_slot_; }  // -1 when this process has none
  // Whether the process in `slot` still lives. Always true for this process's own slot.
  bool alive(int slot);
  // The process in `slot` as this one would call it, also where it is in a container.
  int pid_of(int slot);
  // Frees the slots of processes that have died, with all they held. Returns how many.
  int reap();
  void release_slot(int slot);

  // Memory of a GPU in use by all living processes, the driver's own reserve not counted.
  uint64_t used_bytes(int gpu);
  // Adds to what this process holds on a GPU if it fits; false when the GPU is full.
  bool reserve_bytes(int gpu, int slot, uint64_t bytes);
  void unreserve_bytes(int gpu, int slot, uint64_t bytes);

 private:
  SharedState() = default;
  void free_slot(int slot);
  // Who holds the lock of a slot; false when that cannot be asked.
  bool ask_for_holder(int slot, struct flock* range);

  Shared* shared_ = nullptr;
  std::string path_;
  int alive_fd_ = -1;
  int own_slot_ = -1;
};

// Waits on / wakes a futex word in the shared state, across processes. A null deadline waits for
// ever; the deadline is CLOCK_MONOTONIC in nanoseconds.
void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, const uint64_t* deadline_ns);
void futex_wake_all(std::atomic<uint32_t>& word);

// Simulated time in nanoseconds: CLOCK_MONOTONIC, or the manual clock's reading.
uint64_t now_ns(const Shared& shared);

// Accounts `busy` nanoseconds that ended at `end_ns`.
void add_busy(BusyBuckets& buckets, uint64_t start_ns, uint64_t end_ns);
// Busy nanoseconds in the last full `buckets` before now, and the length of that stretch.
uint64_t busy_in_window(const BusyBuckets& buckets, uint64_t now, int count, uint64_t* window_ns);

}  // namespace divvy::simgpu
