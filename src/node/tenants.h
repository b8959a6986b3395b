// The tenants of this node: grants slices, changes them, takes them back, remembers them across a
// restart. Joins the books (Slices), the sockets (Registrar) and the disk (Ledger); what is
// acknowledged is on the disk.
//
// All methods may be called from any thread.
#pragma once

#include <sys/types.h>

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/node.h"
#include "model/request.h"
#include "node/arbiter.h"
#include "node/container_devices.h"
#include "node/failing_tenants.h"
#include "node/ledger.h"
#include "node/registrar.h"
#include "node/slices.h"
#include "node/tenant_record.h"
#include "nvml/library.h"

namespace divvy::node {

// What somebody asks for, and who it is.
struct Ask {
  model::Request request;
  std::vector<std::string> devices;  // Indices, UUIDs or beginnings of UUIDs; empty: any
  GpuMode mode = GpuMode::kTimeslice;
  TenantClass tenant_class = TenantClass::kBatch;
  std::string name;     // Empty: one is made from the command
  std::string command;  // For people
  Peer peer;            // Becomes the tenant's root process
  // No process stands behind it: the slice stays until it is released, and containers get it by
  // its name.
  bool held = false;
  // For a member of a job, with a name of that kind (model/name.h), which nobody else can have.
  bool of_a_job = false;
  // Exactly these, instead of what would be found for the request: somebody else has placed it.
  std::vector<model::Slice> slices = {};
};

struct Grant {
  TenantRecord record;
  std::vector<SharedGpu> gpus;                     // By slice
  std::map<std::string, std::string> environment;  // For the command
};

// A request that waits; wait for `ready` to become readable, then ask for the answer.
class WaitingAsk {
 public:
  WaitingAsk(Ask ask, UniqueFd ready) : ask_(std::move(ask)), ready_(std::move(ready)) {}
  [[nodiscard]] int ready() const { return ready_.get(); }

 private:
  friend class Tenants;
  Ask ask_;
  UniqueFd ready_;
  // What it will be when whoever waits comes for it, or why it will not.
  std::optional<Result<TenantRecord>> placed_;
};

struct Change {
  std::optional<Share> share;
  std::optional<Bytes> memory;
  std::optional<bool> capped;
  std::optional<TenantClass> tenant_class;
};

// What a slice had of its GPU in the last second.
struct UsedShare {
  enum class By { kGates, kDriver };
  std::uint32_t thousandths = 0;
  By by = By::kGates;
};

struct TenantView {
  TenantRecord record;
  std::vector<SharedGpu> gpus;  // By slice
  TenantReport report;
  std::vector<LeaseReport> leases;  // By slice
  // By slice; nothing where neither gates nor driver tell.
  std::vector<std::optional<UsedShare>> used;
};

// Called for each tenant in mode mps that comes; gives the environment that its programs need
// besides. May take its time: no lock is held.
using PrepareMode =
    std::function<Result<std::map<std::string, std::string>>(const TenantRecord& record)>;
// Called after the last tenant of the mode has left a GPU. Returns at once: a lock is held.
using LeaveMode = std::function<void(const TenantRecord& record)>;

class Tenants {
 public:
  struct Parts {
    nvml::Library& library;
    model::Node node;
    Arbiter& arbiter;
    Keeper& keeper;
    Clock& clock;
    std::filesystem::path run_folder;
    Ledger& ledger;  // Nobody else grants or releases in it
    // Both empty: mode mps is refused.
    PrepareMode prepare_mps;
    LeaveMode leave_mps;
    // Null: slices cannot be held by a name.
    ContainerDevices* containers = nullptr;
  };

  // Opens the sockets of the tenants in the ledger. What is referred to in `parts`
  // outlives it.
  [[nodiscard]] static Result<std::unique_ptr<Tenants>> create(Parts parts);
  // The tenants go on with open gates; the next daemon finds them again.
  ~Tenants();
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  using Answer = std::variant<Grant, NoFit>;
  [[nodiscard]] Result<Answer> grant(const Ask& ask);

  // As grant(), but where it does not fit now the request waits its turn: first come, first served
  // among those who wait.
  using AnswerOrWait = std::variant<Grant, NoFit, std::shared_ptr<WaitingAsk>>;
  [[nodiscard]] Result<AnswerOrWait> grant_or_wait(const Ask& ask);
  // What has become of it: nothing while it waits. Once, after `ready`.
  [[nodiscard]] std::optional<Result<Grant>> answer(const std::shared_ptr<WaitingAsk>& waiting);
  // The asker is gone. What was kept for it meanwhile is given back. Not after answer().
  void give_up(const std::shared_ptr<WaitingAsk>& waiting);
  [[nodiscard]] std::size_t waiting() const;

  // By number or name.
  [[nodiscard]] Result<model::TenantId> find(const std::string& text) const;
  // Only for the tenant's own user and root.
  [[nodiscard]] Result<TenantRecord> change(model::TenantId tenant, const Change& change,
                                            const Peer& who);
  // Refused while processes of it use the GPU: their slice would be granted to others meanwhile.
  [[nodiscard]] Status release(model::TenantId tenant, const Peer& who,
                               Registrar::ComeBack come_back = Registrar::ComeBack::kPossible);

  // Whether the GPU gets new work (SharedGpu says what the words mean). Those who wait are served
  // where it does.
  void set_resting(const model::GpuUuid& gpu, const std::string& why, bool failing);
  [[nodiscard]] std::vector<HolderName> holders(const model::GpuUuid& gpu) const;
  // To the tenant's processes.
  void signal(model::TenantId tenant, int number);

  [[nodiscard]] std::vector<TenantView> list() const;
  [[nodiscard]] std::optional<TenantView> get(model::TenantId tenant) const;
  // A copy of the books.
  [[nodiscard]] Slices slices() const;
  [[nodiscard]] const model::Node& node() const { return parts_.node; }

 private:
  explicit Tenants(Parts parts);

  [[nodiscard]] Status recover();
  void free_reserved_names();
  // A grant has two halves. The first, with the lock held, finds a place and keeps it: from then on
  // nobody else gets it. The second makes a tenant of it, which may take a while and is done
  // without the lock.
  using Placed = std::variant<TenantRecord, NoFit>;
  [[nodiscard]] Status check_name(const Ask& ask) const;
  [[nodiscard]] Result<Placed> place(const Ask& ask);
  [[nodiscard]] Result<TenantRecord> keep(const Ask& ask, std::vector<model::Slice> slices);
  [[nodiscard]] Result<Grant> finish(TenantRecord record);
  // Gives back what place() kept.
  void abandon(const TenantRecord& record);
  [[nodiscard]] Status check_owner(const TenantRecord& record, const Peer& who) const;
  void release_locked(model::TenantId tenant, Journal::Sync sync);
  [[nodiscard]] const std::map<model::TenantId, TenantRecord>& records() const {
    return parts_.ledger.tenants();
  }
  void leave_mps(const TenantRecord& record);
  [[nodiscard]] HeldSlice held_slice(const TenantRecord& record) const;
  void show_held_slices();
  void withdraw(const TenantRecord& record);
  void ended(model::TenantId tenant);
  void serve_waiting();
  [[nodiscard]] std::vector<SharedGpu> gpus_of(const TenantRecord& record) const;
  [[nodiscard]] std::string choose_name(const Ask& ask, model::TenantId id) const;
  [[nodiscard]] Result<std::vector<model::Slice>> changed_slices(const TenantRecord& record,
                                                                 const Change& change) const;

  Parts parts_;
  Meter meter_;
  mutable std::mutex mutex_;
  Slices slices_;
  std::map<model::TenantId, std::string> placed_;  // Names of those between the two halves
  model::TenantId next_id_;
  std::deque<std::shared_ptr<WaitingAsk>> waiting_;
  // Last, so that it ends first: its thread calls ended().
  std::unique_ptr<Registrar> registrar_;
};

}  // namespace divvy::node
