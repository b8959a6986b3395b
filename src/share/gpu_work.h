// What the arbiter saw of one tenant's work on one GPU, and how much of it is still to run.
//
// A stream says which batches have begun and ended, not what the GPU did in between: a batch that
// the CPU is still filling has gaps in it. So the predicted cost of what was launched (wire::Lane)
// is run down as the tenant is served; while nothing of it is left, the tenant is in a gap, and
// what it is charged is GPU time and not the time of its CPU. A prediction can only lower a charge:
// nobody is charged for more than the time that passed.
#pragma once

#include <algorithm>
#include <cmath>
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
  std::uint64_t passed_ns = 0;  // of the one batch past the gate; 0: not known, or there are more
  friend bool operator==(const TenantSeen&, const TenantSeen&) = default;
};

class GpuWork {
 public:
  // `open`: its gate was, since the last look.
  void take(const TenantSeen& now, bool open) {
    const bool ran = runs_;
    const bool finished = now.finished != seen_.finished;
    left_ns_ += static_cast<double>(now.added_ns);
    if (finished) learn_from_end(now.finished - seen_.finished);
    // Between two batches it is at its open gate for a moment; that is no pause.
    runs_ = now.running || (ran && now.waiting && open);
    ended_ = !runs_ && (ran || finished);
    if (now.running && (finished || !seen_.running)) {
      batch_left_ns_ = static_cast<double>(now.passed_ns);
      batch_known_ = now.passed_ns != 0;
      batch_alone_ = true;
    } else if (now.running) {
      // Its CPU may still be filling it; and once a second lane runs, nobody knows.
      batch_left_ns_ += static_cast<double>(now.passed_ns) - static_cast<double>(seen_.passed_ns);
      batch_known_ = batch_known_ && now.passed_ns != 0;
    }
    seen_ = now;
    if (seen_.wants && !seen_.waiting) {
      left_ns_ = std::min(left_ns_, static_cast<double>(seen_.last_ns));
    }
    if (!seen_.wants && !ended_) left_ns_ = 0;
  }

  // It was given so much of the GPU in the `passed_ns` since the look before.
  void run_down(double ns, double passed_ns) {
    left_ns_ = std::max(0.0, left_ns_ - ns);
    batch_left_ns_ -= ns;
    batch_alone_ = batch_alone_ && ns >= kNearlyAll * passed_ns;
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
  // It stands after so long, either because there is no more of its work, or because its gate is
  // closed and the batch past it is done; nothing where that is not known.
  [[nodiscard]] std::optional<double> ends_in_ns(bool open) const {
    if (!fed() || !seen_.told || (seen_.waiting && open)) return std::nullopt;
    if (knows_batch()) return std::max(0.0, batch_left_ns_ + late_ns_);
    return seen_.waiting ? std::nullopt : std::optional(left_ns_);
  }
  // That is the end of the one batch past its gate, and the ends of those before were foreseen.
  [[nodiscard]] bool knows_batch() const { return batch_known_ && spread_ns_ < kForeseenNs; }

 private:
  static constexpr double kLatestNs = 10'000'000;
  static constexpr double kForeseenNs = 100'000;
  static constexpr double kNearlyAll = 0.8;

  // A prediction that is wrong in the same way each time is corrected by how much later batches
  // end. One that had the GPU only in part, or got on it in between, says nothing.
  void learn_from_end(std::uint32_t batches) {
    if (batch_known_ && batch_alone_ && batches == 1) {
      const double off = std::clamp(-batch_left_ns_, -kLatestNs, kLatestNs) - late_ns_;
      late_ns_ += off / 4;
      spread_ns_ += (std::abs(off) - spread_ns_) / 4;
    }
    batch_known_ = false;
  }

  TenantSeen seen_;
  bool runs_ = false;
  bool ended_ = false;  // ran since the look before, and does no longer
  double left_ns_ = 0;
  double batch_left_ns_ = 0;  // of the batch past the gate
  bool batch_known_ = false;
  bool batch_alone_ = false;
  double late_ns_ = 0;
  double spread_ns_ = 10 * kForeseenNs;
};

}  // namespace divvy::share
