// The machine as it is: slices come from the daemon's own tenants, whose ledger says which member
// of which job holds them, so that they outlive the daemon and are found again.
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
  [[nodiscard]] std::optional<Bytes> memory_peak(const run::MemberKey& key) override;
  [[nodiscard]] std::vector<HeldSlices> held() override;
  void on_gone(std::function<void(const model::MemberKey&)> call) override;
  void reap() override;
  [[nodiscard]] bool end_holder(const model::MemberKey& key, int signal) override;
  [[nodiscard]] Status adopt(model::TenantId tenant, const model::MemberKey& key) override;
  [[nodiscard]] std::vector<MemberActivity> activity() override;

 private:
  [[nodiscard]] std::optional<node::TenantRecord> find(const model::MemberKey& key) const;

  Parts parts_;
};

}  // namespace divvy::dispatch
