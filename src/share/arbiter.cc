#include "share/arbiter.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/check.h"

namespace divvy::share {
namespace {

constexpr std::uint64_t kWindowNs = 1'000'000'000;
// Below this a wait is a plain sleep, which is shorter than a condition variable's.
constexpr std::uint64_t kShortWaitNs = 2'000'000;
// No lane is believed to hold more predicted work than this.
constexpr std::uint64_t kMostAddedNs = 10'000'000'000;

std::uint64_t ns_of(TimePoint time) {
  return static_cast<std::uint64_t>(time.time_since_epoch().count());
}

// What is kept of a lane from one look to the next.
struct LaneMemory {
  struct Begun {
    std::uint32_t batch = 0;
    std::uint64_t cost_ns = 0;
  };
  std::uint64_t cost_ns = 0;
  std::array<Begun, 8> begun{};  // Lane::begun_cost_ns of the last batches, as far as seen

  void note(std::uint32_t batch, std::uint64_t begun_cost_ns) {
    begun[batch % begun.size()] = {batch, begun_cost_ns};
  }
  // Predicted cost of a batch; 0: not known. `last`: the last one that was begun, which stands at
  // `cost` now.
  [[nodiscard]] std::uint64_t cost_of(std::uint32_t batch, std::uint32_t last,
                                      std::uint64_t cost) const {
    const Begun& own = begun[batch % begun.size()];
    const Begun& next = begun[(batch + 1) % begun.size()];
    if (own.batch != batch || (batch != last && next.batch != batch + 1)) return 0;
    const std::uint64_t end = batch == last ? cost : next.cost_ns;
    return end > own.cost_ns ? std::min(end - own.cost_ns, kMostAddedNs) : 0;
  }
};

// Takes in one lane. The page is the tenant's: whatever it holds, the worst is a wrong wish of that
// tenant. `done` is read first, because it never runs ahead of the others. Answers whether it runs.
bool look_at(const wire::Lane& lane, LaneMemory& memory, GpuSchedule::Seen& seen,
             bool& all_starved) {
  const auto state = static_cast<wire::LaneState>(lane.state.load(std::memory_order_relaxed));
  if (state != wire::LaneState::kLive && state != wire::LaneState::kRetiring) return false;
  const std::uint32_t done = lane.done.load(std::memory_order_acquire);
  const std::uint32_t passed = lane.passed.load(std::memory_order_acquire);
  const std::uint32_t closed = lane.closed.load(std::memory_order_acquire);
  const std::uint32_t inserted = lane.inserted.load(std::memory_order_acquire);
  const std::uint64_t begun_cost = lane.begun_cost_ns.load(std::memory_order_relaxed);
  const std::uint64_t cost = lane.cost_ns.load(std::memory_order_relaxed);
  if (lane.inserted.load(std::memory_order_acquire) == inserted) memory.note(inserted, begun_cost);
  seen.finished += done;
  // A lane that was made anew counts from the beginning.
  const std::uint64_t added = cost >= memory.cost_ns ? cost - memory.cost_ns : cost;
  seen.added_ns += std::min(added, kMostAddedNs);
  memory.cost_ns = cost;
  seen.told = seen.told || cost != 0;
  const auto ahead = [](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::int32_t>(a - b) > 0;
  };
  if (!ahead(inserted, done)) return false;
  // Where the counters contradict each other it stands at the gate, which it is charged for.
  const bool running = ahead(passed, done) && !ahead(passed, inserted);
  const bool waiting = !running || inserted != passed;
  seen.wants = true;
  if (running) seen.passed_ns = seen.running ? 0 : memory.cost_of(passed, inserted, cost);
  seen.running = seen.running || running;
  seen.waiting = seen.waiting || waiting;
  seen.held = seen.held || !running;
  seen.last_ns += std::min(cost >= begun_cost ? cost - begun_cost : 0, kMostAddedNs);
  if (running && (inserted != passed || closed == inserted)) all_starved = false;
  return running;
}

// The thread that decides when others may run comes before them, where the daemon may say so. It
// sleeps between two looks, so it can keep nobody off a core.
void come_first() {
  const sched_param first{.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) != 0) {
    (void)setpriority(PRIO_PROCESS, 0, -20);
  }
}

}  // namespace

class Arbiter::Impl {
 public:
  Impl(Clock& clock, Drive drive, const GpuSchedule::Tuning& tuning)
      : clock_(clock), tuning_(tuning) {
    if (drive == Drive::kThread) thread_ = std::thread([this] { run(); });
  }

  ~Impl() {
    stopping_.store(true);
    doorbell();
    if (thread_.joinable()) thread_.join();
  }

  void step_once() {
    const std::lock_guard lock(mutex_);
    (void)step();
  }

  void add_tenant(model::TenantId id, wire::ControlPage* control,
                  const std::vector<Slice>& slices) {
    const std::lock_guard lock(mutex_);
    Tenant& tenant = tenants_[id];
    tenant.control = control;
    for (const Slice& slice : slices) {
      Gpu& gpu = gpus_.try_emplace(slice.gpu, Gpu{GpuSchedule(tuning_), {}, {}}).first->second;
      tenant.seats.push_back({slice.gpu, gpu.schedule.add(slice.terms), {}});
    }
    publish(tenant);
    ring();
  }

  void change_tenant(model::TenantId id, const std::vector<Slice>& slices) {
    const std::lock_guard lock(mutex_);
    const auto found = tenants_.find(id);
    if (found == tenants_.end()) return;
    for (std::size_t i = 0; i < slices.size() && i < found->second.seats.size(); ++i) {
      Held& held = found->second.seats[i];
      DIVVY_CHECK(held.gpu == slices[i].gpu, "slice {} of tenant {} is on another GPU", i,
                  id.value());
      gpus_[held.gpu].schedule.change(held.seat, slices[i].terms);
    }
    ring();
  }

  void remove_tenant(model::TenantId id) {
    const std::lock_guard lock(mutex_);
    const auto found = tenants_.find(id);
    if (found == tenants_.end()) return;
    for (const Held& held : found->second.seats) gpus_[held.gpu].schedule.remove(held.seat);
    tenants_.erase(found);
    std::erase_if(processes_, [&](const auto& entry) { return entry.second.tenant == id; });
    ring();
  }

  void add_process(model::TenantId id, ProcessKey key, const wire::LanesPage* lanes) {
    const std::lock_guard lock(mutex_);
    if (tenants_.contains(id)) processes_[key] = {.tenant = id, .lanes = lanes};
    ring();
  }

  void remove_process(ProcessKey key) {
    const std::lock_guard lock(mutex_);
    processes_.erase(key);
    ring();
  }

  void doorbell() {
    const std::lock_guard lock(mutex_);
    ring();
  }

  std::vector<LeaseReport> report() {
    const std::lock_guard lock(mutex_);
    std::vector<LeaseReport> reports;
    for (const auto& [id, tenant] : tenants_) {
      for (std::size_t i = 0; i < tenant.seats.size(); ++i) {
        const Held& held = tenant.seats[i];
        const GpuSchedule& schedule = gpus_[held.gpu].schedule;
        const GpuSchedule::Account& account = schedule.account(held.seat);
        const GpuSchedule::Gate gate = schedule.gate(held.seat);
        reports.push_back({.tenant = id,
                           .slice = static_cast<int>(i),
                           .used_ns = account.used_ns,
                           .waited_ns = account.waited_ns,
                           .capped_ns = account.capped_ns,
                           .leases = account.leases,
                           .used_share = held.window.used_share,
                           .waited_share = held.window.waited_share,
                           .open = gate.open,
                           .gated = gate.gated,
                           .wants = held.window.wants,
                           .gates_unavailable = held.window.gates_unavailable,
                           .waits = account.waits});
      }
    }
    return reports;
  }

  std::vector<TurnReport> turns() const {
    const std::lock_guard lock(mutex_);
    std::vector<TurnReport> reports;
    reports.reserve(gpus_.size());
    for (const auto& [index, gpu] : gpus_) {
      reports.push_back({index, gpu.schedule.used_ns(), gpu.schedule.turns()});
    }
    return reports;
  }

 private:
  // The last second of one tenant on one GPU.
  struct Window {
    std::uint64_t since_ns = 0;
    std::uint64_t used_ns = 0;
    std::uint64_t waited_ns = 0;
    std::uint32_t used_share = 0;
    std::uint32_t waited_share = 0;
    bool wants = false;
    bool gates_unavailable = false;
  };
  struct Held {
    int gpu;
    GpuSchedule::Seat seat;
    Window window;
  };
  struct Tenant {
    wire::ControlPage* control = nullptr;
    std::vector<Held> seats;  // one per slice
  };
  struct Process {
    model::TenantId tenant;
    const wire::LanesPage* lanes;
    std::uint64_t contexts = 0;  // bit i: it has had a context on slice i
    std::vector<LaneMemory> memory{};
  };
  struct Gpu {
    GpuSchedule schedule;
    std::vector<GpuSchedule::Seen> seen;
    std::vector<bool> all_starved;
  };

  void ring() {
    rung_ = true;
    changed_.notify_one();
  }

  void run() {
    prctl(PR_SET_NAME, "divvy-arbiter");
    prctl(PR_SET_TIMERSLACK, 1);
    come_first();
    std::unique_lock lock(mutex_);
    while (!stopping_.load()) {
      rung_ = false;
      const std::optional<std::uint64_t> next = step();
      if (next.has_value() && *next < kShortWaitNs) {
        lock.unlock();
        const timespec pause{0, static_cast<long>(*next)};
        nanosleep(&pause, nullptr);
        lock.lock();
        continue;
      }
      // Whoever begins a batch from here on rings; whoever did before is found by one more look.
      set_asleep(true);
      const std::optional<std::uint64_t> again = step();
      const bool quiet = !again.has_value() || *again >= kShortWaitNs;
      if (quiet && again.has_value()) {
        changed_.wait_for(lock, std::chrono::nanoseconds(*again), [this] { return rung_; });
      } else if (quiet) {
        changed_.wait(lock, [this] { return rung_; });
      }
      set_asleep(false);
    }
  }

  void set_asleep(bool asleep) {
    for (auto& [id, tenant] : tenants_) {
      tenant.control->asleep.store(asleep ? 1 : 0, std::memory_order_seq_cst);
    }
  }

  // Looks at every lane, decides, and moves the gates.
  std::optional<std::uint64_t> step() {
    const std::uint64_t now = ns_of(clock_.now());
    look();
    std::optional<std::uint64_t> next;
    for (auto& [index, gpu] : gpus_) {
      gpu.schedule.step(now, gpu.seen);
      const auto wish = gpu.schedule.next_in_ns();
      if (wish.has_value()) next = std::min(next.value_or(*wish), *wish);
    }
    for (auto& [id, tenant] : tenants_) {
      publish(tenant);
      for (Held& held : tenant.seats) keep_window(tenant, held, now);
    }
    return next;
  }

  void look() {
    for (auto& [index, gpu] : gpus_) {
      gpu.seen.assign(gpu.schedule.seats(), {});
      gpu.all_starved.assign(gpu.schedule.seats(), true);
    }
    for (auto& [key, process] : processes_) {
      const auto found = tenants_.find(process.tenant);
      if (found == tenants_.end()) continue;
      std::vector<Held>& seats = found->second.seats;
      // Once there, it is there while it lives: one that came and went at each look would have the
      // others gated and set free each time, and what is owed to them forgotten.
      process.contexts |= process.lanes->contexts.load(std::memory_order_relaxed);
      const bool ungateable =
          (process.lanes->flags.load(std::memory_order_relaxed) & wire::kGatesUnavailable) != 0;
      for (std::size_t i = 0; i < seats.size(); ++i) {
        if ((process.contexts >> i & 1) == 0) continue;
        gpus_[seats[i].gpu].seen[seats[i].seat].present = true;
        seats[i].window.gates_unavailable = ungateable;
      }
      const std::uint32_t high = std::min<std::uint32_t>(
          process.lanes->lane_high.load(std::memory_order_acquire), wire::kMaxLanes);
      if (process.memory.size() < high) process.memory.resize(high);
      std::uint64_t running = 0;  // a bit for every slice
      for (std::uint32_t i = 0; i < high; ++i) {
        const wire::Lane& lane = process.lanes->lane[i];
        const std::uint32_t slice = lane.gpu.load(std::memory_order_relaxed);
        if (slice >= seats.size()) continue;
        Gpu& gpu = gpus_[seats[slice].gpu];
        bool all_starved = gpu.all_starved[seats[slice].seat];
        if (look_at(lane, process.memory[i], gpu.seen[seats[slice].seat], all_starved)) {
          running |= 1ULL << slice;
        }
        gpu.all_starved[seats[slice].seat] = all_starved;
      }
      for (std::size_t i = 0; i < seats.size(); ++i) {
        if ((running >> i & 1) != 0) ++gpus_[seats[i].gpu].seen[seats[i].seat].processes;
      }
    }
    for (auto& [index, gpu] : gpus_) {
      for (std::size_t i = 0; i < gpu.seen.size(); ++i) {
        GpuSchedule::Seen& seen = gpu.seen[i];
        seen.starved = seen.running && !seen.waiting && gpu.all_starved[i];
      }
    }
  }

  // Writes what changed. The mode is written before the gate is closed and after it was opened, so
  // that a tenant that runs without gates never meets a closed one.
  void publish(Tenant& tenant) {
    bool any_gated = false;
    for (std::size_t i = 0; i < tenant.seats.size(); ++i) {
      const Held& held = tenant.seats[i];
      const GpuSchedule& schedule = gpus_[held.gpu].schedule;
      const GpuSchedule::Gate gate = schedule.gate(held.seat);
      wire::ControlGpu& slice = tenant.control->gpu[i];
      const auto store = [](std::atomic<std::uint32_t>& word, std::uint32_t value) {
        if (word.load(std::memory_order_relaxed) != value) word.store(value);
      };
      store(slice.batch_ns, schedule.batch_ns());
      store(slice.mode,
            static_cast<std::uint32_t>(gate.gated ? wire::Mode::kGated : wire::Mode::kFree));
      store(slice.gate, gate.open || !gate.gated ? 1 : 0);
      const SliceTerms& terms = schedule.terms(held.seat);
      store(slice.share, terms.share);
      store(slice.flags,
            (terms.tenant_class == TenantClass::kLatency ? wire::kSliceLatencyClass : 0) |
                (terms.capped ? wire::kSliceCapped : 0) | (terms.mps ? wire::kSliceMps : 0) |
                (gate.contended ? wire::kSliceContended : 0));
      any_gated = any_gated || gate.gated;
    }
    const std::uint32_t word = any_gated ? 1 : 0;
    if (tenant.control->any_gated.load(std::memory_order_relaxed) != word) {
      tenant.control->any_gated.store(word);
    }
  }

  void keep_window(Tenant& tenant, Held& held, std::uint64_t now) {
    Gpu& gpu = gpus_[held.gpu];
    Window& window = held.window;
    window.wants = gpu.seen[held.seat].wants;
    if (now - window.since_ns < kWindowNs) return;
    const GpuSchedule::Account& account = gpu.schedule.account(held.seat);
    const auto thousandths = [&](std::uint64_t total, std::uint64_t before) {
      const std::uint64_t length = now - window.since_ns;
      return static_cast<std::uint32_t>(
          std::min<std::uint64_t>((total - before) * 1000 / length, 1000));
    };
    window.used_share = thousandths(account.used_ns, window.used_ns);
    window.waited_share = thousandths(account.waited_ns, window.waited_ns);
    window.since_ns = now;
    window.used_ns = account.used_ns;
    window.waited_ns = account.waited_ns;
    const auto slice = static_cast<std::size_t>(&held - tenant.seats.data());
    // Who runs without gates is measured by the registrar, which writes it there.
    if (gpu.schedule.gate(held.seat).gated) {
      tenant.control->gpu[slice].used_share.store(window.used_share, std::memory_order_relaxed);
    }
  }

  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
  std::atomic<bool> stopping_{false};
  std::map<model::TenantId, Tenant> tenants_;
  std::map<ProcessKey, Process> processes_;
  GpuSchedule::Tuning tuning_;
  std::map<int, Gpu> gpus_;
  std::thread thread_;  // last: it uses all of the above
};

Arbiter::Arbiter(Clock& clock, Drive drive, const GpuSchedule::Tuning& tuning)
    : impl_(std::make_unique<Impl>(clock, drive, tuning)) {}
Arbiter::~Arbiter() = default;

void Arbiter::add_tenant(model::TenantId tenant, wire::ControlPage* control,
                         const std::vector<Slice>& slices) {
  impl_->add_tenant(tenant, control, slices);
}
void Arbiter::change_tenant(model::TenantId tenant, const std::vector<Slice>& slices) {
  impl_->change_tenant(tenant, slices);
}
void Arbiter::remove_tenant(model::TenantId tenant) { impl_->remove_tenant(tenant); }
void Arbiter::add_process(model::TenantId tenant, ProcessKey process,
                          const wire::LanesPage* lanes) {
  impl_->add_process(tenant, process, lanes);
}
void Arbiter::remove_process(ProcessKey process) { impl_->remove_process(process); }
void Arbiter::doorbell() { impl_->doorbell(); }
void Arbiter::step() { impl_->step_once(); }
std::vector<LeaseReport> Arbiter::report() const { return impl_->report(); }
std::vector<TurnReport> Arbiter::turns() const { return impl_->turns(); }

}  // namespace divvy::share
