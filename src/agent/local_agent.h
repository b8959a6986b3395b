// The machine of this process as an agent: its ledger and tenants, its GPUs' health, its members.
// Work that may block is done on threads of its own (workers.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "agent/health_service.h"
#include "agent/relays.h"
#include "agent/streams.h"
#include "agent/tenants.h"
#include "agent/workers.h"
#include "base/clock.h"
#include "run/machine_runtime.h"
#include "run/podman_runtime.h"

namespace divvy::agent {

class LocalAgent final : public Agent {
 public:
  struct Parts {
    Tenants& tenants;
    run::MachineRuntime& runtime;
    HealthService* health = nullptr;  // null: nobody watches the health of its GPUs
    std::filesystem::path shim = {};  // libdivvy.so, preloaded into processes
    // What members need besides: where the simulated driver is, with simulated GPUs.
    Environment environment = {};
    run::PodmanSettings podman = {};
    bool keeps_privileges = false;  // all of root's
    std::string version = {};
    unsigned starters = 4;  // members that are started at the same time
  };
  // What `parts` refers to outlives it.
  [[nodiscard]] static Result<std::unique_ptr<LocalAgent>> create(Parts parts);
  // Members run on.
  ~LocalAgent() override;

  [[nodiscard]] const std::string& node() const override;
  void send(Order order, Reply reply) override;
  void listen(Listener listener) override;
  [[nodiscard]] Result<UniqueFd> open_stream(const StreamOrder& order) override;

 private:
  explicit LocalAgent(Parts parts);

  // Each does one order, on a worker's thread.
  [[nodiscard]] Result<Granted> carry_out(const GrantOrder& order);
  [[nodiscard]] Result<Released> carry_out(const ReleaseOrder& order);
  [[nodiscard]] Result<Done> carry_out(const AdoptOrder& order);
  [[nodiscard]] Result<Signalled> carry_out(const SignalOrder& order);
  [[nodiscard]] Result<Done> carry_out(const ReapOrder& order);
  [[nodiscard]] Result<Done> carry_out(const StartOrder& order);
  [[nodiscard]] Result<Found> carry_out(const FindOrder& order);
  [[nodiscard]] Result<Done> carry_out(const StopOrder& order);
  [[nodiscard]] Result<Done> carry_out(const ForgetOrder& order);
  [[nodiscard]] Result<Done> carry_out(const CheckOrder& order);
  [[nodiscard]] Result<Activity> carry_out(const ActivityOrder& order);
  [[nodiscard]] Result<Listing> carry_out(const ListOrder& order);
  [[nodiscard]] Result<OutputSizes> carry_out(const OutputSizesOrder& order);
  [[nodiscard]] Result<Document> carry_out(const ViewOrder& order);
  [[nodiscard]] Result<Document> carry_out(const WhyNotOrder& order);
  [[nodiscard]] Result<Done> carry_out(const CheckHolderOrder& order);
  [[nodiscard]] Result<Proposed> carry_out(const ProposeOrder& order);
  [[nodiscard]] Result<Done> carry_out(const ChangeOrder& order);
  [[nodiscard]] Result<Done> carry_out(const GiveBackOrder& order);
  [[nodiscard]] Result<Done> carry_out(const CordonOrder& order);

  [[nodiscard]] MachineState state() const;
  [[nodiscard]] Status check_watched() const;
  [[nodiscard]] std::vector<HeldSlices> held() const;
  [[nodiscard]] std::optional<ledger::TenantRecord> find_record(const model::MemberKey& key) const;
  [[nodiscard]] Result<TenantView> find_view(const std::string& tenant) const;

  // Tells what happens, on a thread of its own.
  void watch();
  void wake();
  void tell(News news);
  void tell_events();
  void tell_state();

  Parts parts_;
  UniqueFd bell_;
  std::mutex listener_mutex_;
  Listener listener_;              // called with the mutex held
  MachineState told_;              // of the watching thread alone
  std::uint64_t events_told_ = 0;  // likewise
  std::atomic<bool> stopping_ = false;
  Streams streams_;
  Relays relays_;
  std::unique_ptr<Workers> workers_;
  std::thread watcher_;
};

}  // namespace divvy::agent
