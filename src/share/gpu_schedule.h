// Who may put work on one GPU now: the arbiter's decision, as a pure function of what it saw.
//
// Assumptions: a tenant whose gate is closed finishes the batch it is in and then stands; the
// hardware gives the GPU to whoever is past its gate, in time slices where several are.
//
// Algorithm. GPU time is charged to whom the GPU worked for (gpu_work.h). Tenants are served in the
// order of fair_queue.h: one at a time, for a request's length, and whoever comes meanwhile and is
// due earlier interrupts. While the first in line waits for its CPU, the next one's gate is open
// too: gaps are filled, and nobody is kept off for nothing.
//
// The latency class runs ahead of its part by up to a burst. Within it, its tenants come before all
// others, in a circle, and interrupt; beyond it they take turns like everybody until some of it has
// fallen due. So nobody is ever further behind its share than one request, one
// batch, one hand-over and the bursts of the latency class.
//
// A cap is a bucket of GPU time that may go into debt. What a tenant says about itself may be a
// lie: work that does not run although its gate is open is charged and then passed over for a
// while, and one whose batch does not end for a second has no more turns until it does.
//
// Over MPS tenants run at the same time, each on its part of the multiprocessors; a cap closes
// gates only when several processes of a tenant use that part several times over, and the latency
// class runs alone, on all of them, within its burst.
//
// One instance per GPU, used by one thread. No clock, no I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/timings.h"
#include "model/job_spec.h"
#include "share/fair_queue.h"
#include "share/gpu_work.h"

namespace divvy::share {

using TenantClass = model::JobClass;

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
  using Seen = TenantSeen;

  struct Gate {
    bool gated = false;  // bracket launches at all
    bool open = true;
    bool contended = false;  // somebody waits for the end of its batches
    friend bool operator==(const Gate&, const Gate&) = default;
  };

  struct Account {
    std::uint64_t used_ns = 0;
    std::uint64_t waited_ns = 0;
    std::uint64_t capped_ns = 0;  // of waited_ns
    std::uint64_t leases = 0;
    DurationCounts waits;  // each time it stood at its closed gate, until that was opened
  };

  // Lengths (docs/sharing.md says what they were measured on).
  struct Tuning {
    std::uint64_t request_ns = 10'000'000;         // a turn, where few contend:
    std::uint64_t round_ns = 40'000'000;           // all turns together, of any length but
    std::uint64_t least_request_ns = 2'000'000;    // no shorter than this
    std::uint64_t latency_request_ns = 2'000'000;  // among tenants of the latency class
    std::uint64_t burst_ns = 150'000'000;          // times share: how far that class may be ahead
    std::uint64_t least_burst_ns = 5'000'000;
    std::uint64_t cap_burst_ns = 8'000'000;  // a closed cap opens with this much at most
    std::uint64_t batch_ns = 2'000'000;
    std::uint64_t batch_beside_latency_ns = 400'000;
    std::uint64_t drain_ns = 5'000'000;    // for so long the next one waits for the last one
    std::uint64_t starve_ns = 2'000'000;   // the latency class keeps others off in its gaps so long
    std::uint64_t silence_ns = 5'000'000;  // a gap after which a tenant has no turn any more
    std::uint64_t patience_ns = 3'000'000;  // a lease that nobody uses is taken back after this
    std::uint64_t first_patience_ns = 50'000'000;
    std::uint64_t stall_ns = 1'000'000'000;  // no batch finished for so long: has no more turns
    std::uint64_t idle_ns = 5'000'000'000;   // after this the others run without gates
    // What the memory operations around one batch take of the GPU: without it the kernels of short
    // batches would be charged a twentieth more than they cost.
    std::uint64_t gate_ns = 4'000;
    std::uint64_t poll_ns = 20'000;
    std::uint64_t calm_poll_ns = 100'000;
  };

  GpuSchedule() = default;
  explicit GpuSchedule(const Tuning& tuning) : tuning_(tuning) {}

  // Seats are reused after remove().
  [[nodiscard]] Seat add(const SliceTerms& terms);
  void change(Seat seat, const SliceTerms& terms);
  void remove(Seat seat);
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
  // By how much it is behind its part of what was served while it wanted some; negative: ahead.
  [[nodiscard]] double lag_ns(Seat seat) const { return queue_.lag_ns(seat); }
  // How long the turns were that have ended.
  [[nodiscard]] const DurationCounts& turns() const { return turns_; }
  // Where to cut batches on this GPU: shorter ones drain faster, longer ones cost less.
  [[nodiscard]] std::uint32_t batch_ns() const;
  // In how long step() should be called again at the latest; nothing: when somebody begins a batch.
  [[nodiscard]] std::optional<std::uint64_t> next_in_ns() const { return next_in_ns_; }
  [[nodiscard]] const Tuning& tuning() const { return tuning_; }

 private:
  // Not worth waiting for.
  static constexpr double kLongPauseNs = 5'000'000;
  // A batch cannot be interrupted; so much of one is remembered over a pause.
  static constexpr double kLongestDebtNs = 100'000'000;

  struct Place {
    bool used = false;
    SliceTerms terms;
    GpuWork work;
    Gate gate;
    Account account;
    bool contends = false;
    double gates_ns = 0;           // the gates of batches that ended, not taken off a charge yet
    std::uint64_t arrived_at = 0;  // when it came to contend, or went to the end of the line
    std::uint64_t left_at = 0;
    bool exhausted = false;  // latency class: beyond its burst
    double bucket_ns = 0;    // capped: what it may still run
    bool throttled = false;  // capped and its bucket was empty
    double stretch_ns = 0;   // what it ran since its last pause
    double usual_stretch_ns = 0;
    double usual_pause_ns = kLongPauseNs;
    double longest_batch_ns = 0;      // lately
    bool keeps_off = false;           // others' gates are closed for it
    bool has_run = false;             // since it was gated
    std::uint64_t wanted_at = 0;      // when it last wanted the GPU
    std::uint64_t fed_at = 0;         // when it last had work that did not wait for its CPU
    std::uint64_t on_since = 0;       // when it was last seen to get on the GPU
    bool switched = false;            // somebody else had been on it before
    std::uint64_t moved_at = 0;       // when it last finished a batch, or ran none
    std::uint64_t due_since = 0;      // is next and waits for others to drain; 0: is not
    std::uint64_t opened_at = 0;      // when its gate was opened and it did not run yet
    std::uint64_t stood_ns = 0;       // at its open gate since it last ran
    std::uint64_t stood_idle_ns = 0;  // of that: while nobody else ran
    std::uint64_t excused_until = 0;  // did not use its leases: is passed over until then
    std::uint64_t excuse_ns = 0;
    std::uint64_t stuck_since = 0;  // closed, runs on, and another stream of it stands at the gate
    std::optional<std::uint64_t> stands_since;  // at its closed gate with work
  };

  // A turn of the line; the first has the GPU, the next ones fill its gaps.
  struct Turn {
    Seat seat;
    std::uint64_t began;
    bool lent;  // when it began nobody was owed anything
  };

  static constexpr Seat kNobody = FairQueue::kNobody;

  void intake(const std::vector<Seen>& seen);
  void learn_pauses(Place& place, bool gap);
  void charge(std::uint64_t dt);
  void refill(std::uint64_t dt);
  void watch_unused_leases(std::uint64_t dt);
  // --- Which gates are open: gpu_schedule_gates.cc ---
  void choose_gated();
  void admit();
  void choose_open_over_mps();
  void open_in_line();
  void unstick();
  void count_waits();
  void choose_next();

  [[nodiscard]] Seat next_urgent(const std::vector<bool>& rest) const;
  [[nodiscard]] Seat next_turn(std::size_t level, const std::vector<bool>& rest);
  void end_turn(std::size_t level);
  void set_open(Place& place, bool open);
  void renew_terms();

  [[nodiscard]] double turn() const;
  [[nodiscard]] double burst(const Place& place) const;
  [[nodiscard]] double cap_burst(const Place& place) const;
  [[nodiscard]] bool latency(const Place& place) const;
  [[nodiscard]] bool stalled(const Place& place) const;
  [[nodiscard]] bool overdue(const Place& place) const;
  [[nodiscard]] bool contends(const Place& place) const;
  [[nodiscard]] bool expected_back(const Place& place) const;
  [[nodiscard]] bool has_turn(const Place& place) const;
  [[nodiscard]] bool keeps_turn(const Place& place) const;
  [[nodiscard]] bool urgent(const Place& place) const;
  [[nodiscard]] bool stands_in_the_way(const Place& place) const;
  [[nodiscard]] bool launch_bound(const Place& place) const;
  [[nodiscard]] bool lets_others_in(const Place& place) const;
  [[nodiscard]] bool ends_soon(const Place& place, const Place& next) const;
  [[nodiscard]] bool may_open(Place& place) const;
  [[nodiscard]] bool over_mps() const;
  [[nodiscard]] double mps_part(const Place& place) const;

  Tuning tuning_;
  std::vector<Place> seats_;
  FairQueue queue_;
  std::vector<Turn> line_;
  Seat urgent_turn_ = 0;  // of the latency class: whose turn it is among those within their bursts
  std::uint64_t now_ = 0;
  std::uint64_t now_before_ = 0;
  bool started_ = false;
  bool anybody_had_work_ = false;  // at the last look
  Seat last_on_ = kNobody;         // who was last seen to get on the GPU
  std::uint64_t used_ns_ = 0;
  DurationCounts turns_;
  std::optional<std::uint64_t> next_in_ns_;
};

}  // namespace divvy::share
