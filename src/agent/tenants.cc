#include "agent/tenants.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/counted.h"
#include "base/log.h"
#include "model/name.h"

namespace divvy::agent {
namespace {

constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

// What is left of a command when only letters that a name may have are kept.
std::string name_from(std::string_view command) {
  const std::string_view program = command.substr(0, command.find(' '));
  std::string name;
  for (const char c : program.substr(program.rfind('/') + 1)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain || (!name.empty() && (c == '.' || c == '_' || c == '-'))) name += c;
    if (name.size() == 40) break;
  }
  return name.empty() ? "tenant" : name;
}

std::string uuid_list(const ledger::TenantRecord& record) {
  std::string list;
  for (const model::Slice& slice : record.slices) {
    if (!list.empty()) list += ',';
    list += slice.gpu().str();
  }
  return list;
}

// The queue counts with what its jobs hold: nobody changes it under its hands.
Status check_no_job(const ledger::TenantRecord& record) {
  if (record.holder != model::Holder::kMembers) return {};
  return err(ErrorCode::kFailedPrecondition,
             "{} is what a job holds, as long as it runs; `divvy delete` ends the job",
             record.name);
}

}  // namespace

Tenants::Tenants(Parts parts)
    : parts_(std::move(parts)),
      meter_(parts_.library, parts_.clock),
      slices_(ledger::shared_gpus(parts_.node)),
      next_id_(parts_.ledger.next_id()) {}

Tenants::~Tenants() = default;

Result<std::unique_ptr<Tenants>> Tenants::create(Parts parts) {
  std::unique_ptr<Tenants> tenants(new Tenants(std::move(parts)));
  const std::filesystem::path folder = tenants->parts_.run_folder / "t";
  // Others may pass through to their own sockets but not look around.
  if (::mkdir(folder.c_str(), 0711) != 0 && errno != EEXIST) {
    return err(ErrorCode::kIo, "the folder {} could not be made: {}", folder.string(),
               std::strerror(errno));
  }
  DIVVY_TRY(registrar,
            share::Registrar::create({.socket_folder = folder,
                                      .arbiter = tenants->parts_.arbiter,
                                      .keeper = tenants->parts_.keeper,
                                      .meter = tenants->meter_,
                                      .clock = tenants->parts_.clock,
                                      .ended = [books = tenants.get()](model::TenantId tenant) {
                                        books->ended(tenant);
                                      }}));
  tenants->registrar_ = std::move(registrar);
  DIVVY_RETURN_IF_ERROR(tenants->recover());
  return tenants;
}

// An earlier version let processes have names of members: a job would find its own name taken.
void Tenants::free_reserved_names() {
  std::vector<ledger::TenantRecord> renamed;
  for (const auto& [id, record] : records()) {
    if (!ledger::has_root(record) || !model::is_reserved_tenant_name(record.name)) continue;
    renamed.push_back(record);
    renamed.back().name = fmt::format("tenant-{}", id);
  }
  // What the disk does not take now is renamed at the next start again.
  for (const ledger::TenantRecord& record : renamed) (void)parts_.ledger.change(record);
}

Status Tenants::recover() {
  std::vector<ledger::TenantRecord> found;
  {
    const std::lock_guard lock(mutex_);
    free_reserved_names();
    std::vector<model::TenantId> lost;
    for (const auto& [id, record] : records()) {
      if (const Status taken = slices_.take(id, record.slices, record.mode); !taken) {
        log_error(
            "tenant lost",
            {{"tenant", id.value()}, {"name", record.name}, {"reason", taken.error().message}});
        lost.push_back(id);
        continue;
      }
      found.push_back(record);
    }
    // What the disk does not learn now it learns later; the ledger says so itself.
    for (const model::TenantId id : lost)
      (void)parts_.ledger.release(id, ledger::Journal::Sync::kLater);
  }
  for (const ledger::TenantRecord& record : found) {
    if (record.mode != model::GpuMode::kMps || parts_.mps == nullptr) continue;
    if (const Status entered = share::enter_mps(*parts_.mps, record); !entered) {
      log_error("MPS is not running", {{"reason", entered.error().message}});
    }
  }
  const std::lock_guard lock(mutex_);
  for (const ledger::TenantRecord& record : found) {
    DIVVY_RETURN_IF_ERROR(registrar_->add(record, gpus_of(record), true));
    log_info("tenant found again", {{"tenant", record.id.value()}, {"name", record.name}});
  }
  show_held_slices();
  return {};
}

void Tenants::show_held_slices() {
  if (parts_.containers == nullptr) return;
  std::vector<inject::HeldSlice> held;
  for (const auto& [id, record] : records()) {
    if (!ledger::has_root(record)) held.push_back(held_slice(record));
  }
  if (const Status shown = parts_.containers->recover(held); !shown) {
    log_error("devices for containers are not as they should be",
              {{"reason", shown.error().message}});
  }
}

inject::HeldSlice Tenants::held_slice(const ledger::TenantRecord& record) const {
  const std::filesystem::path socket = registrar_->socket_path(record);
  inject::HeldSlice slice{.name = record.name,
                          .socket_folder = socket.parent_path(),
                          .socket_name = socket.filename().string(),
                          .gpus = {}};
  for (const model::Slice& one : record.slices) slice.gpus.push_back(one.gpu());
  if (record.mode == model::GpuMode::kMps && parts_.mps != nullptr) {
    const model::Slice& only = record.slices.front();
    slice.mps = {parts_.mps->pipe_folder(only.gpu()),
                 share::mps_thread_percentage(only.share(), record.tenant_class)};
  }
  return slice;
}

std::vector<ledger::SharedGpu> Tenants::gpus_of(const ledger::TenantRecord& record) const {
  std::vector<ledger::SharedGpu> result;
  result.reserve(record.slices.size());
  for (const model::Slice& slice : record.slices) result.push_back(*slices_.find(slice.gpu()));
  return result;
}

std::string Tenants::choose_name(const Ask& ask, model::TenantId id) const {
  return ask.name.empty() ? fmt::format("{}-{}", name_from(ask.command), id) : ask.name;
}

Result<Grant> Tenants::grant(const Ask& ask) {
  std::optional<ledger::TenantRecord> kept;
  {
    const std::lock_guard lock(mutex_);
    DIVVY_TRY(record, keep(ask));
    kept = std::move(record);
  }
  return finish(*std::move(kept));
}

Status Tenants::check_new_name(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return check_name(name, model::Holder::kProcess);
}

Status Tenants::check_name(const std::string& name, model::Holder holder) const {
  if (name.empty()) return {};
  DIVVY_RETURN_IF_ERROR(model::check_name("tenant", name));
  if (holder != model::Holder::kMembers && model::is_reserved_tenant_name(name)) {
    return err(ErrorCode::kInvalidArgument,
               "{} is a name as Divvy gives it to jobs and tenants itself; choose one that is no "
               "number and does not begin with job- and a number",
               name);
  }
  const auto taken = std::ranges::any_of(
      records(), [&name](const auto& entry) { return entry.second.name == name; });
  const auto about_to_be =
      std::ranges::any_of(placed_, [&name](const auto& entry) { return entry.second == name; });
  if (taken || about_to_be) {
    return err(ErrorCode::kAlreadyExists, "there is a tenant named {} already; choose another name",
               name);
  }
  return {};
}

Status Tenants::check_mode(model::GpuMode mode) const {
  if (mode != model::GpuMode::kMps) return {};
  if (parts_.mps != nullptr) return parts_.mps->check_installed();
  return err(ErrorCode::kUnsupported,
             "mode mps is not available here; leave --mode out to take turns on the GPU");
}

Result<ledger::TenantRecord> Tenants::keep(const Ask& ask) {
  DIVVY_RETURN_IF_ERROR(check_name(ask.name, ask.holder));
  const bool rooted = ask.holder == model::Holder::kProcess;
  DIVVY_RETURN_IF_ERROR(check_mode(ask.mode));
  if (ask.holder == model::Holder::kSlice && parts_.containers == nullptr) {
    return err(ErrorCode::kUnsupported, "this divvyd makes no devices for containers");
  }
  for (const model::Slice& slice : ask.slices) {
    const ledger::SharedGpu* gpu = slices_.find(slice.gpu());
    if (gpu != nullptr && !gpu->resting.empty()) {
      return err(ErrorCode::kResourceExhausted, "GPU {} {}", gpu->index, gpu->resting);
    }
  }
  const auto born = rooted ? sys::start_ticks(ask.peer.pid) : std::optional<std::uint64_t>(0);
  if (!born) {
    return err(ErrorCode::kNotFound,
               "the process that asks cannot be seen; is it in another pid namespace?");
  }
  // Its number may be another's by now: whoever asked can have ended and left the connection open.
  if (rooted && sys::owner_of(ask.peer.pid) != ask.peer.uid) {
    return err(ErrorCode::kPermissionDenied, "the process that asks is gone");
  }
  ledger::TenantRecord record;
  record.id = next_id_;
  record.member = ask.member;
  record.holder = ask.holder;
  record.name = choose_name(ask, record.id);
  record.command = ask.command;
  record.uid = ask.peer.uid;
  record.gid = ask.peer.gid;
  record.root = {rooted ? ask.peer.pid : 0, *born};
  record.since_unix =
      std::chrono::duration_cast<std::chrono::seconds>(parts_.clock.wall_now().time_since_epoch())
          .count();
  record.slices = ask.slices;
  record.tenant_class = ask.tenant_class;
  record.mode = ask.mode;

  DIVVY_RETURN_IF_ERROR(slices_.take(record.id, record.slices, record.mode));
  next_id_ = next_id_.next();
  placed_.emplace(record.id, record.name);
  return record;
}

Result<Grant> Tenants::finish(ledger::TenantRecord record) {
  Grant grant;
  if (record.mode == model::GpuMode::kMps) {
    // The place that is kept holds the GPU in its mode meanwhile, so that a tenant that ends does
    // not take the MPS daemon with it.
    if (Status entered = share::enter_mps(*parts_.mps, record); !entered) {
      const std::lock_guard lock(mutex_);
      abandon(record);
      return err(std::move(entered).error());
    }
    grant.environment = share::mps_environment(*parts_.mps, record);
  }
  if (Status published = publish(record); !published) {
    const std::lock_guard lock(mutex_);
    abandon(record);
    return err(with_context(std::move(published).error(), "no slice was made for containers"));
  }
  constexpr std::string_view kNotRemembered =
      "no slice was granted, because it could not be remembered";
  Result<std::uint64_t> begun;
  {
    const std::lock_guard lock(mutex_);
    grant.gpus = gpus_of(record);
    if (Status added = registrar_->add(record, grant.gpus, false); !added) {
      begun = err(std::move(added).error());
    } else {
      begun = with_context(parts_.ledger.begin_grant(record), kNotRemembered);
      if (!begun) registrar_->remove(record.id);
    }
    if (!begun) {
      abandon(record);
      return err(std::move(begun).error());
    }
    placed_.erase(record.id);
  }
  // Without the lock: all who are here at the same time wait for one sync of the disk.
  if (Status settled = with_context(parts_.ledger.settle(*begun), kNotRemembered); !settled) {
    const std::lock_guard lock(mutex_);
    release_locked(record.id, ledger::Journal::Sync::kLater);
    return err(std::move(settled).error());
  }
  log_info("tenant granted", {{"tenant", record.id.value()},
                              {"name", record.name},
                              {"uid", record.uid},
                              {"pid", record.root.pid},
                              {"gpus", uuid_list(record)}});
  grant.record = std::move(record);
  add_environment(grant);
  return grant;
}

void Tenants::add_environment(Grant& grant) const {
  grant.environment.insert(parts_.environment.begin(), parts_.environment.end());
  grant.environment["DIVVY_SOCKET"] = registrar_->socket_path(grant.record).string();
  grant.environment[kVisibleDevices] = uuid_list(grant.record);
}

Grant Tenants::granted(const ledger::TenantRecord& record) const {
  const std::lock_guard lock(mutex_);
  Grant grant;
  grant.record = record;
  grant.gpus = gpus_of(record);
  add_environment(grant);
  return grant;
}

void Tenants::abandon(const ledger::TenantRecord& record) {
  placed_.erase(record.id);
  slices_.give_back(record.id);
  leave_mps(record);
  withdraw(record);
}

Status Tenants::publish(const ledger::TenantRecord& record) const {
  if (ledger::has_root(record) || parts_.containers == nullptr) return {};
  return parts_.containers->publish(held_slice(record));
}

void Tenants::withdraw(const ledger::TenantRecord& record) {
  if (ledger::has_root(record)) return;
  if (parts_.containers == nullptr) return;
  if (const Status withdrawn = parts_.containers->withdraw(record.name); !withdrawn) {
    log_error("a device for containers stays", {{"reason", withdrawn.error().message}});
  }
}

std::optional<ledger::TenantRecord> Tenants::release_locked(model::TenantId tenant,
                                                            ledger::Journal::Sync sync) {
  const auto found = records().find(tenant);
  if (found == records().end()) return std::nullopt;
  ledger::TenantRecord record = found->second;
  registrar_->remove(tenant);
  slices_.give_back(tenant);
  leave_mps(record);
  withdraw(record);
  log_info("tenant released", {{"tenant", tenant.value()}, {"name", record.name}});
  // What does not reach the disk now is written later, and found out by a start in between where
  // the process is gone. The ledger has said so itself.
  (void)parts_.ledger.release(tenant, sync);
  return record;
}

void Tenants::leave_mps(const ledger::TenantRecord& record) {
  if (record.mode != model::GpuMode::kMps || parts_.mps == nullptr) return;
  const auto is_empty = [this](const model::Slice& slice) { return !slices_.mode_of(slice.gpu()); };
  if (std::ranges::any_of(record.slices, is_empty)) share::leave_mps(*parts_.mps, record);
}

void Tenants::on_gone(std::function<void(const ledger::TenantRecord& record)> call) {
  const std::lock_guard lock(gone_mutex_);
  gone_ = std::move(call);
}

void Tenants::on_resting(std::function<void()> call) {
  const std::lock_guard lock(gone_mutex_);
  resting_ = std::move(call);
}

void Tenants::tell_gone(const std::optional<ledger::TenantRecord>& record) {
  const std::lock_guard lock(gone_mutex_);
  if (record && gone_) gone_(*record);
}

void Tenants::ended(model::TenantId tenant) {
  std::optional<ledger::TenantRecord> record;
  {
    const std::lock_guard lock(mutex_);
    // Its processes are gone, as the next start would see by itself.
    record = release_locked(tenant, ledger::Journal::Sync::kLater);
  }
  tell_gone(record);
}

Status Tenants::check_owner(const ledger::TenantRecord& record, const sys::Peer& who) const {
  if (who.uid == 0 || who.uid == record.uid) return {};
  return err(ErrorCode::kPermissionDenied,
             "tenant {} belongs to {}; only they and root may do this", record.name,
             sys::user_name(record.uid));
}

Result<std::vector<model::Slice>> Tenants::changed_slices(const ledger::TenantRecord& record,
                                                          const Change& change) const {
  constexpr Share whole(Share::kWhole);
  std::vector<Share> shares;
  shares.reserve(record.slices.size());
  for (const model::Slice& slice : record.slices) shares.push_back(slice.share());
  if (change.share) {
    shares.assign(change.share->whole_part(), whole);
    if (change.share->fraction() > Share(0)) shares.push_back(change.share->fraction());
    if (shares.size() != record.slices.size()) {
      return err(ErrorCode::kFailedPrecondition,
                 "tenant {} holds {}, and {} would be {}; their number cannot change while it runs",
                 record.name, counted(record.slices.size(), "GPU"), to_string(*change.share),
                 counted(shares.size(), "GPU"));
    }
  }
  std::vector<model::Slice> result;
  for (std::size_t i = 0; i < record.slices.size(); ++i) {
    const model::Slice& before = record.slices[i];
    const ledger::SharedGpu& gpu = *slices_.find(before.gpu());
    Bytes memory = change.memory.value_or(before.memory());
    // Memory that nobody named goes with the share.
    const bool whole_memory = before.whole_gpu() && before.memory() == gpu.memory;
    const bool became_whole = shares[i] == whole && !before.whole_gpu();
    if (!change.memory && (whole_memory || became_whole)) memory = portion(gpu.memory, shares[i]);
    if (memory < ledger::kSmallestSlice) {
      return err(ErrorCode::kOutOfRange, "a slice has at least {} of memory",
                 to_string(ledger::kSmallestSlice));
    }
    if (memory > gpu.memory) {
      return err(ErrorCode::kOutOfRange, "GPU {} has {} of memory that programs can use", gpu.index,
                 humanize(gpu.memory));
    }
    model::ShareKind kind = before.kind();
    if (change.capped)
      kind = *change.capped ? model::ShareKind::kCap : model::ShareKind::kGuarantee;
    DIVVY_TRY(slice, model::Slice::create(before.gpu(), memory, shares[i], kind));
    result.push_back(std::move(slice));
  }
  return result;
}

Result<std::vector<model::Slice>> Tenants::changed(model::TenantId tenant, const Change& change,
                                                   const sys::Peer& who) const {
  const std::lock_guard lock(mutex_);
  const auto found = records().find(tenant);
  if (found == records().end()) return err(ErrorCode::kNotFound, "there is no tenant {}", tenant);
  const ledger::TenantRecord& record = found->second;
  DIVVY_RETURN_IF_ERROR(check_owner(record, who));
  DIVVY_RETURN_IF_ERROR(check_no_job(record));
  DIVVY_TRY(slices, changed_slices(record, change));
  for (const share::TenantReport& report : registrar_->report()) {
    if (report.tenant != tenant) continue;
    for (std::size_t i = 0; i < slices.size() && i < report.slices.size(); ++i) {
      if (slices[i].memory() < record.slices[i].memory() &&
          slices[i].memory() < report.slices[i].used) {
        return err(
            ErrorCode::kFailedPrecondition,
            "tenant {} uses {} of memory now; it has to free some before its limit can be {}",
            record.name, humanize(report.slices[i].used), humanize(slices[i].memory()));
      }
    }
  }
  return slices;
}

Status Tenants::change(model::TenantId tenant, std::vector<model::Slice> slices,
                       std::optional<model::JobClass> tenant_class) {
  const std::lock_guard lock(mutex_);
  const auto found = records().find(tenant);
  if (found == records().end()) return err(ErrorCode::kNotFound, "there is no tenant {}", tenant);
  const std::vector<model::Slice> before = found->second.slices;
  ledger::TenantRecord record = found->second;
  DIVVY_RETURN_IF_ERROR(slices_.change(tenant, slices));
  record.slices = std::move(slices);
  record.tenant_class = tenant_class.value_or(record.tenant_class);
  if (Status saved = with_context(parts_.ledger.change(record), "nothing was changed"); !saved) {
    DIVVY_CHECK(slices_.change(tenant, before).has_value(), "what was held fits");
    return saved;
  }
  registrar_->change(record);
  // Containers that start from now on get the part of the threads that goes with the new share.
  if (record.mode == model::GpuMode::kMps) {
    if (const Status published = publish(record); !published) {
      log_error("a device for containers has the part of the threads from before",
                {{"slice", record.name}, {"reason", published.error().message}});
    }
  }
  log_info("tenant changed", {{"tenant", tenant.value()}, {"name", record.name}});
  return {};
}

Status Tenants::set_member(model::TenantId tenant, const model::MemberKey& member) {
  const std::lock_guard lock(mutex_);
  const auto found = records().find(tenant);
  if (found == records().end()) return err(ErrorCode::kNotFound, "there is no tenant {}", tenant);
  ledger::TenantRecord record = found->second;
  record.member = member;
  return parts_.ledger.change(record);
}

Status Tenants::release(model::TenantId tenant, const sys::Peer& who,
                        share::Registrar::ComeBack come_back) {
  // Who died a moment ago does not count.
  registrar_->reap();
  std::optional<ledger::TenantRecord> record;
  {
    const std::lock_guard lock(mutex_);
    const auto found = records().find(tenant);
    if (found == records().end()) return err(ErrorCode::kNotFound, "there is no tenant {}", tenant);
    DIVVY_RETURN_IF_ERROR(check_owner(found->second, who));
    if (come_back == share::Registrar::ComeBack::kPossible)
      DIVVY_RETURN_IF_ERROR(check_no_job(found->second));
    DIVVY_RETURN_IF_ERROR(registrar_->remove_unused(tenant, come_back));
    record = release_locked(tenant, ledger::Journal::Sync::kNow);
  }
  tell_gone(record);
  return {};
}

void Tenants::set_resting(const model::GpuUuid& gpu, const std::string& why, bool failing) {
  {
    const std::lock_guard lock(mutex_);
    slices_.set_resting(gpu, why, failing);
  }
  const std::lock_guard lock(gone_mutex_);
  if (resting_) resting_();
}

std::vector<health::HolderName> Tenants::holders(const model::GpuUuid& gpu) const {
  registrar_->reap();
  const std::lock_guard lock(mutex_);
  std::vector<health::HolderName> result;
  for (const model::TenantId id : slices_.holders(gpu)) {
    const auto record = records().find(id);
    if (record != records().end()) result.push_back({id, record->second.name});
  }
  return result;
}

void Tenants::signal(model::TenantId tenant, int number) { registrar_->signal(tenant, number); }

}  // namespace divvy::agent
