// A GPU and its tenants in a few lines, for tests of the schedule: programs that launch kernels
// with a CPU side that runs ahead, batches with gates around them, predictions of what they cost,
// and hardware that gives time slices to whoever is past its gate. Time is counted, not slept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "share/gpu_schedule.h"

namespace divvy::share {

struct Program {
  std::uint64_t kernel_ns = 50'000;
  std::uint64_t cpu_ns = 4'000;        // the CPU's time per launch
  std::uint64_t kernels_per_sync = 0;  // then it waits until all is done; 0: never
  std::uint64_t pause_ns = 0;          // and then does nothing for so long
  double requests_per_s = 0;           // launches one kernel at each of random moments instead
  std::uint64_t moments = 0;           // which ones: the same number, the same moments; 0: its own
  bool hangs = false;                  // says it has work and never runs
  bool tells_costs = true;
  double predicted = 1;         // what the shim takes a kernel for, in parts of what it takes
  std::uint64_t unknown = 0;    // so many launches of the beginning were never measured before
  std::uint64_t warm_up = 0;    // after so many launches it waits once until all is done
  std::uint64_t in_flight = 0;  // launches no more before others are done; 0: the driver's queue
};

class GpuModel {
 public:
  explicit GpuModel(const GpuSchedule::Tuning& tuning = {}) : schedule(tuning) {}

  struct Batch {
    std::uint64_t kernels = 0;
    bool closed = false;
    bool gated = true;
    std::uint64_t cost_ns = 0;  // predicted
  };
  struct Request {
    std::uint64_t due;
    std::uint64_t took;
  };
  struct Tenant {
    Program program;
    GpuSchedule::Seat seat = 0;
    SliceTerms terms;
    bool there = true;
    bool paused = false;  // its CPU launches nothing more
    std::uint64_t cpu_free_at = 0;
    std::uint64_t launched = 0;
    std::uint64_t launched_at = 0;
    bool syncing = false;
    std::deque<Batch> batches;  // the front one runs when `passed`
    bool passed = false;
    std::uint64_t filled_ns = 0;
    bool filled_unknown = false;
    std::uint64_t cost_ns = 0;
    std::uint64_t cost_seen = 0;
    std::uint64_t begun_cost_ns = 0;
    std::uint64_t kernel_left_ns = 0;
    std::uint64_t queued = 0;  // kernels
    std::uint64_t ran_ns = 0;
    std::uint64_t kernels_done = 0;
    std::uint32_t batches_done = 0;
    std::uint64_t longest_wait_ns = 0;  // with work and without the GPU
    std::uint64_t waiting_since = 0;
    std::deque<std::uint64_t> asked;  // requests that are not answered yet
    std::vector<Request> answered;
    std::mt19937_64 dice{};
  };

  std::size_t add(const Program& program, const SliceTerms& terms) {
    tenants.push_back({});
    Tenant& tenant = tenants.back();
    tenant.program = program;
    tenant.terms = terms;
    tenant.seat = schedule.add(terms);
    tenant.cpu_free_at = now;
    tenant.waiting_since = now;
    tenant.dice.seed(program.moments);
    return tenants.size() - 1;
  }
  void change(std::size_t tenant, const SliceTerms& terms) {
    tenants[tenant].terms = terms;
    schedule.change(tenants[tenant].seat, terms);
  }
  // Its processes are gone, and what they had launched with them.
  void kill(std::size_t tenant) {
    schedule.remove(tenants[tenant].seat);
    tenants[tenant].there = false;
    tenants[tenant].batches.clear();
    tenants[tenant].queued = 0;
  }
  void pause(std::size_t tenant) { tenants[tenant].paused = true; }
  void resume(std::size_t tenant) {
    tenants[tenant].paused = false;
    tenants[tenant].cpu_free_at = std::max(tenants[tenant].cpu_free_at, now);
  }

  void run(std::uint64_t ns) {
    for (const std::uint64_t end = now + ns; now < end; now += kTickNs) tick();
  }
  void tick() {
    for (Tenant& tenant : tenants) {
      if (tenant.there) launch(tenant);
    }
    execute();
    // Whoever begins a batch wakes the daemon.
    if (asleep_ && std::ranges::any_of(tenants, [](const Tenant& tenant) {
          return tenant.there && !tenant.batches.empty() && tenant.batches.front().gated;
        })) {
      asleep_ = false;
      next_step_ = std::min(next_step_, now + daemon_delay_ns);
    }
    if (now >= next_step_) decide();
  }

  // The part of the time since `mark()` that the tenant had the GPU, in thousandths.
  void mark() {
    marked_at_ = now;
    marked_.clear();
    for (const Tenant& tenant : tenants) marked_.push_back(tenant.ran_ns);
  }
  double share(std::size_t tenant) const {
    const std::uint64_t before = tenant < marked_.size() ? marked_[tenant] : 0;
    return 1000.0 * static_cast<double>(tenants[tenant].ran_ns - before) /
           static_cast<double>(now - marked_at_);
  }

  static constexpr std::uint64_t kTickNs = 5'000;

  GpuSchedule schedule;
  std::vector<Tenant> tenants;
  std::uint64_t now = 1'000'000;
  std::uint64_t switch_ns = 115'000;  // between contexts, measured on an H200
  std::uint64_t daemon_delay_ns = 25'000;
  std::uint64_t switched_ns = 0;  // went into switches so far

 private:
  static constexpr std::uint64_t kQueue = 1000;
  static constexpr std::uint64_t kTimeSliceNs = 2'000'000;
  static constexpr std::uint64_t kUnknownNs = 100'000;
  static constexpr std::uint64_t kShortWaitNs = 1'000'000;
  static constexpr std::uint64_t kSecondNs = 1'000'000'000;

  void launch(Tenant& tenant) {
    const Program& program = tenant.program;
    if (program.requests_per_s > 0) return ask(tenant);
    if (tenant.syncing) {
      if (tenant.queued > 0) return;
      tenant.syncing = false;
      tenant.cpu_free_at = now + program.pause_ns;
    }
    const std::uint64_t most = program.in_flight != 0 ? program.in_flight : kQueue;
    while (!tenant.paused && tenant.cpu_free_at <= now && tenant.queued < most) {
      tenant.cpu_free_at += program.cpu_ns;
      if (tenant.cpu_free_at < now) tenant.cpu_free_at = now;
      put(tenant);
      const bool synchronizes =
          program.kernels_per_sync != 0 && tenant.launched % program.kernels_per_sync == 0;
      if (synchronizes || tenant.launched == program.warm_up) {
        wait_for_all(tenant);
        return;
      }
    }
  }

  void ask(Tenant& tenant) {
    while (!tenant.paused && tenant.cpu_free_at <= now) {
      std::exponential_distribution<double> gap(tenant.program.requests_per_s);
      tenant.asked.push_back(tenant.cpu_free_at);
      std::mt19937_64& dice = tenant.program.moments == 0 ? dice_ : tenant.dice;
      tenant.cpu_free_at += static_cast<std::uint64_t>(gap(dice) * 1e9);
      put(tenant);
      close(tenant);
    }
  }

  void wait_for_all(Tenant& tenant) {
    tenant.syncing = true;
    const GpuSchedule::Gate gate = schedule.gate(tenant.seat);
    const bool prompt = gate.contended || tenant.terms.tenant_class == TenantClass::kLatency;
    if (!gate.gated || prompt || !tenant.program.tells_costs) close(tenant);
  }

  // One launch, as the shim cuts them into batches.
  void put(Tenant& tenant) {
    const Program& program = tenant.program;
    const bool gated = schedule.gate(tenant.seat).gated;
    const bool unknown = tenant.launched < program.unknown;
    const auto cost = unknown ? kUnknownNs
                              : static_cast<std::uint64_t>(static_cast<double>(program.kernel_ns) *
                                                           program.predicted);
    ++tenant.launched;
    ++tenant.queued;
    tenant.launched_at = now;
    if (!gated) {
      if (tenant.batches.empty() || tenant.batches.back().gated) {
        if (!tenant.batches.empty()) close(tenant);
        tenant.batches.push_back({.kernels = 0, .closed = true, .gated = false});
      }
      ++tenant.batches.back().kernels;
      return;
    }
    const bool none = tenant.batches.empty() || tenant.batches.back().closed;
    const bool full = tenant.filled_ns + cost / 2 >= schedule.batch_ns();
    const bool alone = (unknown || tenant.filled_unknown) && schedule.gate(tenant.seat).contended;
    if (none || full || alone) {
      if (!none) close(tenant);
      tenant.batches.push_back({});
      tenant.filled_ns = 0;
      tenant.begun_cost_ns = tenant.cost_ns;
    }
    tenant.filled_unknown = unknown;
    tenant.filled_ns += cost;
    tenant.cost_ns += cost;
    tenant.batches.back().cost_ns += cost;
    ++tenant.batches.back().kernels;
  }

  static void finish_batch(Tenant& tenant) {
    if (tenant.batches.front().gated) ++tenant.batches_done;
    tenant.batches.pop_front();
    tenant.passed = false;
  }

  static void close(Tenant& tenant) {
    if (tenant.batches.empty()) return;
    tenant.batches.back().closed = true;
    if (tenant.passed && tenant.batches.front().closed && tenant.batches.front().kernels == 0) {
      finish_batch(tenant);
    }
  }

  bool runnable(const Tenant& tenant) const {
    if (!tenant.there || tenant.program.hangs || tenant.batches.empty()) return false;
    if (tenant.passed) return tenant.batches.front().kernels > 0;
    return !tenant.batches.front().gated || schedule.gate(tenant.seat).open;
  }

  void execute() {
    std::uint64_t left = kTickNs;
    while (left > 0) {
      if (switching_ns_ > 0) {
        const std::uint64_t spent = std::min(left, switching_ns_);
        switching_ns_ -= spent;
        switched_ns += spent;
        left -= spent;
        continue;
      }
      const bool stays = owner_ < tenants.size() && runnable(tenants[owner_]) &&
                         (now < slice_end_ || !another_runnable());
      if (!stays && !take_turn()) return;
      // Whoever comes waits for the end of the slice, also when the one before was alone for long.
      while (slice_end_ <= now) slice_end_ += kTimeSliceNs;
      if (switching_ns_ == 0) left -= execute(tenants[owner_], left);
    }
  }

  bool another_runnable() const {
    for (std::size_t i = 0; i < tenants.size(); ++i) {
      if (i != owner_ && runnable(tenants[i])) return true;
    }
    return false;
  }

  bool take_turn() {
    for (std::size_t i = 1; i <= tenants.size(); ++i) {
      const std::size_t next = (owner_ + i) % tenants.size();
      if (!runnable(tenants[next])) continue;
      if (next != owner_) switching_ns_ = switch_ns;
      // The gate is passed at once; the first kernel waits for the switch.
      tenants[next].passed = true;
      owner_ = next;
      slice_end_ = now + kTimeSliceNs;
      return true;
    }
    return false;
  }

  std::uint64_t execute(Tenant& tenant, std::uint64_t left) {
    Batch& batch = tenant.batches.front();
    tenant.passed = true;
    if (tenant.kernel_left_ns == 0) tenant.kernel_left_ns = tenant.program.kernel_ns;
    const std::uint64_t spent = std::min(left, tenant.kernel_left_ns);
    tenant.kernel_left_ns -= spent;
    tenant.ran_ns += spent;
    if (tenant.kernel_left_ns > 0) return spent;
    ++tenant.kernels_done;
    --tenant.queued;
    if (!tenant.asked.empty()) {
      tenant.answered.push_back({tenant.asked.front(), now - tenant.asked.front()});
      tenant.asked.pop_front();
    }
    if (--batch.kernels == 0 && batch.closed) finish_batch(tenant);
    return spent;
  }

  // The shim ends a batch that got no launch for a while.
  void close_stale(Tenant& tenant) const {
    if (tenant.batches.empty() || tenant.batches.back().closed) return;
    const GpuSchedule::Gate gate = schedule.gate(tenant.seat);
    const std::uint64_t silence =
        gate.contended || !tenant.program.tells_costs ? 300'000 : 5'000'000;
    const bool behind_closed = !gate.open && tenant.passed && tenant.batches.size() == 1;
    if (behind_closed || now - tenant.launched_at > silence) close(tenant);
  }

  void decide() {
    std::vector<GpuSchedule::Seen> seen(schedule.seats());
    for (Tenant& tenant : tenants) {
      if (tenant.there) look(tenant, seen[tenant.seat]);
    }
    schedule.step(now, seen);
    const std::optional<std::uint64_t> next = schedule.next_in_ns();
    asleep_ = !next || *next > kShortWaitNs;
    next_step_ = now + (asleep_ ? next.value_or(kSecondNs) : daemon_delay_ns);
    for (Tenant& tenant : tenants) {
      const bool stands = tenant.there && !tenant.batches.empty() && !tenant.passed;
      if (!stands) tenant.waiting_since = now;
      tenant.longest_wait_ns = std::max(tenant.longest_wait_ns, now - tenant.waiting_since);
    }
  }

  void look(Tenant& tenant, GpuSchedule::Seen& seen) const {
    close_stale(tenant);
    seen.present = true;
    seen.finished = tenant.batches_done;
    const auto gated = std::ranges::count_if(tenant.batches, &Batch::gated);
    const bool running = tenant.passed && tenant.batches.front().gated;
    seen.wants = gated > 0;
    seen.running = running;
    seen.waiting = gated > (running ? 1 : 0);
    seen.held = gated > 0 && !running;
    seen.starved = running && !seen.waiting && !tenant.batches.front().closed;
    seen.processes = running ? 1 : 0;
    seen.told = tenant.program.tells_costs;
    if (!seen.told) return;
    seen.added_ns = tenant.cost_ns - tenant.cost_seen;
    seen.last_ns = seen.wants ? tenant.cost_ns - tenant.begun_cost_ns : 0;
    seen.passed_ns = running ? tenant.batches.front().cost_ns : 0;
    tenant.cost_seen = tenant.cost_ns;
  }

  std::size_t owner_ = 0;
  std::uint64_t slice_end_ = 0;
  std::uint64_t switching_ns_ = 0;
  std::uint64_t next_step_ = 0;
  bool asleep_ = false;
  std::uint64_t marked_at_ = 0;
  std::vector<std::uint64_t> marked_;
  std::mt19937_64 dice_{7};
};

}  // namespace divvy::share
