// What the dispatcher needs of the machine under it: which GPUs there are, and a slice for each
// member. One truth stands behind it, the ledger (node_machine.h); tests have one of their own
// (testing.h). Callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "jobs/fleet.h"
#include "model/job.h"
#include "run/launch_environment.h"
#include "run/member_key.h"

namespace divvy::dispatch {

// What a member needs to use its slice: one or the other, by its runtime.
struct MemberSlice {
  run::Environment environment;          // of a process
  std::vector<std::string> cdi_devices;  // of a container
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
  // Who holds slices here, by the names that grant() gave them.
  [[nodiscard]] virtual std::vector<run::MemberKey> held() = 0;

  [[nodiscard]] virtual std::vector<MemberActivity> activity() = 0;
};

}  // namespace divvy::dispatch
