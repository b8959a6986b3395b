// The one truth of who holds which slice on this node, and which GPUs an operator has taken out of
// use. What is in memory is what the disk would give back: a change that could not be written did
// not happen. docs/ledger.md tells what an operator sees of it.
//
// The methods may be called from any thread, with one exception that tenants() tells.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "base/result.h"
#include "base/timings.h"
#include "ledger/journal.h"
#include "ledger/ledger_state.h"
#include "sys/disk.h"

namespace divvy::ledger {

constexpr std::string_view kLedgerFile = "ledger";

class Ledger {
 public:
  // Forgets who ran before the last boot, except for slices that no process stands behind. A file
  // of a daemon from before there was a ledger is taken over. A full disk keeps no daemon from its
  // tenants: only new changes are refused then. `disk` outlives the ledger.
  [[nodiscard]] static Result<std::unique_ptr<Ledger>> open(
      sys::Disk& disk, std::string boot, std::uint64_t short_journal = Journal::kShort);
  // Tries once more to write releases that could not be written.
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // On the disk when they return; not there after an error. One sync each.
  [[nodiscard]] Status grant(const TenantRecord& record);
  [[nodiscard]] Status change(const TenantRecord& record);
  [[nodiscard]] Status set_cordon(const model::GpuUuid& gpu, std::optional<model::Cordon> cordon);

  // grant() in two halves: the record is there from the first one on, but certain only after the
  // second, which needs no lock of the caller's: all who wait there share one sync. After an error
  // of the second half the caller releases the tenant.
  [[nodiscard]] Result<std::uint64_t> begin_grant(const TenantRecord& record);
  [[nodiscard]] Status settle(std::uint64_t begun);

  // Always happens. After an error it is only in memory and is written before the next change: a
  // daemon that is killed before finds the tenant again, which is safe. With kLater no sync is
  // waited for, which will do where the tenant's processes are gone.
  [[nodiscard]] Status release(model::TenantId tenant, Journal::Sync sync);

  // Only for the one who grants, changes and releases, and only between two of these calls.
  [[nodiscard]] const std::map<model::TenantId, TenantRecord>& tenants() const {
    return state_.tenants;
  }
  // The number for the next tenant. Numbers that were asked for and not used are no loss.
  [[nodiscard]] model::TenantId next_id() const;
  [[nodiscard]] std::map<model::GpuUuid, model::Cordon> cordons() const;
  // How long it took to have changes on the disk.
  [[nodiscard]] DurationCounts writes() const { return writes_.counts(); }
  // Why the last change could not be written; nothing while all is well.
  [[nodiscard]] std::optional<Error> trouble() const;

 private:
  Ledger(sys::Disk& disk, Journal journal) : disk_(disk), journal_(std::move(journal)) {}

  [[nodiscard]] Status take_over_first_state_file();
  void forget_before(const std::string& boot);
  // Checks, writes, and only then believes.
  [[nodiscard]] Status commit(const LedgerChange& change, Journal::Sync sync);
  // The journal is there, and the disk knows of every release.
  [[nodiscard]] Status catch_up(Journal::Sync sync);
  void shorten_if_long();
  [[nodiscard]] Status replace();
  // Says it once when it begins and once when it is over.
  Status note(Status written);
  // With the lock, and nobody in the middle of a sync.
  [[nodiscard]] std::unique_lock<std::mutex> lock_for_sync();

  sys::Disk& disk_;
  mutable std::mutex mutex_;
  std::condition_variable synced_;
  bool syncing_ = false;  // Somebody in settle() does it for all who wait there
  Journal journal_;
  LedgerState state_;
  std::set<model::TenantId> owed_;  // Released, but the disk does not know yet
  bool open_ = false;               // Its opener has it
  bool first_state_file_ = false;   // To be removed once the ledger is written
  std::optional<Error> trouble_;
  Timings writes_;
};

}  // namespace divvy::ledger
