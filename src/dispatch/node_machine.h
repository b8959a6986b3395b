// The machine as it is: slices come from the daemon's own tenants, each held by the name of its
// member (run/member_key.h), so that they outlive the daemon and are found again.
#pragma once

#include <filesystem>

#include "dispatch/machine.h"
#include "node/tenants.h"

namespace divvy::dispatch {

class NodeMachine final : public Machine {
 public:
  struct Parts {
    node::Tenants& tenants;
    std::filesystem::path shim;  // libdivvy.so, preloaded into processes
    // What members need besides: where the simulated driver is, with simulated GPUs.
    run::Environment environment;
  };
  // What `parts` refers to outlives it.
  explicit NodeMachine(Parts parts) : parts_(std::move(parts)) {}

  [[nodiscard]] jobs::Fleet fleet() override;
  [[nodiscard]] Result<MemberSlice> grant(const run::MemberKey& key, const model::Job& job,
                                          const model::JobMember& member,
                                          const MemberUser& user) override;
  [[nodiscard]] Status release(const run::MemberKey& key) override;
  [[nodiscard]] std::vector<run::MemberKey> held() override;
  [[nodiscard]] std::vector<MemberActivity> activity() override;

 private:
  Parts parts_;
};

}  // namespace divvy::dispatch
