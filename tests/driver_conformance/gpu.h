// What most cases need before they can begin: a context on the first GPU, a few kernels, a way to
// hold a stream still without looking at a clock, and another process. Used by the one thread of a
// case.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "check.h"

namespace divvy::conformance {

// cuInit, the primary context of device 0, current. False (and said so) when that fails.
bool start_gpu(Check& t);
extern CUdevice device;
extern CUcontext context;

// The kernels of the cases: fill32(u64 to, u64 count, u32 value), empty(), shared1k() with 1 KiB of
// static shared memory, and the variable `table` of 64 bytes.
extern const char* const kCaseKernels;
bool load_kernels(Check& t);
extern CUmodule module;
extern CUfunction fill32;
extern CUfunction empty;

// Enqueues fill32; one block.
CUresult launch_fill(CUdeviceptr to, uint64_t count, uint32_t value, CUstream stream);
// The first word of device memory, after the context is idle.
uint32_t word_at(CUdeviceptr from);
uint64_t free_bytes();
int attribute(CUdevice_attribute which);

// Holds a stream still until open() by a stream memory operation on pinned memory. Opens itself
// when it goes, so that a case that returns early hangs nothing.
class Gate {
 public:
  Gate(Check& t, CUstream stream);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open();
  [[nodiscard]] bool works() const { return works_; }

 private:
  uint32_t* word_ = nullptr;
  bool works_ = false;
};

// Writes a word that a stream is waiting for, as one thread tells another.
inline void store(volatile uint32_t* word, uint32_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
inline void store(volatile uint64_t* word, uint64_t value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

// Another process, forked now: call it before anything of the driver. `work` gets the other end of
// a socket pair and its return value is the exit status. The driver's functions are resolved there
// too.
class Peer {
 public:
  explicit Peer(const std::function<int(int socket)>& work);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits for its end: the exit status, or 1000 plus the signal.
  int wait();

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
};

// Whole messages over the socket of a Peer.
bool send_bytes(int socket, const void* data, size_t bytes);
bool receive_bytes(int socket, void* data, size_t bytes);
// A file descriptor over the socket.
bool send_fd(int socket, int fd);
int receive_fd(int socket);

constexpr uint64_t kMiB = 1ULL << 20U;

}  // namespace divvy::conformance
