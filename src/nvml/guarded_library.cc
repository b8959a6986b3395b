#include "nvml/guarded_library.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace divvy::nvml {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// What a lane's thread and its owner share; it outlives the owner where the thread is stuck.
struct LaneState {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> questions;
  std::optional<SteadyTime> busy_since;
  bool stopping = false;
};

void work(const std::shared_ptr<LaneState>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stopping || !state->questions.empty(); });
    if (state->stopping) return;
    const auto question = std::move(state->questions.front());
    state->questions.pop_front();
    state->busy_since = std::chrono::steady_clock::now();
    lock.unlock();
    question();
    lock.lock();
    state->changed.notify_all();
  }
}

// The thread through which one GPU is asked.
class Lane {
 public:
  explicit Lane(std::chrono::milliseconds patience)
      : patience_(patience), thread_([state = state_] { work(state); }) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() { stop(); }

  template <typename T>
  Result<T> ask(std::function<Result<T>()> question) {
    struct Answered {
      std::optional<Result<T>> answer;
    };
    const auto answered = std::make_shared<Answered>();
    std::unique_lock lock(state_->mutex);
    if (is_stuck()) return too_late();
    state_->questions.push_back([answered, question = std::move(question), state = state_] {
      Result<T> answer = question();
      const std::lock_guard done(state->mutex);
      answered->answer = std::move(answer);
      // Together with the answer: whoever has it may go, and nobody is with the driver then.
      state->busy_since.reset();
    });
    state_->changed.notify_all();
    const bool came =
        state_->changed.wait_for(lock, patience_, [&] { return answered->answer.has_value(); });
    if (!came) return too_late();
    return *std::move(answered->answer);
  }

  // False when its thread is still with the driver, where it may stay for ever.
  bool stop() {
    {
      const std::lock_guard lock(state_->mutex);
      state_->stopping = true;
      state_->questions.clear();
      if (state_->busy_since && thread_.joinable()) {
        thread_.detach();
        return false;
      }
    }
    state_->changed.notify_all();
    if (thread_.joinable()) thread_.join();
    return true;
  }

 private:
  [[nodiscard]] bool is_stuck() const {
    return state_->busy_since &&
           std::chrono::steady_clock::now() - *state_->busy_since >= patience_;
  }
  [[nodiscard]] tl::unexpected<Error> too_late() const {
    return err(ErrorCode::kTimeout, "does not answer (waited {} ms)", patience_.count());
  }

  const std::chrono::milliseconds patience_;
  const std::shared_ptr<LaneState> state_ = std::make_shared<LaneState>();
  std::thread thread_;
};

// A driver that was stuck is not closed when it comes back: nobody can say where the program is
// then.
void keep_for_ever(std::shared_ptr<Library> library) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<Library>>;
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(library));
}

class GuardedLibrary : public Library {
 public:
  GuardedLibrary(std::unique_ptr<Library> library, std::chrono::milliseconds patience)
      : library_(std::move(library)), patience_(patience) {}

  ~GuardedLibrary() override {
    bool all_back = true;
    for (auto& [index, lane] : lanes_) all_back = lane->stop() && all_back;
    if (!all_back) keep_for_ever(library_);
  }

  bool simulated() const override { return library_->simulated(); }
  // These are not about a GPU.
  Result<std::string> driver_version() override { return library_->driver_version(); }
  Result<std::string> nvml_version() override { return library_->nvml_version(); }
  Result<std::uint32_t> cuda_version() override { return library_->cuda_version(); }
  Result<std::uint32_t> device_count() override { return library_->device_count(); }

  Result<Device> device(std::uint32_t index) override {
    const Result<Device> found =
        lane(index).ask<Device>([library = library_, index] { return library->device(index); });
    if (found) {
      const std::lock_guard lock(mutex_);
      indices_[found->handle] = index;
    }
    return found;
  }

#define DIVVY_GUARDED(type, name) \
  Result<type> name(Device device) override { return ask<type>(device, &Library::name); }
  DIVVY_GUARDED(std::string, name)
  DIVVY_GUARDED(std::string, uuid)
  DIVVY_GUARDED(model::PciAddress, pci_address)
  DIVVY_GUARDED(std::uint32_t, minor_number)
  DIVVY_GUARDED(model::ComputeCapability, compute_capability)
  DIVVY_GUARDED(model::MigMode, mig_mode)
  DIVVY_GUARDED(Memory, memory)
  DIVVY_GUARDED(std::vector<ProcessMemory>, processes)
  DIVVY_GUARDED(Utilization, utilization)
  DIVVY_GUARDED(std::uint32_t, temperature_c)
  DIVVY_GUARDED(std::uint32_t, slowdown_temperature_c)
  DIVVY_GUARDED(std::uint32_t, power_mw)
  DIVVY_GUARDED(std::uint32_t, power_limit_mw)
  DIVVY_GUARDED(std::uint32_t, memory_temperature_c)
  DIVVY_GUARDED(std::uint64_t, energy_mj)
  DIVVY_GUARDED(ClockLimits, clock_limits)
  DIVVY_GUARDED(std::uint64_t, clock_event_reasons)
  DIVVY_GUARDED(std::uint32_t, encoder_percent)
  DIVVY_GUARDED(std::uint32_t, decoder_percent)
  DIVVY_GUARDED(std::uint64_t, pcie_replays)
  DIVVY_GUARDED(Throughput, pcie_throughput)
  DIVVY_GUARDED(std::uint64_t, nvlink_bytes)
  DIVVY_GUARDED(Activity, activity)
  DIVVY_GUARDED(std::uint64_t, corrected_memory_errors)
  DIVVY_GUARDED(std::uint64_t, uncorrected_memory_errors)
  DIVVY_GUARDED(RemappedRows, remapped_rows)
  DIVVY_GUARDED(std::vector<std::uint32_t>, near_cpus)
  DIVVY_GUARDED(std::vector<std::uint32_t>, near_numa_nodes)
  DIVVY_GUARDED(std::uint32_t, own_numa_node)
  DIVVY_GUARDED(std::vector<NvlinkPort>, active_nvlinks)
#undef DIVVY_GUARDED

  Result<std::vector<ProcessUtilization>> process_utilization(
      Device device, std::chrono::system_clock::time_point since) override {
    return lane_of(device).ask<std::vector<ProcessUtilization>>(
        [library = library_, device, since] {
          return library->process_utilization(device, since);
        });
  }

  Result<std::uint32_t> clock_mhz(Device device, ClockDomain domain) override {
    return lane_of(device).ask<std::uint32_t>(
        [library = library_, device, domain] { return library->clock_mhz(device, domain); });
  }

  // About two GPUs, so that it belongs to neither's thread.
  Result<Distance> distance(Device a, Device b) override {
    return lane(kPairs).ask<Distance>(
        [library = library_, a, b] { return library->distance(a, b); });
  }

  Result<std::unique_ptr<XidEvents>> watch_xids(std::span<const Device> devices) override {
    return library_->watch_xids(devices);
  }

 private:
  static constexpr std::uint32_t kPairs = UINT32_MAX;
  static constexpr std::uint32_t kUnknown = UINT32_MAX - 1;

  template <typename T>
  Result<T> ask(Device device, Result<T> (Library::*question)(Device)) {
    return lane_of(device).ask<T>(
        [library = library_, device, question] { return (library.get()->*question)(device); });
  }

  Lane& lane_of(Device device) {
    std::uint32_t index = kUnknown;
    {
      const std::lock_guard lock(mutex_);
      const auto found = indices_.find(device.handle);
      if (found != indices_.end()) index = found->second;
    }
    return lane(index);
  }

  Lane& lane(std::uint32_t index) {
    const std::lock_guard lock(mutex_);
    auto& found = lanes_[index];
    if (!found) found = std::make_unique<Lane>(patience_);
    return *found;
  }

  // Every question holds it: it is not closed under a thread that is in it.
  std::shared_ptr<Library> library_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::map<void*, std::uint32_t> indices_;
  std::map<std::uint32_t, std::unique_ptr<Lane>> lanes_;
};

}  // namespace

std::unique_ptr<Library> guarded(std::unique_ptr<Library> library,
                                 std::chrono::milliseconds patience) {
  return std::make_unique<GuardedLibrary>(std::move(library), patience);
}

}  // namespace divvy::nvml
