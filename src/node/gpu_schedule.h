// Who may put work on one GPU now: the arbiter's decision, as a pure function of what it saw.
//
// Assumptions: a tenant whose gate is closed finishes the batch it is in and then stands; the
// hardware gives the GPU to whoever has work, in turns where several have. A turn is handed over by
// closing one gate and opening the next when the batch before has drained, or after a while anyway.
//
// Algorithm. Measured GPU time is charged to who was running. Batch-class tenants take turns in
// order of virtual time (charged time / share); a turn is a part of a cycle in proportion to the
// share, and ends early when its tenant has nothing more to run; what it missed it gets later. A
// turn is paid for whether it is used or not: what tenants say about themselves may be a lie, and
// none may keep the others off the GPU for nothing. One whose batch does not end for a second has
// no more turns until it does: it hangs, or its kernel is so long that no gate stops it. A
// latency-class tenant with credit left runs at once and alone. A cap is a bucket of GPU time that
// may go into debt. Gates of those who want nothing stay open, so that the first to come does not
// wait. Over MPS tenants run at the same time, each on its part of the multiprocessors; a cap
// closes gates only when several processes of a tenant use that part several times over, and the
// latency class runs alone, on all of them, while it has credit.
//
// One instance per GPU, used by one thread. No clock, no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "node/timings.h"

namespace divvy::node {

enum class TenantClass { kBatch, kLatency };

// What the daemon has promised a tenant on this GPU.
struct SliceTerms {
  std::uint32_t share = 1000;  // thousandths; the guarantee
  bool capped = false;         // also the limit
  TenantClass tenant_class = TenantClass::kBatch;
  bool mps = false;  // the tenants of this GPU run at the same time
  friend bool operator==(const SliceTerms&, const SliceTerms&) = default;
};

class GpuSchedule {
 public:
  // A tenant's place in the schedule of this GPU.
  using Seat = std::size_t;

  // What was seen of a tenant's lanes on this GPU at one moment, all processes together.
  struct Seen {
    bool present = false;  // a process of it has a context here
    bool wants = false;    // begun and not done
    bool running = false;  // past the gate and not done
    bool waiting = false;  // at the gate, or behind what runs
    bool held = false;     // one stream stands at the gate with nothing of it past it
    bool starved = false;  // runs a batch that the CPU is still filling, with nothing behind it
    std::uint32_t processes = 0;  // how many of its processes run
    std::uint32_t finished = 0;   // counts its batches on; wraps
    friend bool operator==(const Seen&, const Seen&) = default;
  };

  struct Gate {
    bool gated = false;  // bracket launches at all
    bool open = true;
    friend bool operator==(const Gate&, const Gate&) = default;
  };

  struct Account {
    std::uint64_t used_ns = 0;
    std::uint64_t waited_ns = 0;
    std::uint64_t capped_ns = 0;  // of waited_ns
    std::uint64_t leases = 0;
    DurationCounts waits;  // each time it stood at its closed gate, until that was opened
  };

  // Lengths that were tuned together (docs/sharing.md says on what).
  struct Tuning {
    std::uint64_t cycle_ns = 36'000'000;        // all turns together
    std::uint64_t short_cycle_ns = 10'000'000;  // while launch-bound tenants leave gaps
    std::uint64_t cap_burst_ns = 2'500'000;     // a closed cap opens with this much in its bucket
    std::uint64_t latency_burst_ns = 250'000'000;  // times share: what the latency class may run on
    std::uint64_t batch_ns = 2'000'000;
    std::uint64_t batch_beside_latency_ns = 200'000;
    std::uint64_t starve_ns = 2'000'000;    // a latency-class tenant may wait for its CPU so long
    std::uint64_t drain_ns = 5'000'000;     // for so long the next one waits for the last one
    std::uint64_t tenure_ns = 4'000'000;    // who gets the turn keeps it so long if it has work
    std::uint64_t handover_ns = 100'000;    // a turn that is not used yet is free of charge so long
    std::uint64_t unstick_ns = 1'000'000;   // beyond a batch: what runs waits for what stands
    std::uint64_t pulse_ns = 200'000;       // and is let through for so long
    std::uint64_t patience_ns = 3'000'000;  // a lease that nobody uses is taken back after this
    std::uint64_t first_patience_ns = 50'000'000;
    std::uint64_t stall_ns = 1'000'000'000;  // no batch finished for so long: has no more turns
    std::uint64_t idle_ns = 5'000'000'000;   // after this the others run without gates
    std::uint64_t poll_ns = 20'000;
    std::uint64_t calm_poll_ns = 100'000;
  };

  GpuSchedule() = default;
  explicit GpuSchedule(const Tuning& tuning) : tuning_(tuning) {}

  // Seats are reused after remove().
  [[nodiscard]] Seat add(const SliceTerms& terms);
  void change(Seat seat, const SliceTerms& terms);
  void remove(Seat seat);
  // How much faster the GPU works now than under full load (power_pace.h): time is charged to caps
  // by that much more.
  void set_pace(double pace) { pace_ = pace; }
  [[nodiscard]] std::size_t seats() const { return seats_.size(); }

  // Takes in what was seen at `now_ns`, which never goes back, and decides. `seen` has one entry
  // per seat; those of removed seats are ignored.
  void step(std::uint64_t now_ns, const std::vector<Seen>& seen);

  // The decision of the last step.
  [[nodiscard]] Gate gate(Seat seat) const { return seats_[seat].gate; }
  [[nodiscard]] const SliceTerms& terms(Seat seat) const { return seats_[seat].terms; }
  // Of everybody, those who are gone included.
  [[nodiscard]] std::uint64_t used_ns() const { return used_ns_; }
  [[nodiscard]] const Account& account(Seat seat) const { return seats_[seat].account; }
  // How long the turns were that have ended.
  [[nodiscard]] const DurationCounts& turns() const { return turns_; }
  // Where to cut batches on this GPU: shorter ones drain faster, longer ones cost less.
  [[nodiscard]] std::uint32_t batch_ns() const;
  // In how long step() should be called again at the latest; nothing: when somebody begins a batch.
  [[nodiscard]] std::optional<std::uint64_t> next_in_ns() const { return next_in_ns_; }

 private:
  struct Place {
    bool used = false;
    SliceTerms terms;
    Seen seen;
    bool runs = false;
    bool ended = false;  // ran at the step before
    bool contends = false;
    bool has_run = false;  // since it was gated
    Gate gate;
    Account account;
    double virtual_ns = 0;            // charged GPU time per share of one GPU
    double behind_ns = 0;             // so far behind the others before the last charge
    double bucket_ns = 0;             // capped: what it may still run
    bool throttled = false;           // capped and its bucket was empty
    double credit_ns = 0;             // latency class: what it may still run at once
    bool overdrawn = false;           // latency class: credit was spent and has not come back yet
    std::uint64_t wanted_at = 0;      // when it last wanted the GPU
    std::uint64_t fed_at = 0;         // when it last had work that did not wait for its CPU
    std::uint64_t gap_at = 0;         // when it last did not; 0: never
    bool keeps_off = false;           // others' gates are closed for it
    std::uint64_t opened_at = 0;      // when its gate was opened and it did not run yet
    std::uint64_t stood_ns = 0;       // at its open gate since it last ran
    std::uint64_t stood_idle_ns = 0;  // of that: while nobody else ran
    std::uint64_t due_since = 0;      // holds the turn and waits for others to drain; 0: does not
    std::uint64_t stuck_since = 0;  // closed, runs on, and another stream of it stands at the gate
    std::uint64_t excused_until = 0;  // did not use its leases: is passed over until then
    std::uint64_t excuse_ns = 0;
    std::uint64_t moved_at = 0;                 // when it last finished a batch, or ran none
    std::optional<std::uint64_t> stands_since;  // at its closed gate with work
  };

  static constexpr std::size_t kNobody = ~std::size_t{0};

  void notice_gaps(std::uint64_t dt);
  void charge(std::uint64_t dt);
  void forget_gaps();
  void refill(std::uint64_t dt);
  void watch_unused_leases(std::uint64_t now, std::uint64_t dt);
  void admit();
  void choose_gated(std::uint64_t now);
  void choose_open(std::uint64_t now);
  void take_turns(std::uint64_t now);
  void set_open(Place& place, bool open, std::uint64_t now);
  void unstick(std::uint64_t now);
  void count_waits();
  [[nodiscard]] bool may_open(Place& place, std::uint64_t now) const;
  void choose_next();
  void give_turn(std::size_t seat);

  [[nodiscard]] double behind_others(const Place& place) const;
  [[nodiscard]] bool stands_in_the_way(const Place& place) const;
  [[nodiscard]] bool stalled(const Place& place) const;
  [[nodiscard]] bool contends(const Place& place) const;
  [[nodiscard]] bool backlogged(const Place& place) const;
  [[nodiscard]] bool first_class(const Place& place) const;
  [[nodiscard]] bool over_mps() const;
  [[nodiscard]] double mps_part(const Place& place) const;
  [[nodiscard]] std::uint64_t cycle_ns() const;
  [[nodiscard]] double burst(const Place& place) const;

  Tuning tuning_;
  std::vector<Place> seats_;
  std::uint64_t now_ = 0;
  bool started_ = false;
  std::size_t holder_ = kNobody;
  std::optional<std::uint64_t> turn_began_;  // when the holder's gate was opened for it
  std::uint64_t used_ns_ = 0;
  DurationCounts turns_;
  double pace_ = 1.0;
  double gaps_ = 0;  // the part of the recent past in which somebody was starved
  std::optional<std::uint64_t> next_in_ns_;
};

}  // namespace divvy::node
