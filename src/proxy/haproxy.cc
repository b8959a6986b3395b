#include "proxy/haproxy.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "base/unix_address.h"
#include "proxy/haproxy_config.h"
#include "proxy/program.h"
#include "sys/durable_file.h"
#include "sys/process.h"

namespace divvy::proxy {
namespace {

using namespace std::chrono_literals;

// In the folder. What haproxy makes itself is in `own`, which only it and we get into.
constexpr const char* kConfig = "haproxy.cfg";
constexpr const char* kSites = "sites";  // what the running one was configured for
constexpr const char* kScript = "wait.lua";
constexpr const char* kLog = "haproxy.log";
constexpr const char* kControl = "own/control.sock";
constexpr const char* kMaster = "own/master.sock";
constexpr const char* kPid = "own/haproxy.pid";
constexpr const char* kUser = "haproxy";
// HAProxy binds its sockets under a longer name first.
constexpr std::size_t kLongestSocket = 90;
constexpr std::size_t kMostAnswer = std::size_t{16} << 20;
constexpr auto kPatience = 10s;
constexpr std::uint32_t kMostThreads = 4;
// Of replicas: below those of gangs and those that the kernel hands out.
constexpr std::uint16_t kLowestPort = 10'000;
constexpr std::uint32_t kPorts = 10'000;
constexpr std::uint32_t kPortStep = 1'009;  // prime: a port is not given again soon

// kNotFound: nobody listens there.
Result<std::string> ask(const std::filesystem::path& socket, const std::string& question) {
  DIVVY_TRY(address, unix_address(socket));
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{std::chrono::seconds(kPatience).count(), 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto silent = [&] {
    const bool nobody = errno == ENOENT || errno == ECONNREFUSED;
    return err(nobody ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
               "haproxy does not answer: {}", std::strerror(errno));
  };
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return silent();
  }
  std::string_view left = question;
  while (!left.empty()) {
    const ssize_t sent = ::send(fd.get(), left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return silent();
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  // Otherwise the master waits for more.
  ::shutdown(fd.get(), SHUT_WR);
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return silent();
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMostAnswer) {
      return err(ErrorCode::kUnavailable, "haproxy does not come to an end");
    }
  }
}

// Somebody else listens there, or we may not.
Status check_free(const std::string& address, std::uint16_t port) {
  const bool six = address.find(':') != std::string::npos;
  const UniqueFd fd(::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int bound = 0;
  if (six) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(port);
    to.sin6_addr = in6addr_any;
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  } else {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = address.starts_with("127.") ? htonl(INADDR_LOOPBACK) : htonl(INADDR_ANY);
    bound = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  if (bound == 0 && ::listen(fd.get(), 1) == 0) return {};
  if (errno == EADDRINUSE) {
    return err(ErrorCode::kFailedPrecondition, "port {} is taken by another program", port);
  }
  return err(ErrorCode::kFailedPrecondition, "port {} cannot be used: {}", port,
             std::strerror(errno));
}

// One that is there stays as it is.
Status make_folder(const std::filesystem::path& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0) {
    if (errno == EEXIST) return {};
    return err(ErrorCode::kIo, "{} could not be made: {}", path.string(), std::strerror(errno));
  }
  // Whatever the mask of modes leaves.
  if (::chmod(path.c_str(), mode) == 0) return {};
  return err(ErrorCode::kIo, "{} keeps its rights: {}", path.string(), std::strerror(errno));
}

Status write_file(const std::filesystem::path& folder, const char* name, std::string_view text) {
  DIVVY_TRY(fd, sys::open_folder(folder.string()));
  DIVVY_RETURN_IF_ERROR(sys::write_whole(fd.get(), name, text));
  // No secret in it, and haproxy reads it as another user.
  if (::fchmodat(fd.get(), name, 0644, 0) != 0) {
    return err(ErrorCode::kIo, "{} keeps its rights: {}", (folder / name).string(),
               std::strerror(errno));
  }
  return {};
}

std::string read_text(const std::filesystem::path& folder, const char* name) {
  const auto fd = sys::open_folder(folder.string());
  if (!fd) return {};
  auto text = sys::read_file(fd->get(), name, kMostAnswer);
  return text ? *std::move(text) : std::string();
}

std::vector<Site> without_servers(std::vector<Site> sites) {
  for (Site& site : sites) site.servers.clear();
  return sites;
}

// Every line of an answer to commands that say nothing when all is well.
void tell_trouble(const std::string& command, const std::string& answer) {
  constexpr std::string_view kGood[] = {"New server registered.", "Server deleted."};
  for (const std::string_view line : split(answer, '\n')) {
    const std::string_view text = trim(line);
    if (text.empty() || std::ranges::find(kGood, text) != std::end(kGood)) continue;
    log_debug("haproxy", {{"command", command}, {"said", escape_for_terminal(text)}});
  }
}

}  // namespace

Haproxy::Haproxy(Options options)
    : options_(std::move(options)), next_port_(static_cast<std::uint32_t>(::getpid()) % kPorts) {}

Status Haproxy::usable() {
  if (find_program("haproxy").empty()) {
    return err(ErrorCode::kUnsupported,
               "services need haproxy, which is not on this machine: install it (apt-get install "
               "haproxy; Divvy starts it itself) and try again");
  }
  if (file(kControl).native().size() > kLongestSocket) {
    return err(ErrorCode::kUnsupported,
               "the path {} is too long for a socket of haproxy; choose a shorter run folder",
               file(kControl).string());
  }
  return {};
}

Status Haproxy::check_port(std::uint16_t port) { return check_free(options_.address, port); }

Result<std::uint16_t> Haproxy::free_port(const std::set<std::uint16_t>& taken) {
  for (std::uint32_t i = 0; i < kPorts; ++i) {
    next_port_ = (next_port_ + kPortStep) % kPorts;
    const auto port = static_cast<std::uint16_t>(kLowestPort + next_port_);
    // A replica may listen on all addresses.
    if (!taken.contains(port) && check_free("*", port)) return port;
  }
  return err(ErrorCode::kResourceExhausted, "no port from {} to {} is free for a replica",
             kLowestPort, kLowestPort + kPorts - 1);
}

Status Haproxy::prepare_folder() {
  const bool root = ::geteuid() == 0;
  const passwd* user = root ? ::getpwnam(kUser) : nullptr;
  if (root && user == nullptr) {
    return err(ErrorCode::kFailedPrecondition,
               "there is no user {}, as whom haproxy is to run; the package haproxy makes it",
               kUser);
  }
  DIVVY_RETURN_IF_ERROR(make_folder(options_.folder, root ? 0711 : 0700));
  const std::filesystem::path own = options_.folder / "own";
  // For haproxy and for our group: root's daemon does not get past the rights of folders. Nobody
  // else gets to the sockets in it, whose own rights do not matter.
  DIVVY_RETURN_IF_ERROR(make_folder(own, root ? 0770 : 0700));
  as_whom_.clear();
  if (!root) return {};
  if (::lchown(own.c_str(), user->pw_uid, ::getegid()) != 0) {
    return err(ErrorCode::kIo, "{} could not be given to {}: {}", own.string(), kUser,
               std::strerror(errno));
  }
  const auto setpriv = find_program("setpriv");
  if (setpriv.empty()) {
    return err(ErrorCode::kUnsupported, "setpriv (package util-linux) is not on this machine");
  }
  user_ = user->pw_uid;
  as_whom_ = {setpriv.string(),
              fmt::format("--reuid={}", user->pw_uid),
              fmt::format("--regid={}", user->pw_gid),
              "--clear-groups",
              "--no-new-privs",
              "--"};
  return {};
}

Result<std::string> Haproxy::ask_worker(const std::string& question) const {
  return ask(file(kControl), question + "\n");
}

Result<std::string> Haproxy::ask_master(const std::string& question) const {
  return ask(file(kMaster), question + "\n");
}

Result<Processes> Haproxy::processes() const {
  DIVVY_TRY(text, ask_master("show proc"));
  return read_processes(text);
}

Status Haproxy::check_config(const std::string& config) {
  DIVVY_RETURN_IF_ERROR(write_file(options_.folder, kConfig, config));
  std::vector<std::string> words = as_whom_;
  const auto program = find_program("haproxy");
  for (const std::string& word :
       {program.string(), std::string("-c"), std::string("-f"), file(kConfig).string()}) {
    words.push_back(word);
  }
  return with_context(run_program(std::move(words), file(kLog), kPatience),
                      "the configuration of haproxy is not valid, which is a mistake in Divvy");
}

std::optional<pid_t> Haproxy::living_master() const {
  std::ifstream number(file(kPid));
  pid_t pid = 0;
  if (!(number >> pid) || pid <= 1) return {};
  // One that has ended is no obstacle, whether or not its parent has waited for it.
  const auto life = sys::open_process(pid);
  if (!life || sys::is_gone(life->get())) return {};
  std::ifstream name(fmt::format("/proc/{}/comm", pid));
  std::string text;
  const bool is_ours = std::getline(name, text) && text == "haproxy" &&
                       sys::owner_of(pid) == (as_whom_.empty() ? ::geteuid() : user_);
  return is_ours ? std::optional(pid) : std::nullopt;
}

Status Haproxy::start(const std::string& config) {
  // Two of them could listen at the same port.
  if (living_master()) return err(ErrorCode::kUnavailable, "haproxy runs and does not answer");
  DIVVY_RETURN_IF_ERROR(check_config(config));
  ::unlink(file(kMaster).c_str());
  ::unlink(file(kControl).c_str());
  std::vector<std::string> words = as_whom_;
  const auto program = find_program("haproxy");
  for (const std::string& word :
       {program.string(), std::string("-W"), std::string("-D"), std::string("-p"),
        file(kPid).string(), std::string("-S"), file(kMaster).string() + ",mode,666",
        std::string("-f"), file(kConfig).string()}) {
    words.push_back(word);
  }
  DIVVY_RETURN_IF_ERROR(run_program(std::move(words), file(kLog), kPatience));
  DIVVY_RETURN_IF_ERROR(await_worker(0));
  log_info("haproxy started for services", {{"folder", options_.folder.string()}});
  return {};
}

// It says nothing when it is done, and may not answer meanwhile.
Status Haproxy::await_worker(pid_t before) const {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < until) {
    const auto now = processes();
    if (now && now->worker > 0 && now->worker != before) return {};
    std::this_thread::sleep_for(20ms);
  }
  return err(ErrorCode::kUnavailable, "haproxy did not take its configuration in time");
}

Status Haproxy::reload(const std::string& config, const Processes& before) {
  DIVVY_RETURN_IF_ERROR(check_config(config));
  DIVVY_TRY(said, ask_master("reload"));
  static_cast<void>(said);
  return await_worker(before.worker);
}

Status Haproxy::stop() {
  if (::access(file(kPid).c_str(), F_OK) != 0) return {};
  DIVVY_RETURN_IF_ERROR(prepare_folder());
  const auto master = living_master();
  // It ends with its last connection, and another one may be there before.
  if (master) ::kill(*master, SIGUSR1);
  ::unlink(file(kSites).c_str());
  ::unlink(file(kPid).c_str());
  log_info("haproxy ends: there are no services");
  return {};
}

Status Haproxy::has_sites(const std::vector<Site>& sites) const {
  DIVVY_TRY(text, ask_worker("show stat"));
  DIVVY_TRY(lines, read_stat(text));
  std::set<std::string> wanted;
  for (const Site& site : sites) wanted.insert(frontend_name(site));
  std::size_t found = 0;
  for (const StatLine& line : lines) {
    if (line.server == "FRONTEND" && wanted.contains(line.proxy)) ++found;
  }
  if (found == wanted.size()) return {};
  return err(ErrorCode::kUnavailable, "haproxy does not have all services yet");
}

Result<Troubles> Haproxy::apply(const std::vector<Site>& sites) {
  Troubles troubles;
  if (sites.empty()) {
    DIVVY_RETURN_IF_ERROR(stop());
    return troubles;
  }
  DIVVY_RETURN_IF_ERROR(usable());
  DIVVY_RETURN_IF_ERROR(prepare_folder());
  const auto running = processes();
  std::set<std::string> there;  // frontends that it has
  if (running) {
    // Without its word the ports at which it listens would be taken for those of other programs,
    // and all services be given up.
    DIVVY_TRY(text, ask_worker("show stat"));
    DIVVY_TRY(lines, read_stat(text));
    for (const StatLine& line : lines) {
      if (line.server == "FRONTEND") there.insert(line.proxy);
    }
  }
  std::vector<Site> possible;
  for (const Site& site : sites) {
    if (!there.contains(frontend_name(site))) {
      if (const Status free = check_free(options_.address, site.port); !free) {
        troubles[site.name] = free.error().message;
        continue;
      }
    }
    possible.push_back(site);
  }
  const ConfigPlaces places{
      .control = file(kControl),
      .script = file(kScript),
      .address = options_.address,
      .threads = std::clamp<std::uint32_t>(std::thread::hardware_concurrency(), 1, kMostThreads)};
  DIVVY_TRY(structure, write_config(places, without_servers(possible)));
  if (!running || structure != read_text(options_.folder, kSites)) {
    DIVVY_TRY(config, write_config(places, possible));
    DIVVY_RETURN_IF_ERROR(write_file(options_.folder, kScript, wait_script()));
    DIVVY_RETURN_IF_ERROR(running ? reload(config, *running) : start(config));
    DIVVY_RETURN_IF_ERROR(has_sites(possible));
    DIVVY_RETURN_IF_ERROR(write_file(options_.folder, kSites, structure));
  }
  DIVVY_RETURN_IF_ERROR(adjust(possible));
  return troubles;
}

Status Haproxy::adjust(const std::vector<Site>& sites) const {
  DIVVY_TRY(text, ask_worker("show servers state"));
  DIVVY_TRY(states, read_servers_state(text));
  std::vector<std::string> commands;
  for (const Site& site : sites) {
    const std::string backend = backend_name(site.name);
    std::set<std::string> wanted;
    for (const Server& server : site.servers) {
      wanted.insert(server.name);
      const std::string name = backend + "/" + server.name;
      auto state = std::ranges::find_if(states, [&](const ServerState& one) {
        return one.proxy == backend && one.server == server.name;
      });
      if (state == states.end()) {
        // Drained, which it leaves when it was seen to be ready: one that comes up otherwise is
        // taken for healthy until its first check.
        commands.push_back(fmt::format("add server {} 127.0.0.1:{} weight 256 {}", name,
                                       server.port, check_words()));
        commands.push_back(fmt::format("enable health {}", name));
        commands.push_back(fmt::format("set server {} state drain", name));
        if (server.weight == 0) continue;
      }
      const bool asked = state != states.end() && !state->drained && !state->maintained;
      if (server.weight > 0 && (!asked || state->weight != server.weight)) {
        commands.push_back(fmt::format("set server {} weight {}", name, server.weight));
      }
      if (server.weight > 0 && !asked) {
        commands.push_back(fmt::format("set server {} state ready", name));
      } else if (server.weight == 0 && asked) {
        commands.push_back(fmt::format("set server {} state drain", name));
      }
    }
    for (const ServerState& state : states) {
      if (state.proxy != backend || wanted.contains(state.server)) continue;
      if (state.server == own_server_name()) continue;
      const std::string name = backend + "/" + state.server;
      commands.push_back(fmt::format("set server {} state maint", name));
      // Refused while it has a connection; then the next look tries again.
      commands.push_back(fmt::format("del server {}", name));
    }
  }
  for (const std::string& command : commands) {
    DIVVY_TRY(said, ask_worker(command));
    tell_trouble(command, said);
  }
  return {};
}

Result<Report> Haproxy::report() {
  const auto running = processes();
  // Where there is no process, there are no requests: nobody has to wait for them.
  if (!running && running.error().code == ErrorCode::kNotFound) return Report();
  if (!running) return err(running.error());
  DIVVY_TRY(state_text, ask_worker("show servers state"));
  DIVVY_TRY(states, read_servers_state(state_text));
  DIVVY_TRY(text, ask_worker("show stat"));
  DIVVY_TRY(lines, read_stat(text));
  Report report;
  for (const StatLine& line : lines) {
    const std::string_view name = site_of_backend(line.proxy);
    if (name.empty()) continue;
    SiteReport& site = report[std::string(name)];
    if (line.server == "BACKEND") {
      site.in_flight = line.in_flight;
      site.requests = line.requests;
      site.latency_ms = line.latency_ms;
    } else if (line.server != own_server_name()) {
      ServerReport& server = site.servers[line.server];
      server.in_flight = line.in_flight;
      server.requests = line.requests;
      server.errors = line.errors;
    }
  }
  for (const ServerState& state : states) {
    const auto site = report.find(std::string(site_of_backend(state.proxy)));
    if (site == report.end() || !site->second.servers.contains(state.server)) continue;
    ServerReport& server = site->second.servers[state.server];
    server.in_rotation = !state.drained && !state.maintained;
    server.healthy = state.up && !state.maintained && (server.in_rotation || state.passed);
  }
  // Connections that came before the last reload.
  for (const pid_t old : running->old_workers) {
    const auto said = ask_master(fmt::format("@!{} show stat", old));
    if (!said) continue;
    const auto old_lines = read_stat(*said);
    if (!old_lines) continue;
    for (const StatLine& line : *old_lines) {
      const std::string_view name = site_of_backend(line.proxy);
      if (name.empty() || line.in_flight == 0) continue;
      SiteReport& site = report[std::string(name)];
      if (line.server == "BACKEND") {
        site.in_flight += line.in_flight;
      } else if (line.server != own_server_name()) {
        site.servers[line.server].in_flight += line.in_flight;
      }
    }
  }
  return report;
}

}  // namespace divvy::proxy
