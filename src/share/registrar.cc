#include "share/registrar.h"

#include <sys/syscall.h>

#include "share/registrar_impl.h"

namespace divvy::share {
namespace {

// Of a tenant's processes, in a sentence.
constexpr std::size_t kMostNamed = 5;

}  // namespace

void Registrar::Impl::start() {
  {
    const std::lock_guard lock(mutex_);
    watch_keeper();
  }
  parts_.meter.start([this] { return audit(); });
  thread_ = std::thread([this] { run(); });
}

Registrar::Impl::~Impl() {
  stopping_ = true;
  reactor_.wake();
  if (thread_.joinable()) thread_.join();
  parts_.meter.stop();
  while (!tenants_.empty()) remove_locked(tenants_.begin()->first);
  reactor_.unwatch(keeper_watch_);
}

Status Registrar::Impl::add(const ledger::TenantRecord& record,
                            const std::vector<ledger::SharedGpu>& gpus, bool recovered) {
  const std::lock_guard lock(mutex_);
  LiveTenant tenant;
  tenant.record = record;
  tenant.gpus = gpus;
  tenant.peaks.resize(record.slices.size());
  tenant.driver_shares.resize(record.slices.size());
  const std::uint64_t key = record.id.value();
  Status kept;
  auto control = create_control_page([&](int fd) { kept = parts_.keeper.add(key, fd); });
  if (!control) return err(std::move(control).error());
  if (!kept) log_warning("gates will not open by themselves", {{"tenant", record.id.value()}});
  tenant.control = std::make_shared<ControlMapping>(*std::move(control));
  parts_.keeper.know(key, tenant.control->get());
  fill_control(**tenant.control, record, gpus);
  watch_keeper();

  const model::TenantId id = record.id;
  if (Status opened = open_sockets(tenant); !opened) {
    reactor_.unwatch(tenant.listener_watch);
    parts_.keeper.remove(key);
    return opened;
  }
  tenant.recovery_deadline = parts_.clock.now() + (recovered ? kRecoveryTime : Duration(0));
  parts_.arbiter.add_tenant(id, tenant.control->get(), arbiter_slices(record, gpus));
  tenants_.insert_or_assign(id, std::move(tenant));
  reactor_.wake();
  return {};
}

void Registrar::Impl::change(const ledger::TenantRecord& record) {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(record.id);
  if (found == tenants_.end()) return;
  found->second.record = record;
  write_terms(**found->second.control, record);
  parts_.arbiter.change_tenant(record.id, arbiter_slices(record, found->second.gpus));
}

void Registrar::Impl::remove(model::TenantId id) {
  const std::lock_guard lock(mutex_);
  remove_locked(id);
}

Status Registrar::Impl::remove_unused(model::TenantId id, ComeBack come_back) {
  // One lock over the look and the removal: nobody registers in between.
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return {};
  const LiveTenant& tenant = found->second;
  if (!tenant.processes.empty()) {
    std::vector<pid_t> pids;
    for (const auto& [key, process] : tenant.processes) {
      if (pids.size() < kMostNamed) pids.push_back(process.pid);
    }
    return err(
        ErrorCode::kFailedPrecondition,
        "tenant {} has {} process(es) that use its GPU (pid {}{}); end them{}", tenant.record.name,
        tenant.processes.size(), fmt::join(pids, ", "),
        tenant.processes.size() > pids.size() ? ", ..." : "",
        ledger::has_root(tenant.record) ? ", and its slice is released by itself" : " first");
  }
  if (come_back == ComeBack::kPossible && parts_.clock.now() < tenant.recovery_deadline) {
    return err(ErrorCode::kFailedPrecondition,
               "divvyd has just started and processes of tenant {} may still come back to it; try "
               "again in {} seconds",
               tenant.record.name, std::chrono::ceil<std::chrono::seconds>(kRecoveryTime).count());
  }
  remove_locked(id);
  return {};
}

void Registrar::Impl::signal(model::TenantId id, int number) {
  const std::lock_guard lock(mutex_);
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  // By descriptor: a number may be another process's by now.
  const auto send = [number](const UniqueFd& process) {
    if (process) ::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0);
  };
  send(found->second.root);
  for (const auto& [key, process] : found->second.processes) send(process.life);
}

void Registrar::Impl::reap() {
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, tenant] : tenants_) {
      if (tenant.root && !tenant.root_gone && sys::is_gone(tenant.root.get())) root_is_gone(id);
      std::vector<ProcessKey> gone;
      for (const auto& [key, process] : tenant.processes) {
        if (sys::is_gone(process.life.get())) gone.push_back(key);
      }
      for (const ProcessKey key : gone) end_process(tenant, key);
    }
  }
  report_ended();
}

void Registrar::Impl::run() {
  while (!stopping_) {
    int timeout_ms = -1;
    {
      const std::lock_guard lock(mutex_);
      timeout_ms = until_next_deadline();
    }
    const auto tokens = reactor_.wait(timeout_ms);
    {
      const std::lock_guard lock(mutex_);
      for (const sys::Reactor::Token token : tokens) reactor_.run(token);
      handle_deadlines();
    }
    report_ended();
  }
}

void Registrar::Impl::report_ended() {
  std::vector<model::TenantId> ended;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, tenant] : tenants_) {
      if (tenant.root_gone && tenant.processes.empty() && tenant.deferred.empty() &&
          parts_.clock.now() >= tenant.recovery_deadline) {
        ended.push_back(id);
      }
    }
  }
  for (const model::TenantId id : ended) parts_.ended(id);
}

int Registrar::Impl::until_next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.root_gone) next = std::min(next, tenant.recovery_deadline);
    for (const auto& waiting : tenant.deferred) next = std::min(next, waiting.until);
    for (const auto& connection : tenant.connections) {
      if (!connection->process) next = std::min(next, connection->since + kHelloTime);
    }
  }
  if (next == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - parts_.clock.now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void Registrar::Impl::handle_deadlines() {
  const TimePoint now = parts_.clock.now();
  for (auto& [id, tenant] : tenants_) {
    std::vector<std::shared_ptr<Connection>> silent;
    for (const auto& connection : tenant.connections) {
      const bool waits =
          std::ranges::find(tenant.deferred, connection, &LiveTenant::Deferred::connection) !=
          tenant.deferred.end();
      if (!connection->process && !waits && now >= connection->since + kHelloTime) {
        silent.push_back(connection);
      }
    }
    for (const auto& connection : silent) close_connection(tenant, connection);
    const bool due = std::ranges::any_of(
        tenant.deferred, [now](const auto& waiting) { return now >= waiting.until; });
    if (due) admit_deferred(tenant);
  }
}

void Registrar::Impl::watch_keeper() {
  const pid_t pid = parts_.keeper.pid();
  if (pid == keeper_pid_ && keeper_watch_ != 0) return;
  reactor_.unwatch(keeper_watch_);
  keeper_pid_ = pid;
  auto watched = reactor_.watch(parts_.keeper.watch_fd(), [this] {
    if (const Status revived = parts_.keeper.revive(); !revived) {
      log_error("no keeper", {{"reason", revived.error().message}});
      reactor_.unwatch(std::exchange(keeper_watch_, 0));
      return;
    }
    reactor_.unwatch(std::exchange(keeper_watch_, 0));
    watch_keeper();
  });
  keeper_watch_ = watched.value_or(0);
}

void Registrar::Impl::root_is_gone(model::TenantId id) {
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  found->second.root_gone = true;
  reactor_.unwatch(std::exchange(found->second.root_watch, 0));
}

void Registrar::Impl::remove_locked(model::TenantId id) {
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  LiveTenant& tenant = found->second;
  for (const auto& connection : std::exchange(tenant.connections, {})) {
    reactor_.unwatch(std::exchange(connection->watch, 0));
    connection->socket.reset();
  }
  for (const auto& [key, process] : tenant.processes) {
    if (process.lanes) parts_.arbiter.remove_process(key);
    reactor_.unwatch(process.watch);
  }
  parts_.arbiter.remove_tenant(id);
  open_all_gates(**tenant.control);
  parts_.keeper.remove(id.value());
  reactor_.unwatch(tenant.listener_watch);
  reactor_.unwatch(tenant.root_watch);
  // On the way out of the daemon the sockets stay for the next one; a stale path is replaced.
  if (!stopping_) remove_socket(tenant.record);
  tenants_.erase(found);
}

Registrar::Registrar(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Registrar::~Registrar() = default;

Result<std::unique_ptr<Registrar>> Registrar::create(Parts parts) {
  DIVVY_TRY(reactor, sys::Reactor::create());
  auto impl = std::make_unique<Impl>(std::move(parts), std::move(reactor));
  impl->start();
  return std::unique_ptr<Registrar>(new Registrar(std::move(impl)));
}

Status Registrar::add(const ledger::TenantRecord& record,
                      const std::vector<ledger::SharedGpu>& gpus, bool recovered) {
  return impl_->add(record, gpus, recovered);
}
void Registrar::change(const ledger::TenantRecord& record) { impl_->change(record); }
void Registrar::remove(model::TenantId tenant) { impl_->remove(tenant); }
Status Registrar::remove_unused(model::TenantId tenant, ComeBack come_back) {
  return impl_->remove_unused(tenant, come_back);
}
void Registrar::signal(model::TenantId tenant, int number) { impl_->signal(tenant, number); }
void Registrar::reap() { impl_->reap(); }
std::vector<TenantReport> Registrar::report() const { return impl_->report(); }
std::filesystem::path Registrar::socket_path(const ledger::TenantRecord& record) const {
  return impl_->socket_path(record);
}

}  // namespace divvy::share
