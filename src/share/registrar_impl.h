// The registrar's inside, shared by its three sources: the thread (registrar.cc), sockets and
// registration (registrar_sockets.cc), memory (registrar_memory.cc). Private members need mutex_
// unless they say otherwise.
#pragma once

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "base/log.h"
#include "share/live_tenant.h"
#include "share/registrar.h"

namespace divvy::share {

// More connections than processes may register, so that one that is refused hears why.
constexpr std::size_t kMaxConnections = wire::kMaxProcesses + 32;
// How long a connection may say nothing.
constexpr Duration kHelloTime = std::chrono::seconds(10);
// Shorter than a new process waits for its answer.
constexpr Duration kDeferTime = std::chrono::milliseconds(1500);
// Per connection and round, so that a chatterer does not keep the others waiting.
constexpr int kMessagesPerRound = 16;

class Registrar::Impl {
 public:
  explicit Impl(Parts parts, sys::Reactor reactor)
      : parts_(std::move(parts)), reactor_(std::move(reactor)), spare_(open_spare()) {}

  void start();

  ~Impl();

  Status add(const ledger::TenantRecord& record, const std::vector<ledger::SharedGpu>& gpus,
             bool recovered);

  void change(const ledger::TenantRecord& record);

  void remove(model::TenantId id);
  Status remove_unused(model::TenantId id, ComeBack come_back);

  void signal(model::TenantId id, int number);

  void reap();

  std::vector<TenantReport> report() const;

  std::filesystem::path socket_path(const ledger::TenantRecord& record) const;

 private:
  static UniqueFd open_spare() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  // --- The thread ---

  void run();

  // Tells of tenants that have come to their end, with no lock held.
  void report_ended();

  int until_next_deadline() const;

  void handle_deadlines();

  void watch_keeper();

  // --- Connections ---

  Status open_sockets(LiveTenant& tenant);
  Result<UniqueFd> listen_at(const ledger::TenantRecord& record) const;
  void remove_socket(const ledger::TenantRecord& record) const;

  void accept_connections(model::TenantId id);

  void read_from(const std::shared_ptr<Connection>& connection);

  void refuse(LiveTenant& tenant, const std::shared_ptr<Connection>& connection, wire::Refusal why,
              std::string_view reason);

  // A process whose connection closes stays registered while it lives: what it holds on the GPU is
  // still there. It may come back with its slot.
  void close_connection(LiveTenant& tenant, const std::shared_ptr<Connection>& connection);

  // --- Registration ---

  void greet(LiveTenant& tenant, const std::shared_ptr<Connection>& connection,
             const HelloMessage& hello, std::vector<UniqueFd> fds);

  void admit_deferred(LiveTenant& tenant);

  Status admit(LiveTenant& tenant, const std::shared_ptr<Connection>& connection,
               const HelloMessage& hello, std::vector<UniqueFd> fds);

  // The connection was replaced by a newer one of the same process.
  void close_connection_of(LiveTenant& tenant, LiveProcess& process);

  // The page that a process brings back is the tenant's, or becomes it after a restart.
  Status recognise_account(LiveTenant& tenant, UniqueFd fd);

  Result<LiveProcess*> add_process(LiveTenant& tenant, pid_t pid, Seat seat, UniqueFd life);

  void end_process(LiveTenant& tenant, ProcessKey key);

  void root_is_gone(model::TenantId id);

  void remove_locked(model::TenantId id);

  // --- Measuring ---

  void answer_measure(LiveTenant& tenant, const std::shared_ptr<Connection>& connection,
                      const MeasureMessage& question);

  static void send_measured(const std::shared_ptr<Connection>& connection,
                            const MeasureMessage& question, std::optional<Bytes> bytes);

  void remember_peaks(LiveTenant& tenant);

  // Keeps what the driver says about a slice whose work does not pass gates.
  static void note_activity(LiveTenant& tenant, int slice,
                            const std::optional<Meter::BusyByProcess>& busy);

  // Compares what the driver holds for each process with what the process counts. On the meter's
  // thread; the driver is asked without the lock.
  bool audit();

  Parts parts_;
  mutable std::mutex mutex_;
  sys::Reactor reactor_;  // wait() and wake() without mutex_, everything else under it
  std::map<model::TenantId, LiveTenant> tenants_;
  ProcessKey last_process_ = 0;
  UniqueFd spare_;
  sys::Reactor::Token keeper_watch_ = 0;
  pid_t keeper_pid_ = -1;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace divvy::share
