// The MPS control daemons that tenants in mode mps run their kernels through, one for each GPU:
// started with the first such tenant of a GPU, started again when one dies, quit after the last.
//
// `divvyd` makes one and calls it from any thread. acquire() blocks until the daemon answers (well
// under a second as a rule); release() only notes it down. A thread of its own, begun with the
// first acquire(), watches the daemons and stops them.
//
// When this object goes, daemons in use stay: their tenants go on, and the next divvyd finds them
// by the folder. The driver runs one server for each user at a time: tenants of different users on
// one GPU wait for each other there.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "model/gpu_uuid.h"
#include "share/gpu_schedule.h"
#include "share/mps_control.h"

namespace divvy::share {

// How many per cent of the GPU's threads a tenant's programs may use. A share that is no whole per
// cent is rounded up, so that the guarantee can be reached; a whole GPU or more is 100, and so is
// the latency class, which the arbiter lets run alone for as long as its share allows.
[[nodiscard]] std::uint32_t mps_thread_percentage(Share share, TenantClass tenant_class);

class Mps {
 public:
  struct Options {
    std::filesystem::path folder;  // <run folder>/mps; made when needed
    MpsControlOptions control;
    // A daemon that dies more often than this within a minute stays dead until the next acquire().
    int restarts_per_minute = 5;
    // Told after each death what has become of it: a new daemon, or why there is none. Called by
    // the watching thread; may not call back into this object.
    std::function<void(const model::GpuUuid& gpu, const Status& restarted)> on_death;
  };

  explicit Mps(Options options);
  ~Mps();
  Mps(const Mps&) = delete;
  Mps& operator=(const Mps&) = delete;

  // kUnsupported: the driver's program is not installed; says what to do.
  [[nodiscard]] Status check_installed() const;

  // There is a daemon for this GPU from now on. May be called again while there is: for each tenant
  // that comes. An error says what to do; nothing is left behind then.
  [[nodiscard]] Status acquire(const model::GpuUuid& gpu);
  // Where clients reach the daemon of this GPU. The folder stays the same one while the daemon is
  // acquired, also where it dies and is started again: containers have it mounted.
  [[nodiscard]] std::filesystem::path pipe_folder(const model::GpuUuid& gpu) const;
  // The last tenant that used it is gone (the caller counts). An acquire() that follows soon enough
  // keeps the daemon.
  void release(const model::GpuUuid& gpu);

  // Daemons that an earlier divvyd left behind and nobody has acquired since are quit. Called once,
  // after the tenants of before were found again.
  void stop_unused();

  // Returns when everything that was released is stopped.
  void settle();

 private:
  struct Server {
    Server(const model::GpuUuid& gpu, std::filesystem::path folder,
           const MpsControlOptions& options)
        : control(gpu, std::move(folder), options) {}

    std::atomic<bool> wanted{false};
    std::mutex mutex;  // Guards what follows; held while the daemon starts or stops
    MpsControl control;
    std::vector<std::chrono::steady_clock::time_point> deaths;
  };

  [[nodiscard]] std::filesystem::path folder_of(const model::GpuUuid& gpu) const;
  [[nodiscard]] std::shared_ptr<Server> server_for(const model::GpuUuid& gpu);
  [[nodiscard]] std::vector<std::shared_ptr<Server>> servers() const;
  void wake() const;
  void watch();
  // Stops it, or starts it again, as it needs. Returns what to wait on, -1 for nothing.
  int tend(Server& server);
  void begin_watching();

  const Options options_;
  UniqueFd wake_;
  mutable std::mutex mutex_;  // Guards servers_ and thread_; never taken while a Server's is held
  std::map<model::GpuUuid, std::shared_ptr<Server>> servers_;
  std::thread thread_;
  std::atomic<bool> closing_{false};
};

}  // namespace divvy::share
