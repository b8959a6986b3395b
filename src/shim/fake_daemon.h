// The daemon's side of a tenant, for tests: a socket that processes register at, with pages whose
// limits the test sets and whose accounts it reads.
//
// It answers on a thread of its own from start to destruction; the other functions may be called
// meanwhile, from the test's thread. Processes are told apart by their pid, and a slot is cleared
// when its process is gone or registers as a new one, as the real daemon does.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "wire/messages.h"
#include "wire/pages.h"

namespace divvy::shim {

class FakeDaemon {
 public:
  struct Slice {
    uint8_t uuid[16];
    uint64_t memory_limit;
  };

  // The socket is `path`, which must not exist yet.
  FakeDaemon(std::string path, const std::vector<Slice>& slices);
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  const std::string& path() const { return path_; }
  wire::ControlPage& control() { return *control_; }
  wire::AccountPage& account() { return *account_.load(); }

  // Answers Measure, on the daemon's thread; without it nobody knows.
  using Meter = std::function<bool(pid_t pid, uint32_t gpu, uint64_t* bytes)>;
  void measure_with(Meter meter);
  // Refuses every Hello from now on.
  void refuse(wire::Refusal why);

  // Is a daemon of an older Divvy, which knows the messages up to this version.
  void speak_up_to(uint32_t version);

  // Is restarted and knows nothing of the processes: nobody came back in time. Their account page
  // is no more, and who comes back to it is refused.
  void forget_everybody();

  // What all processes use, as the shim sums it.
  uint64_t bytes_in_use(int gpu) const;
  // Processes that have registered since the beginning.
  int registered() const;

 private:
  struct Process {
    pid_t pid = 0;
    uint32_t slot = 0;
    bool known = false;
  };

  void serve();
  bool answer(int fd, Process& process);
  void welcome(int fd, Process& process, const wire::Hello& hello, size_t hello_bytes);
  void hung_up(const Process& process);
  void drop(const Process& process);
  void start_account();

  std::string path_;
  int listener_ = -1;
  int stop_[2] = {-1, -1};
  int control_fd_ = -1;
  int account_fd_ = -1;
  wire::ControlPage* control_ = nullptr;
  std::atomic<wire::AccountPage*> account_ = nullptr;
  std::vector<wire::AccountPage*> old_accounts_;
  std::map<int, Process> silent_;  // by pidfd: alive, and not connected
  mutable std::mutex mutex_;
  Meter meter_;
  wire::Refusal refusal_ = wire::Refusal::kNone;
  uint32_t newest_ = wire::kWireVersion;
  int registered_ = 0;
  std::thread thread_;
};

}  // namespace divvy::shim
