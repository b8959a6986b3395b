// What the dispatcher needs of the machine under it: which GPUs there are, and a slice for each
// member. One truth stands behind it, the ledger (node_machine.h); tests have one of their own
// (testing.h). Callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "jobs/fleet.h"
#include "model/job.h"
#include "model/member_key.h"
#include "model/tenant.h"
#include "run/launch_environment.h"
#include "run/member_key.h"

namespace divvy::dispatch {

// What a member needs to use its slice: one or the other, by its runtime.
struct MemberSlice {
  run::Environment environment = {};          // of a process
  std::vector<std::string> cdi_devices = {};  // of a container
  model::TenantId tenant = {};                // as the machine knows it
};

// How much of its GPUs a member had in the last second.
struct MemberActivity {
  run::MemberKey key;
  std::uint64_t used = 0;  // thousandths of a GPU, over all of its slices
};

// As whom a member runs.
struct MemberUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::int32_t pid = 0;   // of Holder::kProcess
  std::string name = {};  // of holders: what the slices are called; empty: after the command
};

// Slices that somebody holds.
struct HeldSlices {
  model::MemberKey key;  // job 0: granted before everybody was a job
  model::Holder holder = model::Holder::kMembers;
  model::TenantId tenant = {};
  std::string node = {};
  std::string name = {};
  std::string command = {};
  std::string user = {};
  WallTime since = {};
  std::vector<model::Slice> slices = {};
  model::JobClass job_class = model::JobClass::kBatch;
};

class Machine {
 public:
  virtual ~Machine() = default;

  // As it is now; what members of jobs hold is not counted in it.
  [[nodiscard]] virtual jobs::Fleet fleet() = 0;

  // The slices of the member are its own, and on the disk, when this returns.
  // kResourceExhausted: somebody else has them.
  [[nodiscard]] virtual Result<MemberSlice> grant(const run::MemberKey& key, const model::Job& job,
                                                  const model::JobMember& member,
                                                  const MemberUser& user) = 0;
  // Of a member that has ended, with all of its processes. Of one that holds nothing: success.
  // kFailedPrecondition: an end of theirs was not seen yet; later.
  [[nodiscard]] virtual Status release(const run::MemberKey& key) = 0;
  // The most GPU memory that the member had on one of its GPUs; nothing: nobody knows (any more).
  // To be asked before its slice is released.
  [[nodiscard]] virtual std::optional<Bytes> memory_peak(const run::MemberKey& key) = 0;
  [[nodiscard]] virtual std::vector<HeldSlices> held() = 0;

  // --- Holders that were not started here: processes of their owners, slices held by a name ---

  // Called, from any thread, when such a holder has let go of its slices. Empty: nobody is called
  // from now on.
  virtual void on_gone(std::function<void(const model::MemberKey&)> call) = 0;
  // Whoever ended a moment ago has been told of when this returns.
  virtual void reap() = 0;
  // Has it let go: its processes get the signal, and a slice that nobody uses is released. False:
  // it holds nothing. Otherwise on_gone() tells when it has.
  [[nodiscard]] virtual bool end_holder(const model::MemberKey& key, int signal) = 0;
  // Slices that were granted before everybody was a job.
  [[nodiscard]] virtual Status adopt(model::TenantId tenant, const model::MemberKey& key) = 0;

  [[nodiscard]] virtual std::vector<MemberActivity> activity() = 0;
};

}  // namespace divvy::dispatch
