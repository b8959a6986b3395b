// The tenants of this node: grants slices, changes them, takes them back, remembers them across a
// restart. Joins the books (Slices), the sockets (Registrar) and the disk (Ledger); what is
// acknowledged is on the disk.
//
// All methods may be called from any thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "health/failing_tenants.h"
#include "inject/container_devices.h"
#include "ledger/ledger.h"
#include "ledger/slices.h"
#include "ledger/tenant_record.h"
#include "model/node.h"
#include "nvml/library.h"
#include "share/arbiter.h"
#include "share/mps_mode.h"
#include "share/registrar.h"

namespace divvy::agent {

// What was placed for a member of a job, and who will use it.
struct Ask {
  std::vector<model::Slice> slices;
  model::GpuMode mode = model::GpuMode::kTimeslice;
  model::JobClass tenant_class = model::JobClass::kBatch;
  std::string name;     // Empty: one is made from the command. Members have that of their kind
  std::string command;  // For people
  model::Holder holder = model::Holder::kProcess;
  model::MemberKey member;
  sys::Peer
      peer;  // Becomes the tenant's root process, of Holder::kProcess; otherwise its user counts
};

struct Grant {
  ledger::TenantRecord record;
  std::vector<ledger::SharedGpu> gpus;             // By slice
  std::map<std::string, std::string> environment;  // For the command
};

struct Change {
  std::optional<Share> share;
  std::optional<Bytes> memory;
  std::optional<bool> capped;
  std::optional<model::JobClass> tenant_class;
};

// What a slice had of its GPU in the last second.
struct UsedShare {
  enum class By { kGates, kDriver };
  std::uint32_t thousandths = 0;
  By by = By::kGates;
};

struct TenantView {
  ledger::TenantRecord record;
  std::vector<ledger::SharedGpu> gpus;  // By slice
  share::TenantReport report;
  std::vector<share::LeaseReport> leases;  // By slice
  // By slice; nothing where neither gates nor driver tell.
  std::vector<std::optional<UsedShare>> used;
};

class Tenants {
 public:
  struct Parts {
    nvml::Library& library;
    model::Node node;
    share::Arbiter& arbiter;
    share::Keeper& keeper;
    Clock& clock;
    std::filesystem::path run_folder;
    ledger::Ledger& ledger;     // Nobody else grants or releases in it
    share::Mps* mps = nullptr;  // Null: mode mps is refused
    // Null: slices cannot be held by a name.
    inject::ContainerDevices* containers = nullptr;
    // What every tenant needs in its environment besides: where the simulated GPUs are.
    std::map<std::string, std::string> environment{};
  };

  // Opens the sockets of the tenants in the ledger. What is referred to in `parts`
  // outlives it.
  [[nodiscard]] static Result<std::unique_ptr<Tenants>> create(Parts parts);
  // The tenants go on with open gates; the next daemon finds them again.
  ~Tenants();
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  // Whether somebody who is no member of a job may be called so.
  [[nodiscard]] Status check_new_name(const std::string& name) const;
  // Whether tenants can be in this mode here; if not, why and what to do.
  [[nodiscard]] Status check_mode(model::GpuMode mode) const;
  // kResourceExhausted: somebody else has a part of it, or a GPU rests.
  [[nodiscard]] Result<Grant> grant(const Ask& ask);
  // What grant() answered for one that it still has.
  [[nodiscard]] Grant granted(const ledger::TenantRecord& record) const;
  // Whoever ended a moment ago is gone when this returns.
  void reap() { registrar_->reap(); }

  // Called, from any thread, for each tenant that is no more. Not any more after the next call of
  // this returns.
  void on_gone(std::function<void(const ledger::TenantRecord& record)> call);

  // Called, from any thread, when set_resting() has changed something; likewise.
  void on_resting(std::function<void()> call);

  // By number or name.
  [[nodiscard]] Result<model::TenantId> find(const std::string& text) const;
  // What its slices would be, if they may be changed so; nothing is changed. Only for the tenant's
  // own user and root, and not for members of jobs.
  [[nodiscard]] Result<std::vector<model::Slice>> changed(model::TenantId tenant,
                                                          const Change& change,
                                                          const sys::Peer& who) const;
  // As changed() said.
  [[nodiscard]] Status change(model::TenantId tenant, std::vector<model::Slice> slices,
                              std::optional<model::JobClass> tenant_class);
  // It is that member of a job from now on: it was granted before everybody was one.
  [[nodiscard]] Status set_member(model::TenantId tenant, const model::MemberKey& member);
  // Refused while processes of it use the GPU: their slice would be granted to others meanwhile.
  [[nodiscard]] Status release(
      model::TenantId tenant, const sys::Peer& who,
      share::Registrar::ComeBack come_back = share::Registrar::ComeBack::kPossible);

  // Whether the GPU gets new work (SharedGpu says what the words mean).
  void set_resting(const model::GpuUuid& gpu, const std::string& why, bool failing);
  [[nodiscard]] std::vector<health::HolderName> holders(const model::GpuUuid& gpu) const;
  // To the tenant's processes.
  void signal(model::TenantId tenant, int number);

  // As the ledger has them.
  [[nodiscard]] std::vector<ledger::TenantRecord> all() const;
  [[nodiscard]] std::vector<TenantView> list() const;
  [[nodiscard]] std::optional<TenantView> get(model::TenantId tenant) const;
  // A copy of the books.
  [[nodiscard]] ledger::Slices slices() const;
  [[nodiscard]] const model::Node& node() const { return parts_.node; }

 private:
  explicit Tenants(Parts parts);

  [[nodiscard]] Status recover();
  void free_reserved_names();
  // A grant has two halves. The first, with the lock held, keeps the place: from then on nobody
  // else gets it. The second makes a tenant of it, which may take a while and is done without the
  // lock.
  [[nodiscard]] Status check_name(const std::string& name, model::Holder holder) const;
  [[nodiscard]] Result<ledger::TenantRecord> keep(const Ask& ask);
  [[nodiscard]] Result<Grant> finish(ledger::TenantRecord record);
  // Gives back what keep() kept.
  void abandon(const ledger::TenantRecord& record);
  [[nodiscard]] Status check_owner(const ledger::TenantRecord& record, const sys::Peer& who) const;
  // What it was; nothing where there is none.
  std::optional<ledger::TenantRecord> release_locked(model::TenantId tenant,
                                                     ledger::Journal::Sync sync);
  [[nodiscard]] const std::map<model::TenantId, ledger::TenantRecord>& records() const {
    return parts_.ledger.tenants();
  }
  void leave_mps(const ledger::TenantRecord& record);
  [[nodiscard]] inject::HeldSlice held_slice(const ledger::TenantRecord& record) const;
  void show_held_slices();
  // As a device for containers, where it is for them.
  [[nodiscard]] Status publish(const ledger::TenantRecord& record) const;
  void withdraw(const ledger::TenantRecord& record);
  void ended(model::TenantId tenant);
  void add_environment(Grant& grant) const;
  [[nodiscard]] std::vector<ledger::SharedGpu> gpus_of(const ledger::TenantRecord& record) const;
  [[nodiscard]] std::string choose_name(const Ask& ask, model::TenantId id) const;
  [[nodiscard]] Result<std::vector<model::Slice>> changed_slices(const ledger::TenantRecord& record,
                                                                 const Change& change) const;

  void tell_gone(const std::optional<ledger::TenantRecord>& record);

  Parts parts_;
  std::mutex gone_mutex_;  // of gone_ and resting_, which are called with it
  std::function<void(const ledger::TenantRecord& record)> gone_;
  std::function<void()> resting_;
  share::Meter meter_;
  mutable std::mutex mutex_;
  ledger::Slices slices_;
  std::map<model::TenantId, std::string> placed_;  // Names of those between the two halves
  model::TenantId next_id_;
  // Last, so that it ends first: its thread calls ended().
  std::unique_ptr<share::Registrar> registrar_;
};

}  // namespace divvy::agent
