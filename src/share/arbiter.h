// Gives out leases: decides, many times a second while somebody contends, whose gates are open.
//
// One thread of its own watches the lanes of every registered process and writes the gates in the
// tenants' control pages. It sleeps while nobody has work that is gated (doorbell() wakes it). What
// it decides is in gpu_schedule.h, which is pure; this class is the pages, the clock and the
// thread.
//
// All methods may be called from any thread and return quickly. The caller keeps a page mapped
// until the matching remove_...() has returned.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "model/gpu_uuid.h"
#include "model/tenant.h"
#include "share/gpu_schedule.h"
#include "wire/pages.h"

namespace divvy::share {

// A registered process. Unique over the daemon's life.
using ProcessKey = std::uint64_t;

// What one tenant holds and has had on one GPU.
struct LeaseReport {
  model::TenantId tenant;
  int slice = 0;                 // index into its control page
  std::uint64_t used_ns = 0;     // GPU time measured since it was added
  std::uint64_t waited_ns = 0;   // had work and stood at a closed gate
  std::uint64_t capped_ns = 0;   // of that: because of its cap
  std::uint64_t leases = 0;      // times its gate was opened while others waited
  std::uint32_t used_share = 0;  // thousandths of the last second
  std::uint32_t waited_share = 0;
  bool open = true;
  bool gated = false;
  bool wants = false;
  bool gates_unavailable = false;  // a process of it runs on a driver that refuses gates
  DurationCounts waits{};          // times it stood at its closed gate until that was opened
};

// What the arbiter did on one GPU.
struct TurnReport {
  int gpu = 0;  // as in Arbiter::Slice
  std::uint64_t used_ns = 0;
  DurationCounts turns;
};

class Arbiter {
 public:
  struct Slice {
    int gpu;  // any number that is the same for the same GPU, e.g. its index on the node
    SliceTerms terms;
  };

  enum class Drive {
    kThread,  // a thread of its own
    kCaller,  // whoever made it calls step(), for tests in simulated time
  };

  // The clock outlives the arbiter.
  explicit Arbiter(Clock& clock, Drive drive = Drive::kThread,
                   const GpuSchedule::Tuning& tuning = {});
  ~Arbiter();

  // Slices in the order of the control page. The page is mapped writable.
  void add_tenant(model::TenantId tenant, wire::ControlPage* control,
                  const std::vector<Slice>& slices);
  // New terms (share, cap, class) for slices that it has; takes effect within a lease.
  void change_tenant(model::TenantId tenant, const std::vector<Slice>& slices);
  void remove_tenant(model::TenantId tenant);

  void add_process(model::TenantId tenant, ProcessKey process, const wire::LanesPage* lanes);
  void remove_process(ProcessKey process);

  void doorbell();

  // Looks, decides and moves the gates once. Only with Drive::kCaller.
  void step();

  [[nodiscard]] std::vector<LeaseReport> report() const;
  // Of every GPU that ever had a tenant.
  [[nodiscard]] std::vector<TurnReport> turns() const;

  Arbiter(const Arbiter&) = delete;
  Arbiter& operator=(const Arbiter&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::share
