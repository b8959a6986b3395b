// Where tenants' processes register: one listening socket per tenant, and one thread that waits for
// whatever happens on the sockets and for the deaths of processes.
//
// A process says Hello, is given a slot in its tenant's account page and both pages, and is handed
// to the arbiter; when it is gone, its slot counts nothing any more at once. Whatever a process
// sends may be garbage: it is refused or disconnected, and nobody else notices.
//
// The methods may be called from any thread. The callback `ended` comes from the registrar's
// thread or from reap(), with no lock held.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "ledger/slices.h"
#include "ledger/tenant_record.h"
#include "share/account_book.h"
#include "share/arbiter.h"
#include "share/keeper.h"
#include "share/meter.h"

namespace divvy::share {

struct ProcessReport {
  pid_t pid = 0;
  std::string program;  // As it calls itself: any bytes
  std::string release;  // Of the library in it, likewise; empty: it does not tell
  bool connected = false;
};

struct SliceMemory {
  Bytes used;       // Counted by its processes, and what was found uncounted
  Bytes uncounted;  // Part of used
  Bytes peak;
  std::uint64_t refused = 0;  // Allocations that did not fit the slice
};

// What the daemon knows about a slice's use of the GPU without the gates.
struct SliceActivity {
  bool present = false;  // Some process has, or may have, a context
  // Thousandths of the last second, as the driver says. Nothing while the slice is behind gates,
  // where the arbiter knows better, and where the driver does not tell.
  std::optional<std::uint32_t> used_share;
};

struct TenantReport {
  model::TenantId tenant;
  bool root_gone = false;
  std::vector<ProcessReport> processes;
  std::vector<SliceMemory> slices;
  std::vector<SliceActivity> activity;  // By slice
};

class Registrar {
 public:
  using Ended = std::function<void(model::TenantId)>;

  struct Parts {
    std::filesystem::path socket_folder;  // Exists
    Arbiter& arbiter;
    Keeper& keeper;
    Meter& meter;  // Not started yet; the registrar starts it and stops it
    Clock& clock;
    Ended ended;
  };

  // How long processes of a recovered tenant have to come back before it counts as ended.
  static constexpr Duration kRecoveryTime = std::chrono::seconds(5);

  // Everything in `parts` outlives the registrar.
  [[nodiscard]] static Result<std::unique_ptr<Registrar>> create(Parts parts);
  ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

  // Opens the tenant's socket. `gpus` belong to the slices of the record, in order. A recovered
  // tenant may have processes that will come back with their account page.
  [[nodiscard]] Status add(const ledger::TenantRecord& record,
                           const std::vector<ledger::SharedGpu>& gpus, bool recovered);
  // New terms for the slices that it has.
  void change(const ledger::TenantRecord& record);
  // Its processes, if any are left, go on with open gates and no registration.
  void remove(model::TenantId tenant);
  // The same, unless that would leave processes on the GPU that nobody watches: none may be
  // registered, nor be about to come back after a restart of the daemon. Whoever looks after its
  // processes may know that none can.
  enum class ComeBack { kPossible, kImpossible };
  [[nodiscard]] Status remove_unused(model::TenantId tenant, ComeBack come_back);

  // To every process of the tenant that is known: the registered ones and its root.
  void signal(model::TenantId tenant, int number);

  // Notices now what the thread would notice in a moment: who is gone already.
  void reap();

  [[nodiscard]] std::vector<TenantReport> report() const;
  // Of a slice that is held by its name it is alone in its folder, which containers get.
  [[nodiscard]] std::filesystem::path socket_path(const ledger::TenantRecord& record) const;

 private:
  class Impl;
  explicit Registrar(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::share
