// What the arbiter saw of one tenant's work on one GPU, and how much of it is still to run.
//
// A stream says which batches have begun and ended, not what the GPU did in between: a batch that
// the CPU is still filling has gaps in it. So the predicted cost of what was launched (wire::Lane)
// is run down as the tenant is served; while nothing of it is left, the tenant is in a gap, and
// what it is charged is GPU time and not the time of its CPU. A prediction can only lower a charge:
// nobody is charged for more than the time that passed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace divvy::share {

// What was seen of a tenant's lanes on one GPU at one moment, all processes together.
struct TenantSeen {
  bool present = false;  // a process of it has a context here
  bool wants = false;    // begun and not done
  bool running = false;  // past the gate and not done
  bool waiting = false;  // at the gate, or behind what runs
  bool held = false;     // one stream stands at the gate with nothing of it past it
  bool starved = false;  // runs a batch that the CPU is still filling, with nothing behind it
  bool told = false;     // it tells costs; a library of an older Divvy does not
  std::uint32_t processes = 0;  // how many of its processes run
  std::uint32_t finished = 0;   // counts its batches on; wraps
  std::uint64_t added_ns = 0;   // predicted cost of what was launched since the last look
  std::uint64_t last_ns = 0;    // predicted cost of the last batch of each lane that has work
  friend bool operator==(const TenantSeen&, const TenantSeen&) = default;
};

class GpuWork {
 public:
  // `open`: its gate was, since the last look.
  void take(const TenantSeen& now, bool open) {
    const bool ran = runs_;
    const bool finished = now.finished != seen_.finished;
    left_ns_ += static_cast<double>(now.added_ns);
    // Between two batches it is at its open gate for a moment; that is no pause.
    runs_ = now.running || (ran && now.waiting && open);
    ended_ = !runs_ && (ran || finished);
    seen_ = now;
    if (seen_.wants && !seen_.waiting) {
      left_ns_ = std::min(left_ns_, static_cast<double>(seen_.last_ns));
    }
    if (!seen_.wants && !ended_) left_ns_ = 0;
  }

  // It was given so much of the GPU since the look before.
  void run_down(double ns) {
    left_ns_ = std::max(0.0, left_ns_ - ns);
    if (!seen_.wants) left_ns_ = 0;
  }

  [[nodiscard]] const TenantSeen& seen() const { return seen_; }
  [[nodiscard]] bool runs() const { return runs_; }
  // Some of it is on the GPU until its batch is done, whatever its CPU does.
  [[nodiscard]] bool fed() const { return runs_ && !seen_.starved; }
  // For how much of the last `dt` the GPU may have worked for it. `alone`: nobody else was fed.
  [[nodiscard]] double most_ns(double dt, bool alone) const {
    if (fed()) return dt;
    if (seen_.told) return runs_ || ended_ ? std::min(dt, left_ns_) : 0;
    if (runs_) return alone ? dt : 0;
    return ended_ && alone ? dt / 2 : 0;
  }
  // It runs a batch that its CPU is filling, and all of it that was launched has run.
  [[nodiscard]] bool in_gap() const {
    return runs_ && seen_.starved && (!seen_.told || left_ns_ <= 0);
  }
  // All that is visible of its work will have run after so long; nothing where that is not known.
  [[nodiscard]] std::optional<double> ends_in_ns() const {
    if (!fed() || seen_.waiting || !seen_.told) return std::nullopt;
    return left_ns_;
  }

 private:
  TenantSeen seen_;
  bool runs_ = false;
  bool ended_ = false;  // ran since the look before, and does no longer
  double left_ns_ = 0;
};

}  // namespace divvy::share
