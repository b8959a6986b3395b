// A tenant while the daemon runs: its pages, its socket and its processes. State of the registrar,
// used only under its lock.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ledger/tenant_record.h"
#include "share/account_book.h"
#include "share/arbiter.h"
#include "share/messages.h"
#include "sys/packet_socket.h"
#include "sys/reactor.h"

namespace divvy::share {

// One connection to a tenant's socket.
struct Connection {
  UniqueFd socket;
  sys::Reactor::Token watch = 0;
  model::TenantId tenant;
  sys::Peer peer;
  std::optional<ProcessKey> process;  // Once it has said Hello
  TimePoint since;
  bool measuring = false;  // One question at a time
};

// A process that sits in the account page.
struct LiveProcess {
  ProcessKey key = 0;
  pid_t pid = 0;
  std::string program;
  std::string release;
  Seat seat;
  UniqueFd life;  // Of open_process
  sys::Reactor::Token watch = 0;
  // Both are missing for a process that was found in an adopted page and has not come back yet.
  std::optional<LanesMapping> lanes;
  std::shared_ptr<Connection> connection;
};

struct LiveTenant {
  ledger::TenantRecord record;
  std::vector<ledger::SharedGpu> gpus;  // By slice
  std::shared_ptr<ControlMapping> control;
  std::optional<AccountBook> account;  // Made for the first process
  UniqueFd listener;
  sys::Reactor::Token listener_watch = 0;
  UniqueFd root;  // None when it was gone at the start
  sys::Reactor::Token root_watch = 0;
  bool root_gone = false;
  // Until then, a recovered tenant's processes may come back.
  TimePoint recovery_deadline;

  std::map<ProcessKey, LiveProcess> processes;
  std::vector<std::shared_ptr<Connection>> connections;
  // A new process of a recovered tenant waits here until an older one has brought the account page.
  struct Deferred {
    std::shared_ptr<Connection> connection;
    HelloMessage hello;
    std::vector<UniqueFd> fds;
    TimePoint until;
  };
  std::vector<Deferred> deferred;
  std::vector<Bytes> peaks;  // By slice: the largest sum that was seen
  // By slice: allocations that were refused to processes that are gone.
  std::array<std::uint64_t, wire::kMaxGpus> refused_before{};
  // By slice, from the last audit; see SliceActivity.
  std::vector<std::optional<std::uint32_t>> driver_shares;

  [[nodiscard]] CountedMemory counted(int slice) const;
  [[nodiscard]] Bytes uncounted(int slice) const;
  // The process is about to give up its seat; what it counted up for good stays counted.
  void remember(const LiveProcess& process);
  LiveProcess* find_pid(pid_t pid);
  LiveProcess* find_seat(Seat seat);
  [[nodiscard]] bool has_context() const;
  [[nodiscard]] bool has_context(int slice) const;
  // Does the arbiter see what the slice does?
  [[nodiscard]] bool behind_gates(int slice) const;
};

// Writes the whole page for a tenant that begins: all gates open.
void fill_control(wire::ControlPage& page, const ledger::TenantRecord& record,
                  const std::vector<ledger::SharedGpu>& gpus);
// Only what can change while it runs: limits, shares, class.
void write_terms(wire::ControlPage& page, const ledger::TenantRecord& record);

[[nodiscard]] std::vector<Arbiter::Slice> arbiter_slices(
    const ledger::TenantRecord& record, const std::vector<ledger::SharedGpu>& gpus);

}  // namespace divvy::share
