// Asks the driver how much memory it holds for which process and how busy each is, on a thread of
// its own: a GPU in trouble can block a question for seconds, which nobody else should wait for.
//
// measure() may be called from any thread. While the audit says that somebody has a context it runs
// once a second; otherwise the thread sleeps until the next question.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/units.h"
#include "model/gpu_uuid.h"
#include "nvml/library.h"

namespace divvy::share {

class Meter {
 public:
  using Answer = std::function<void(std::optional<Bytes>)>;
  // Bytes by process. A process whose memory the driver does not tell is left out.
  using UsedByProcess = std::map<pid_t, Bytes>;
  // Called on the meter's thread; says whether there is reason to come again in a second.
  using Audit = std::function<bool()>;

  // Both outlive the meter.
  Meter(nvml::Library& library, Clock& clock);
  ~Meter();
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Before the first question. The audit begins with the next measure() or wake().
  void start(Audit audit);
  // After this has returned, neither audit nor answer is called any more.
  void stop();

  // The answer comes on the meter's thread; nothing when the driver does not tell.
  void measure(const model::GpuUuid& gpu, pid_t pid, Answer answer);
  // Something may have to be audited again.
  void wake();

  // Asks the driver now, on the calling thread. Nothing when it does not tell at all.
  [[nodiscard]] std::optional<UsedByProcess> used_on(const model::GpuUuid& gpu);
  // Thousandths of the GPU in the last second, by process; who is not in it was idle. Asks as
  // used_on() does.
  using BusyByProcess = std::map<pid_t, std::uint32_t>;
  [[nodiscard]] std::optional<BusyByProcess> busy_on(const model::GpuUuid& gpu);

 private:
  struct Question {
    model::GpuUuid gpu;
    pid_t pid = 0;
    Answer answer;
  };

  void run();

  nvml::Library& library_;
  Clock& clock_;
  std::map<model::GpuUuid, nvml::Device> devices_;
  Audit audit_;

  std::atomic<bool> stopping_{false};
  std::atomic<bool> asked_{false};
  std::atomic<bool> auditing_{false};
  std::mutex mutex_;
  std::deque<Question> questions_;  // Guarded by mutex_
  std::thread thread_;
};

}  // namespace divvy::share
