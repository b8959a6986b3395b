// A GPU and its tenants in a few lines, for tests of the schedule: programs that launch kernels
// with a CPU side that runs ahead, batches with gates around them, and hardware that gives turns
// of 2 ms to whoever is past its gate. Time is counted, not slept.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "node/gpu_schedule.h"

namespace divvy::node {

struct Program {
  std::uint64_t kernel_ns = 50'000;
  std::uint64_t cpu_ns = 4'000;        // the CPU's time per launch
  std::uint64_t kernels_per_sync = 0;  // then it waits until all is done; 0: never
  std::uint64_t pause_ns = 0;          // and then does nothing for so long
  bool hangs = false;                  // says it has work and never runs
};

class GpuModel {
 public:
  explicit GpuModel(const GpuSchedule::Tuning& tuning = {}) : schedule(tuning) {}

  struct Tenant {
    Program program;
    GpuSchedule::Seat seat;
    std::uint64_t cpu_free_at = 0;
    std::uint64_t launched_since_sync = 0;
    bool syncing = false;
    struct Batch {
      std::uint64_t kernels = 0;
      bool closed = false;
    };
    std::deque<Batch> batches;  // the front one runs when `passed`
    bool passed = false;
    std::uint64_t filled_ns = 0;
    std::uint64_t kernel_left_ns = 0;
    std::uint64_t queued = 0;  // kernels
    std::uint64_t ran_ns = 0;
    std::uint64_t kernels_done = 0;
    std::uint32_t batches_done = 0;
    std::uint64_t longest_wait_ns = 0;  // with work and without the GPU
    std::uint64_t waiting_since = 0;
  };

  std::size_t add(const Program& program, const SliceTerms& terms) {
    tenants.push_back({});
    tenants.back().program = program;
    tenants.back().seat = schedule.add(terms);
    return tenants.size() - 1;
  }

  void run(std::uint64_t ns) {
    for (const std::uint64_t end = now + ns; now < end; now += kTickNs) {
      for (Tenant& tenant : tenants) launch(tenant);
      execute();
      if (now >= next_step_) decide();
    }
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

  GpuSchedule schedule;
  std::vector<Tenant> tenants;
  std::uint64_t now = 1'000'000;
  std::uint64_t switch_ns = 100'000;  // between contexts
  std::uint64_t daemon_delay_ns = 20'000;

 private:
  static constexpr std::uint64_t kTickNs = 5'000;
  static constexpr std::uint64_t kQueue = 1000;
  static constexpr std::uint64_t kTimeSliceNs = 2'000'000;

  void launch(Tenant& tenant) {
    const Program& program = tenant.program;
    if (tenant.syncing) {
      if (tenant.queued > 0) return;
      tenant.syncing = false;
      tenant.cpu_free_at = now + program.pause_ns;
    }
    while (tenant.cpu_free_at <= now && tenant.queued < kQueue) {
      tenant.cpu_free_at += program.cpu_ns;
      if (tenant.cpu_free_at < now) tenant.cpu_free_at = now;
      const bool none = tenant.batches.empty() || tenant.batches.back().closed;
      const std::uint64_t limit = schedule.batch_ns();
      if (none || tenant.filled_ns + program.kernel_ns / 2 >= limit) {
        if (!none) close(tenant);
        tenant.batches.push_back({});
        tenant.filled_ns = 0;
      }
      tenant.filled_ns += program.kernel_ns;
      ++tenant.batches.back().kernels;
      ++tenant.queued;
      if (program.kernels_per_sync != 0 &&
          ++tenant.launched_since_sync % program.kernels_per_sync == 0) {
        close(tenant);
        tenant.syncing = true;
        return;
      }
    }
  }

  static void finish_batch(Tenant& tenant) {
    tenant.batches.pop_front();
    tenant.passed = false;
    ++tenant.batches_done;
  }

  static void close(Tenant& tenant) {
    tenant.batches.back().closed = true;
    if (tenant.passed && tenant.batches.front().closed && tenant.batches.front().kernels == 0) {
      finish_batch(tenant);
    }
  }

  bool runnable(const Tenant& tenant) const {
    if (tenant.program.hangs || tenant.batches.empty()) return false;
    if (tenant.passed) return tenant.batches.front().kernels > 0;
    return schedule.gate(tenant.seat).open;
  }

  void execute() {
    std::uint64_t left = kTickNs;
    while (left > 0) {
      if (switching_ns_ > 0) {
        const std::uint64_t spent = std::min(left, switching_ns_);
        switching_ns_ -= spent;
        left -= spent;
        continue;
      }
      const bool stays = owner_ < tenants.size() && runnable(tenants[owner_]) &&
                         (now < slice_end_ || !another_runnable());
      if (!stays && !take_turn()) return;
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
      owner_ = next;
      slice_end_ = now + kTimeSliceNs;
      return true;
    }
    return false;
  }

  static std::uint64_t execute(Tenant& tenant, std::uint64_t left) {
    Tenant::Batch& batch = tenant.batches.front();
    tenant.passed = true;
    if (tenant.kernel_left_ns == 0) tenant.kernel_left_ns = tenant.program.kernel_ns;
    const std::uint64_t spent = std::min(left, tenant.kernel_left_ns);
    tenant.kernel_left_ns -= spent;
    tenant.ran_ns += spent;
    if (tenant.kernel_left_ns > 0) return spent;
    ++tenant.kernels_done;
    --tenant.queued;
    if (--batch.kernels == 0 && batch.closed) {
      finish_batch(tenant);
    }
    return spent;
  }

  void decide() {
    std::vector<GpuSchedule::Seen> seen(schedule.seats());
    for (Tenant& tenant : tenants) {
      GpuSchedule::Seen& it = seen[tenant.seat];
      it.present = true;
      // The shim ends a batch that got no launch for a while.
      if (tenant.passed && tenant.batches.front().kernels == 0 &&
          tenant.cpu_free_at > now + 300'000) {
        finish_batch(tenant);
      }
      if (!schedule.gate(tenant.seat).gated) continue;
      it.wants = !tenant.batches.empty();
      it.running = tenant.passed;
      it.finished = tenant.batches_done;
      it.waiting = tenant.batches.size() > (tenant.passed ? 1 : 0);
      it.starved = it.running && !it.waiting && !tenant.batches.front().closed;
    }
    schedule.step(now, seen);
    next_step_ = now + daemon_delay_ns;
    for (Tenant& tenant : tenants) {
      const bool stands = !tenant.batches.empty() && !tenant.passed;
      if (!stands) tenant.waiting_since = now;
      tenant.longest_wait_ns = std::max(tenant.longest_wait_ns, now - tenant.waiting_since);
    }
  }

  std::size_t owner_ = 0;
  std::uint64_t slice_end_ = 0;
  std::uint64_t switching_ns_ = 0;
  std::uint64_t next_step_ = 0;
  std::uint64_t marked_at_ = 0;
  std::vector<std::uint64_t> marked_;
};

}  // namespace divvy::node
