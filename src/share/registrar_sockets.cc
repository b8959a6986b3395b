// Connections to tenants' sockets, and who is let in through them.
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "share/registrar_impl.h"

namespace divvy::share {
namespace {

// A process that has replaced itself by exec has lost its pages and what it held on the GPU, though
// its number lives on. Where we may not look it counts as the same.
bool still_has_lanes(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  if (!maps) return true;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("divvy-lanes") != std::string::npos) return true;
  }
  return false;
}

// Of the folders of a slice that is held by its name.
constexpr const char* kInnerFolder = "in";
constexpr const char* kHeldSocket = "divvy.sock";

// A folder that is there stays: running containers have it. It is the daemon's own, never the
// tenant's, who could put a link in place of what is in it.
Status make_folder(const std::filesystem::path& folder, mode_t mode) {
  const bool made = ::mkdir(folder.c_str(), mode) == 0 || errno == EEXIST;
  if (made && ::chmod(folder.c_str(), mode) == 0) return {};
  return err(ErrorCode::kIo, "the folder {} could not be made: {}", folder.string(),
             std::strerror(errno));
}

// Users of a container have other numbers than outside of it, so a slice that is held by its name
// cannot tell them. It lets everybody in who was given its inner folder; the outer one is closed to
// all but the daemon's user. The slice of somebody else than that user goes by the number.
bool admits_any_user(const ledger::TenantRecord& record) {
  return !ledger::has_root(record) && record.uid == ::geteuid();
}

bool is_welcome(const ledger::TenantRecord& record, const sys::Peer& peer) {
  return admits_any_user(record) || peer.uid == record.uid || peer.uid == 0;
}

}  // namespace

std::filesystem::path Registrar::Impl::socket_path(const ledger::TenantRecord& record) const {
  const std::string id = fmt::format("{}", record.id);
  if (ledger::has_root(record)) return parts_.socket_folder / (id + ".sock");
  return parts_.socket_folder / id / kInnerFolder / kHeldSocket;
}

Result<UniqueFd> Registrar::Impl::listen_at(const ledger::TenantRecord& record) const {
  const std::filesystem::path path = socket_path(record);
  if (ledger::has_root(record)) return sys::listen_for_packets(path, record.uid, record.gid, 0600);
  const bool any_user = admits_any_user(record);
  DIVVY_RETURN_IF_ERROR(make_folder(path.parent_path().parent_path(), any_user ? 0700 : 0711));
  DIVVY_RETURN_IF_ERROR(make_folder(path.parent_path(), 0755));
  return sys::listen_for_packets(path, record.uid, record.gid, any_user ? 0666 : 0600);
}

void Registrar::Impl::remove_socket(const ledger::TenantRecord& record) const {
  const std::filesystem::path path = socket_path(record);
  ::unlink(path.c_str());
  if (ledger::has_root(record)) return;
  ::rmdir(path.parent_path().c_str());
  ::rmdir(path.parent_path().parent_path().c_str());
}

Status Registrar::Impl::open_sockets(LiveTenant& tenant) {
  const ledger::TenantRecord& record = tenant.record;
  const model::TenantId id = record.id;
  DIVVY_TRY(listener, listen_at(record));
  tenant.listener = std::move(listener);
  DIVVY_TRY(listening,
            reactor_.watch(tenant.listener.get(), [this, id] { accept_connections(id); }));
  tenant.listener_watch = listening;
  if (!ledger::has_root(record)) return {};
  auto root = sys::open_process(record.root);
  tenant.root_gone = !root;
  if (!root) return {};
  tenant.root = *std::move(root);
  DIVVY_TRY(watched, reactor_.watch(tenant.root.get(), [this, id] { root_is_gone(id); }));
  tenant.root_watch = watched;
  return {};
}

void Registrar::Impl::accept_connections(model::TenantId id) {
  const auto found = tenants_.find(id);
  if (found == tenants_.end()) return;
  LiveTenant& tenant = found->second;
  for (int round = 0; round < kMessagesPerRound; ++round) {
    UniqueFd socket(
        ::accept4(tenant.listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == EMFILE || errno == ENFILE)) {
      // Out of descriptors: the spare one takes the caller in and turns it away, or the listener
      // would stay readable and keep us busy.
      spare_.reset();
      UniqueFd turned_away(::accept4(tenant.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      turned_away.reset();
      spare_ = open_spare();
      log_warning("out of file descriptors", {{"tenant", id.value()}});
      return;
    }
    if (!socket) return;
    if (tenant.connections.size() >= kMaxConnections) {
      (void)sys::send_message(socket.get(), refusal(wire::Refusal::kTooManyProcesses,
                                                    "the tenant has too many connections"));
      continue;
    }
    auto peer = sys::peer_of(socket.get());
    if (!peer || !is_welcome(tenant.record, *peer)) continue;
    auto connection = std::make_shared<Connection>();
    connection->socket = std::move(socket);
    connection->tenant = id;
    connection->peer = *peer;
    connection->since = parts_.clock.now();
    // The reactor must not own the connection: it would never go.
    const std::weak_ptr<Connection> weak = connection;
    auto watched = reactor_.watch(connection->socket.get(), [this, weak] {
      if (const auto strong = weak.lock()) read_from(strong);
    });
    if (!watched) continue;
    connection->watch = *watched;
    tenant.connections.push_back(std::move(connection));
  }
}

void Registrar::Impl::read_from(const std::shared_ptr<Connection>& connection) {
  const auto found = tenants_.find(connection->tenant);
  if (found == tenants_.end()) return;
  LiveTenant& tenant = found->second;
  for (int round = 0; round < kMessagesPerRound && connection->socket; ++round) {
    sys::Packet packet = sys::receive_packet(connection->socket.get());
    if (packet.outcome == sys::Packet::Outcome::kNothingYet) return;
    if (packet.outcome == sys::Packet::Outcome::kClosed) {
      close_connection(tenant, connection);
      return;
    }
    const auto message = packet.complete ? parse_message(packet.bytes) : std::optional<Message>();
    if (!message) {
      refuse(tenant, connection, wire::Refusal::kMalformed, "the message makes no sense");
      return;
    }
    if (const auto* hello = std::get_if<HelloMessage>(&*message)) {
      greet(tenant, connection, *hello, std::move(packet.fds));
    } else if (const auto* measure = std::get_if<MeasureMessage>(&*message)) {
      answer_measure(tenant, connection, *measure);
    } else if (connection->process) {
      parts_.arbiter.doorbell();
    }
  }
}

void Registrar::Impl::refuse(LiveTenant& tenant, const std::shared_ptr<Connection>& connection,
                             wire::Refusal why, std::string_view reason) {
  log_warning(
      "process refused",
      {{"tenant", tenant.record.id.value()}, {"pid", connection->peer.pid}, {"reason", reason}});
  (void)sys::send_message(connection->socket.get(), refusal(why, reason));
  close_connection(tenant, connection);
}

void Registrar::Impl::close_connection(LiveTenant& tenant,
                                       const std::shared_ptr<Connection>& connection) {
  reactor_.unwatch(std::exchange(connection->watch, 0));
  connection->socket.reset();
  std::erase(tenant.connections, connection);
  std::erase_if(tenant.deferred,
                [&](const auto& waiting) { return waiting.connection == connection; });
  if (!connection->process) return;
  const auto process = tenant.processes.find(*connection->process);
  if (process == tenant.processes.end() || process->second.connection != connection) return;
  process->second.connection.reset();
  if (sys::is_gone(process->second.life.get()) || !still_has_lanes(process->second.pid)) {
    end_process(tenant, process->first);
  }
}

void Registrar::Impl::greet(LiveTenant& tenant, const std::shared_ptr<Connection>& connection,
                            const HelloMessage& hello, std::vector<UniqueFd> fds) {
  if (!speaks(hello.version)) {
    const bool older = hello.version < wire::kOldestWireVersion;
    refuse(
        tenant, connection, wire::Refusal::kVersion,
        fmt::format("this divvyd speaks versions {} to {} and the library in the process version "
                    "{}; {}",
                    wire::kOldestWireVersion, wire::kWireVersion, hello.version,
                    older ? "start the program anew" : "upgrade divvyd"));
    return;
  }
  const bool returns = hello.generation != 0;
  if (connection->process || fds.size() != (returns ? 2U : 1U)) {
    refuse(tenant, connection, wire::Refusal::kMalformed,
           "a Hello comes once, with one page or two");
    return;
  }
  if (connection->peer.pid <= 0) {
    refuse(tenant, connection, wire::Refusal::kMalformed,
           "the process is in a pid namespace that divvyd cannot see into");
    return;
  }
  if (!returns && !tenant.account && parts_.clock.now() < tenant.recovery_deadline) {
    // Somebody may be about to bring the tenant's account page.
    const auto until = std::min(parts_.clock.now() + kDeferTime, tenant.recovery_deadline);
    tenant.deferred.push_back({connection, hello, std::move(fds), until});
    return;
  }
  const Status admitted = admit(tenant, connection, hello, std::move(fds));
  if (!admitted) {
    const bool full = admitted.error().code == ErrorCode::kResourceExhausted;
    refuse(tenant, connection, full ? wire::Refusal::kTooManyProcesses : wire::Refusal::kMalformed,
           admitted.error().message);
  }
}

void Registrar::Impl::admit_deferred(LiveTenant& tenant) {
  for (auto& waiting : std::exchange(tenant.deferred, {})) {
    const Status admitted =
        admit(tenant, waiting.connection, waiting.hello, std::move(waiting.fds));
    if (!admitted) {
      refuse(tenant, waiting.connection, wire::Refusal::kMalformed, admitted.error().message);
    }
  }
}

Status Registrar::Impl::admit(LiveTenant& tenant, const std::shared_ptr<Connection>& connection,
                              const HelloMessage& hello, std::vector<UniqueFd> fds) {
  const pid_t pid = connection->peer.pid;
  DIVVY_TRY(lanes, map_lanes_page(std::move(fds[0])));
  DIVVY_TRY(life, sys::open_process(pid));
  const bool returns = hello.generation != 0;
  LiveProcess* before = nullptr;
  if (returns) {
    DIVVY_RETURN_IF_ERROR(recognise_account(tenant, std::move(fds[1])));
    const Seat seat{hello.slot, hello.generation};
    before = tenant.find_seat(seat);
    if (before == nullptr || before->pid != pid) {
      return err(ErrorCode::kInvalidArgument, "slot {} of the account page is not yours",
                 hello.slot);
    }
  } else if (LiveProcess* same = tenant.find_pid(pid)) {
    // It has replaced itself by exec, or its number was given to another one.
    end_process(tenant, same->key);
  }

  if (!tenant.account) {
    DIVVY_TRY(book, AccountBook::create());
    tenant.account = std::move(book);
  }
  if (before == nullptr) {
    const auto seat = tenant.account->take(pid);
    if (!seat) {
      return err(ErrorCode::kResourceExhausted,
                 "the tenant has {} processes on its GPUs already, which is the most",
                 wire::kMaxProcesses);
    }
    auto added = add_process(tenant, pid, *seat, std::move(life));
    if (!added) {
      tenant.account->give_up(*seat);
      return err(std::move(added).error());
    }
    before = *added;
  } else if (before->connection) {
    close_connection_of(tenant, *before);
  }

  LiveProcess& process = *before;
  if (process.lanes) parts_.arbiter.remove_process(process.key);
  process.lanes = std::move(lanes);
  process.program = hello.program;
  process.release = hello.release;
  process.connection = connection;
  connection->process = process.key;
  parts_.arbiter.add_process(tenant.record.id, process.key, process.lanes->get());
  const int pages[] = {tenant.control->fd(), (*tenant.account->mapping()).fd()};
  const auto answer = welcome(hello.version, process.seat.slot, process.seat.generation);
  if (!sys::send_message(connection->socket.get(), answer, pages)) {
    close_connection(tenant, connection);
  }
  log_info("process registered", {{"tenant", tenant.record.id.value()},
                                  {"pid", pid},
                                  {"slot", process.seat.slot},
                                  {"returned", returns},
                                  {"version", hello.version}});
  return {};
}

void Registrar::Impl::close_connection_of(LiveTenant& tenant, LiveProcess& process) {
  const auto old = std::exchange(process.connection, nullptr);
  old->process.reset();
  close_connection(tenant, old);
}

Status Registrar::Impl::recognise_account(LiveTenant& tenant, UniqueFd fd) {
  if (tenant.account) {
    if (same_page(fd.get(), tenant.account->mapping()->fd())) return {};
    return err(ErrorCode::kInvalidArgument, "the account page is not this tenant's");
  }
  if (parts_.clock.now() >= tenant.recovery_deadline) {
    return err(ErrorCode::kInvalidArgument, "the tenant has no account page to come back to");
  }
  DIVVY_TRY(page, map_account_page(std::move(fd)));
  tenant.account = AccountBook::adopt(std::move(page));
  for (const AccountBook::Claim& claim : tenant.account->claims()) {
    // The page is the tenant's own word: it can only claim processes of its own user, or where
    // users are mapped (containers), such as really have the page.
    auto life = sys::open_process(claim.pid);
    const bool is_theirs =
        life && tenant.find_pid(claim.pid) == nullptr &&
        (ledger::has_root(tenant.record) ? sys::owner_of(claim.pid) == tenant.record.uid
                                         : has_mapped(claim.pid, tenant.account->mapping()->fd()));
    if (!is_theirs || !add_process(tenant, claim.pid, claim.seat, std::move(life).value())) {
      tenant.account->give_up(claim.seat);
    }
  }
  admit_deferred(tenant);
  return {};
}

Result<LiveProcess*> Registrar::Impl::add_process(LiveTenant& tenant, pid_t pid, Seat seat,
                                                  UniqueFd life) {
  LiveProcess process;
  process.key = ++last_process_;
  process.pid = pid;
  process.seat = seat;
  process.life = std::move(life);
  const model::TenantId id = tenant.record.id;
  DIVVY_TRY(watched, reactor_.watch(process.life.get(), [this, id, key = process.key] {
    const auto found = tenants_.find(id);
    if (found != tenants_.end()) end_process(found->second, key);
  }));
  process.watch = watched;
  const ProcessKey key = process.key;
  return &tenant.processes.emplace(key, std::move(process)).first->second;
}

void Registrar::Impl::end_process(LiveTenant& tenant, ProcessKey key) {
  const auto found = tenant.processes.find(key);
  if (found == tenant.processes.end()) return;
  remember_peaks(tenant);
  LiveProcess process = std::move(found->second);
  tenant.processes.erase(found);
  if (process.lanes) parts_.arbiter.remove_process(key);
  tenant.remember(process);
  if (tenant.account) tenant.account->give_up(process.seat);
  reactor_.unwatch(process.watch);
  if (process.connection) {
    process.connection->process.reset();
    close_connection(tenant, process.connection);
  }
  // What was found uncounted may have been its; the next audit says what is left.
  if (tenant.processes.empty()) {
    for (wire::ControlGpu& gpu : (*tenant.control)->gpu) gpu.uncounted_bytes.store(0);
  } else {
    parts_.meter.wake();
  }
  log_info("process gone", {{"tenant", tenant.record.id.value()}, {"pid", process.pid}});
}

}  // namespace divvy::share
