// What happened to GPUs and to the tenants on them, for whoever wants to know: the last thousand
// events, numbered from 1. Also written to the daemon's log. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "model/gpu.h"
#include "model/gpu_uuid.h"
#include "model/tenant.h"

namespace divvy::health {

enum class EventKind : std::uint8_t {
  kHealth,    // A GPU changed its state
  kXid,       // The driver reported an error of a GPU
  kProbe,     // A probe failed
  kCordon,    // An operator
  kDrain,     // An operator
  kUncordon,  // An operator
  kDrained,   // The last tenant has left a GPU that is being drained
  kTenant,    // A tenant was told about its GPU, or is being ended
  kSampler,   // The process that asks the driver
};
[[nodiscard]] std::string_view to_string(EventKind kind);

struct Event {
  std::uint64_t number = 0;  // Given by the log
  WallTime time;             // Given by the log
  EventKind kind = EventKind::kHealth;
  std::optional<model::GpuIndex> gpu;
  std::optional<model::GpuUuid> uuid;
  std::string tenant;  // Its name; empty where it is about none
  std::string state;   // Of the GPU after the event; empty where it is about none
  std::string reason;  // In words
};

class EventLog {
 public:
  static constexpr std::size_t kKept = 1000;

  // The clock outlives it.
  explicit EventLog(const Clock& clock) : clock_(clock) {}

  void add(Event event);

  // Those with a higher number, oldest first. Older ones than are kept are missing.
  [[nodiscard]] std::vector<Event> since(std::uint64_t number) const;
  // Of the last event; 0 when there was none.
  [[nodiscard]] std::uint64_t last() const;

  // A descriptor that becomes readable when an event with a higher number is there.
  [[nodiscard]] std::shared_ptr<const UniqueFd> when_after(std::uint64_t number);

 private:
  struct Waiting {
    std::uint64_t number = 0;
    std::weak_ptr<const UniqueFd> ready;
  };

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::deque<Event> events_;
  std::uint64_t last_ = 0;
  std::vector<Waiting> waiting_;
};

}  // namespace divvy::health
