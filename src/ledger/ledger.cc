#include "ledger/ledger.h"

#include <chrono>

#include "base/log.h"

namespace divvy::ledger {
namespace {

constexpr std::string_view kFirstStateFile = "tenants.json";

Error damaged(const std::filesystem::path& file, const JournalScan::Damage& damage) {
  return {ErrorCode::kDataLoss,
          fmt::format("{} is damaged at byte {}: {}; `divvy ledger verify` shows what can be read. "
                      "End the programs that use GPUs, move the file away and start divvyd again: "
                      "it then begins with no tenants",
                      file.string(), damage.offset, damage.reason)};
}

class Measured {
 public:
  explicit Measured(Timings& timings) : timings_(timings) {}
  ~Measured() { timings_.record(std::chrono::steady_clock::now() - began_); }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

 private:
  Timings& timings_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::open(sys::Disk& disk, std::string boot,
                                             std::uint64_t short_journal) {
  DIVVY_TRY(opened, Journal::open(disk, std::string(kLedgerFile), short_journal));
  Replay replayed = replay(opened.scan);
  if (replayed.damage) return err(damaged(disk.path(kLedgerFile), *replayed.damage));
  if (opened.scan.torn_bytes > 0) {
    log_warning("end of the ledger cut",
                {{"bytes", opened.scan.torn_bytes}, {"at", opened.scan.good_bytes}});
  }
  std::unique_ptr<Ledger> ledger(new Ledger(disk, std::move(opened.journal)));
  ledger->state_ = std::move(replayed.state);
  DIVVY_RETURN_IF_ERROR(ledger->take_over_first_state_file());
  ledger->forget_before(boot);
  ledger->state_.begun = true;
  ledger->state_.boot = std::move(boot);
  const Status written = ledger->note(ledger->replace());
  if (!written && written.error().code == ErrorCode::kPermissionDenied) {
    return err(written.error());
  }
  ledger->open_ = true;
  return ledger;
}

Ledger::~Ledger() {
  if (!owed_.empty()) (void)catch_up(Journal::Sync::kNow);
}

Status Ledger::take_over_first_state_file() {
  auto text = disk_.read(kFirstStateFile);
  if (!text && text.error().code == ErrorCode::kNotFound) return {};
  if (!text) return err(std::move(text).error());
  first_state_file_ = true;
  // A ledger that is there has taken it over already and was only not able to remove it.
  if (state_.begun) return {};
  state_.begun = true;
  auto file = decode_first_state_file(*text);
  if (!file) {
    return err(ErrorCode::kDataLoss, "{} is damaged: {}; remove it to start with no tenants",
               disk_.path(kFirstStateFile).string(), file.error().message);
  }
  state_.boot = file->boot;
  state_.next_id = file->next_id;
  for (TenantRecord& record : file->tenants) {
    DIVVY_RETURN_IF_ERROR(with_context(state_.apply(TenantGranted{std::move(record)}),
                                       disk_.path(kFirstStateFile).string()));
  }
  log_info("tenants taken over from tenants.json", {{"tenants", state_.tenants.size()}});
  return {};
}

void Ledger::forget_before(const std::string& boot) {
  if (state_.boot == boot) return;
  std::vector<model::TenantId> gone;
  for (const auto& [id, record] : state_.tenants) {
    if (has_root(record)) gone.push_back(id);
  }
  for (const model::TenantId id : gone) (void)state_.apply(TenantReleased{id});
}

std::unique_lock<std::mutex> Ledger::lock_for_sync() {
  std::unique_lock lock(mutex_);
  synced_.wait(lock, [this] { return !syncing_; });
  return lock;
}

Status Ledger::grant(const TenantRecord& record) {
  DIVVY_TRY(begun, begin_grant(record));
  Status settled = settle(begun);
  if (!settled) (void)release(record.id, Journal::Sync::kLater);
  return settled;
}

Result<std::uint64_t> Ledger::begin_grant(const TenantRecord& record) {
  const std::lock_guard lock(mutex_);
  DIVVY_RETURN_IF_ERROR(commit(TenantGranted{record}, Journal::Sync::kLater));
  return journal_.last_sequence();
}

Status Ledger::settle(std::uint64_t begun) {
  const Measured measured(writes_);
  std::unique_lock lock(mutex_);
  while (journal_.synced_sequence() < begun) {
    // A sync has failed. The file is not trusted any more, but a new one may do.
    if (journal_.must_be_replaced()) {
      DIVVY_RETURN_IF_ERROR(note(replace()));
      break;
    }
    if (syncing_) {
      synced_.wait(lock);
      continue;
    }
    syncing_ = true;
    const Journal::Syncing syncing = journal_.begin_sync();
    lock.unlock();
    const Status synced = syncing.file->sync();
    lock.lock();
    syncing_ = false;
    journal_.end_sync(syncing, synced.has_value());
    synced_.notify_all();
  }
  shorten_if_long();
  return {};
}

Status Ledger::change(const TenantRecord& record) {
  const Measured measured(writes_);
  const auto lock = lock_for_sync();
  return commit(TenantChanged{record}, Journal::Sync::kNow);
}

Status Ledger::set_cordon(const model::GpuUuid& gpu, std::optional<model::Cordon> cordon) {
  const auto lock = lock_for_sync();
  if (cordon) return commit(GpuCordoned{gpu, *std::move(cordon)}, Journal::Sync::kNow);
  if (!state_.cordons.contains(gpu)) return {};
  return commit(GpuUncordoned{gpu}, Journal::Sync::kNow);
}

Status Ledger::release(model::TenantId tenant, Journal::Sync sync) {
  const auto lock = sync == Journal::Sync::kNow ? lock_for_sync() : std::unique_lock(mutex_);
  DIVVY_RETURN_IF_ERROR(state_.apply(TenantReleased{tenant}));
  owed_.insert(tenant);
  DIVVY_RETURN_IF_ERROR(note(catch_up(sync)));
  shorten_if_long();
  return {};
}

model::TenantId Ledger::next_id() const {
  const std::lock_guard lock(mutex_);
  return state_.next_id;
}

std::map<model::GpuUuid, model::Cordon> Ledger::cordons() const {
  const std::lock_guard lock(mutex_);
  return state_.cordons;
}

std::optional<Error> Ledger::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

Status Ledger::commit(const LedgerChange& change, Journal::Sync sync) {
  // First, so that whatever is written can be replayed.
  DIVVY_RETURN_IF_ERROR(state_.check(change));
  Status written = catch_up(Journal::Sync::kLater);
  if (written) written = journal_.append(encode(change), sync);
  DIVVY_RETURN_IF_ERROR(note(std::move(written)));
  const Status applied = state_.apply(change);
  DIVVY_CHECK(applied.has_value(), "{}", applied.error().message);
  if (sync == Journal::Sync::kNow) shorten_if_long();
  return {};
}

Status Ledger::catch_up(Journal::Sync sync) {
  if (journal_.must_be_replaced()) return replace();
  while (!owed_.empty()) {
    const bool last = owed_.size() == 1;
    DIVVY_RETURN_IF_ERROR(journal_.append(encode(TenantReleased{*owed_.begin()}),
                                          last ? sync : Journal::Sync::kLater));
    owed_.erase(owed_.begin());
  }
  return {};
}

void Ledger::shorten_if_long() {
  // Everything is on the disk either way, so a failure is only noted.
  if (journal_.is_long()) (void)note(replace());
}

Status Ledger::replace() {
  DIVVY_RETURN_IF_ERROR(journal_.replace(state_.snapshot()));
  owed_.clear();
  // Its contents are in the ledger now. If it stays, the next start tries again.
  if (first_state_file_ && disk_.remove(kFirstStateFile)) first_state_file_ = false;
  return {};
}

Status Ledger::note(Status written) {
  if (written) {
    if (trouble_) log_info("ledger can be written again");
    trouble_.reset();
    return {};
  }
  if (!trouble_) log_error("ledger cannot be written", {{"reason", written.error().message}});
  trouble_ = written.error();
  // Whoever asked for a slice is not the one who lacks a permission.
  if (open_) written.error().code = ErrorCode::kIo;
  return written;
}

}  // namespace divvy::ledger
