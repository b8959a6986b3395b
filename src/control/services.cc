#include "control/services.h"

#include <algorithm>
#include <charconv>

#include "base/log.h"
#include "base/text.h"
#include "model/publish_variable.h"
#include "model/service_label.h"
#include "serve/service_document.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

using namespace std::chrono_literals;

// Of the jobs that are replicas. Whoever else writes them on a job of their own has made it a
// replica of their own service; others' are not looked at.
constexpr const char* kVersionLabel = "divvy.version";
constexpr const char* kPortLabel = "divvy.port";
constexpr const char* kPortVariable = "PORT";

// Between two looks: while something is under way, while somebody may have to be woken up, while
// the traffic decides, and otherwise.
constexpr auto kSoon = 200ms;
constexpr auto kAsleep = 250ms;
constexpr auto kScaling = 500ms;
constexpr auto kLater = 5s;
// However much happens.
constexpr auto kRest = 50ms;
// After a replica was refused.
constexpr auto kRetry = 5s;
// Of a change that somebody else was quicker with, each time.
constexpr int kTries = 20;

template <typename Number>
std::optional<Number> number_in(const std::map<std::string, std::string>& labels,
                                const char* name) {
  const auto found = labels.find(name);
  if (found == labels.end()) return {};
  const std::string& text = found->second;
  Number number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return {};
  return number;
}

store::ServiceRow row_of(const serve::Service& service, std::int64_t revision) {
  return {service.name, service.owner, service.settings.port, revision,
          serve::write_service(service)};
}

tl::unexpected<Error> no_service(std::string_view name) {
  return err(ErrorCode::kNotFound, "there is no service {}; divvy serve list shows those there are",
             escape_for_terminal(name.substr(0, 128)));
}

serve::Phase phase_of(const model::Job& job) {
  switch (job.state) {
    case model::JobState::kRunning:
      return serve::Phase::kRunning;
    case model::JobState::kStopping:
      return serve::Phase::kStopping;
    default:
      return serve::Phase::kWaiting;
  }
}

std::string server_name(model::JobId job) { return fmt::format("j{}", job); }

}  // namespace

Result<std::unique_ptr<Services>> Services::create(Parts parts) {
  std::unique_ptr<Services> made(new Services(parts));
  DIVVY_RETURN_IF_ERROR(made->find_replicas());
  return made;
}

Services::~Services() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Only at the beginning: afterwards every replica is started here.
Status Services::find_replicas() {
  DIVVY_TRY(entries, read_all());
  if (entries.empty()) return {};
  DIVVY_TRY(jobs, parts_.database.read([](store::Connection& connection) {
    return store::JobTable(connection).unfinished();
  }));
  for (const model::Job& job : jobs) {
    const auto label = job.spec.labels.find(model::kServiceLabel);
    const auto version = number_in<serve::VersionNumber>(job.spec.labels, kVersionLabel);
    const auto port = number_in<std::uint16_t>(job.spec.labels, kPortLabel);
    if (label == job.spec.labels.end() || !version || !port) continue;
    const auto entry = std::ranges::find(entries, label->second,
                                         [](const Entry& one) { return one.service.name; });
    if (entry == entries.end() || entry->service.owner != job.owner) continue;
    desks_[label->second].started[job.id] = {*version, *port};
  }
  return {};
}

void Services::begin() {
  thread_ = std::thread([this] { run(); });
}

void Services::run() {
  for (;;) {
    const auto patience = step();
    std::unique_lock lock(mutex_);
    // Whatever happens meanwhile shares the next round.
    changed_.wait_for(lock, kRest, [this] { return stopping_; });
    const auto due = [this] { return stopping_ || woken_; };
    if (patience) {
      changed_.wait_for(lock, *patience, due);
    } else {
      changed_.wait(lock, due);
    }
    if (stopping_) return;
    woken_ = false;
  }
}

void Services::wake() {
  if (!any_) return;
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

// --- For the API ---

model::JobSpec Services::replica_of(const serve::Service& service, model::JobSpec job,
                                    serve::VersionNumber version, std::uint16_t port) {
  job.name = service.name;
  std::uint16_t inside = port;
  if (job.container) {
    inside = service.settings.port;
    job.container->ports.push_back({.host = port, .container = inside});
    // It is reached through the proxy, which is on this machine.
    job.environment[model::kPublishVariable] = model::kPublishLoopback;
  }
  job.environment[kPortVariable] = std::to_string(inside);
  job.labels[model::kServiceLabel] = service.name;
  job.labels[kVersionLabel] = std::to_string(version);
  job.labels[kPortLabel] = std::to_string(port);
  return job;
}

Status Services::could_run(const serve::Service& service, const model::JobSpec& job) {
  // With what each replica has besides: it has to fit, too.
  const model::JobSpec replica =
      replica_of(service, job, service.versions.back().number, service.settings.port);
  DIVVY_RETURN_IF_ERROR(with_context(model::check(replica), "a replica"));
  return with_context(parts_.dispatcher.check(replica, service.owner), "a replica");
}

Result<serve::Service> Services::make(std::string name, const std::string& owner,
                                      serve::Settings settings, model::JobSpec job) {
  DIVVY_RETURN_IF_ERROR(parts_.proxy.usable());
  DIVVY_TRY(service, serve::make_service(std::move(name), owner, std::move(settings),
                                         std::move(job), parts_.clock.wall_now()));
  DIVVY_TRY(there, parts_.database.read([&](store::Connection& connection) {
    return store::ServiceTable(connection).list();
  }));
  for (const store::ServiceRow& row : there) {
    if (row.name != service.name && row.port != service.settings.port) continue;
    return err(ErrorCode::kAlreadyExists,
               "there is a service {} at port {} already; take another {}", row.name, row.port,
               row.name == service.name ? "name" : "port");
  }
  DIVVY_RETURN_IF_ERROR(parts_.proxy.check_port(service.settings.port));
  DIVVY_RETURN_IF_ERROR(could_run(service, service.versions.front().job));
  DIVVY_RETURN_IF_ERROR(parts_.database.commit([&](store::Connection& connection) -> Status {
    store::ServiceTable table(connection);
    DIVVY_TRY(rows, table.list());
    const auto own = std::ranges::count(rows, owner, &store::ServiceRow::owner);
    if (static_cast<std::size_t>(own) >= kMostOfOneOwner) {
      return err(ErrorCode::kFailedPrecondition,
                 "you have {} services, and that is as many as there may be; delete one", own);
    }
    return table.insert(row_of(service, 1));
  }));
  any_ = true;
  wake();
  return service;
}

Result<serve::Service> Services::change(const std::string& name, const Change& change) {
  for (int i = 0; i < kTries; ++i) {
    DIVVY_TRY(row, parts_.database.read([&](store::Connection& connection) {
      return store::ServiceTable(connection).find(name);
    }));
    if (!row) return no_service(name);
    DIVVY_TRY(service, serve::read_service(row->document));
    const std::uint16_t port = service.settings.port;
    DIVVY_RETURN_IF_ERROR(change(service, parts_.clock.wall_now()));
    if (service.settings.port != port) {
      DIVVY_RETURN_IF_ERROR(parts_.proxy.check_port(service.settings.port));
    }
    DIVVY_TRY(written, write({service, row->revision}));
    if (!written) continue;
    wake();
    return service;
  }
  return err(ErrorCode::kUnavailable, "the service {} changes all the time; try again", name);
}

Result<serve::Service> Services::find(const std::string& name) {
  DIVVY_TRY(row, parts_.database.read([&](store::Connection& connection) {
    return store::ServiceTable(connection).find(name);
  }));
  if (!row) return no_service(name);
  return serve::read_service(row->document);
}

Result<std::vector<serve::Service>> Services::list() {
  DIVVY_TRY(entries, read_all());
  std::vector<serve::Service> all;
  all.reserve(entries.size());
  for (Entry& entry : entries) all.push_back(std::move(entry.service));
  return all;
}

ServiceSeen Services::seen(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = seen_.find(name);
  return found == seen_.end() ? ServiceSeen() : found->second;
}

std::vector<VersionLoad> Services::load() const {
  const std::lock_guard lock(mutex_);
  std::vector<VersionLoad> all;
  all.reserve(load_.size());
  for (const auto& [key, load] : load_) all.push_back(load);
  return all;
}

// --- The round ---

Result<std::vector<Services::Entry>> Services::read_all() {
  DIVVY_TRY(rows, parts_.database.read([](store::Connection& connection) {
    return store::ServiceTable(connection).list();
  }));
  std::vector<Entry> entries;
  for (const store::ServiceRow& row : rows) {
    auto service = serve::read_service(row.document);
    if (!service) {
      log_error("service left out", {{"service", row.name}, {"reason", service.error().message}});
      continue;
    }
    entries.push_back({*std::move(service), row.revision});
  }
  return entries;
}

Result<bool> Services::write(const Entry& entry) {
  bool written = false;
  DIVVY_RETURN_IF_ERROR(parts_.database.commit([&](store::Connection& connection) -> Status {
    DIVVY_TRY(done, store::ServiceTable(connection).update(row_of(entry.service, entry.revision)));
    written = done;
    return {};
  }));
  return written;
}

void Services::look_again(Duration within) {
  patience_ = patience_ ? std::min(*patience_, within) : within;
}

std::set<std::uint16_t> Services::taken_ports() const {
  std::set<std::uint16_t> taken = service_ports_;
  for (const auto& [name, desk] : desks_) {
    for (const auto& [job, started] : desk.started) taken.insert(started.port);
  }
  return taken;
}

std::vector<ReplicaSeen> Services::look(const serve::Service& service, const Desk& desk,
                                        const std::optional<proxy::Report>& report) {
  std::vector<ReplicaSeen> replicas;
  for (const auto& [id, started] : desk.started) {
    const auto job = parts_.dispatcher.find(id);
    ReplicaSeen& seen = replicas.emplace_back();
    seen.port = started.port;
    serve::Replica& replica = seen.replica;
    replica.job = id;
    replica.version = started.version;
    if (!job || model::is_finished(job->state)) {
      replica.phase = serve::Phase::kEnded;
      continue;
    }
    replica.phase = phase_of(*job);
    replica.since = job->started.value_or(job->submitted);
    if (!report || !report->contains(service.name)) {
      // Nobody looks at it, because the proxy is away or has no port for the service: it is as it
      // was, and the time in which it has to answer has not begun.
      const auto known = service.replicas.find(id);
      replica.healthy = known != service.replicas.end() && known->second.ready;
      replica.in_rotation = !report;
      replica.since = parts_.clock.wall_now();
      continue;
    }
    const auto& servers = report->at(service.name).servers;
    if (const auto server = servers.find(server_name(id)); server != servers.end()) {
      replica.healthy = server->second.healthy;
      replica.in_rotation = server->second.in_rotation;
      replica.in_flight = server->second.in_flight;
      seen.requests = server->second.requests;
      seen.errors = server->second.errors;
    }
  }
  return replicas;
}

std::optional<std::uint32_t> Services::use_of_gpus(const serve::Service& service) {
  if (service.settings.scale.gpu_use == 0) return {};
  serve::Mean use;
  for (const auto& [job, known] : service.replicas) {
    if (!known.ready) continue;
    if (const auto one = parts_.dispatcher.use_of_share(job)) use.add(*one);
  }
  if (use.count == 0) return {};
  return static_cast<std::uint32_t>(use.value());
}

void Services::start(const serve::Service& service, serve::VersionNumber number, Desk& desk) {
  const WallTime now = parts_.clock.wall_now();
  if (now < desk.not_before) return look_again(desk.not_before - now);
  const serve::Version* version = service.find(number);
  const auto submit = [&]() -> Status {
    DIVVY_TRY(port, parts_.proxy.free_port(taken_ports()));
    NewJob wanted(replica_of(service, version->job, number, port));
    wanted.owner = service.owner;
    DIVVY_TRY(submitted, parts_.dispatcher.submit(std::move(wanted)));
    desk.started[submitted.jobs.front().id] = {number, port};
    return {};
  };
  desk.trouble.clear();
  if (const Status done = submit(); !done) {
    desk.trouble =
        fmt::format("no replica of version {} can be started: {}", number, done.error().message);
    desk.not_before = now + kRetry;
    look_again(kRetry);
    log_warning("replica refused", {{"service", service.name}, {"reason", done.error().message}});
  }
}

// The proxy begins anew with every configuration.
void Services::count(const serve::Service& service, Desk& desk,
                     const std::vector<ReplicaSeen>& replicas) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, load] : load_) {
    if (key.first == service.name) load.replicas = load.ready = load.in_flight = 0;
  }
  for (const ReplicaSeen& seen : replicas) {
    const auto started = desk.started.find(seen.replica.job);
    if (started == desk.started.end()) continue;
    VersionLoad& load = load_[{service.name, seen.replica.version}];
    load.service = service.name;
    load.version = seen.replica.version;
    ++load.replicas;
    const auto known = service.replicas.find(seen.replica.job);
    if (known != service.replicas.end() && known->second.ready) ++load.ready;
    load.in_flight += seen.replica.in_flight;
    const auto more = [](std::uint64_t now, std::uint64_t& before) {
      const std::uint64_t added = now >= before ? now - before : now;
      before = now;
      return added;
    };
    load.requests += more(seen.requests, started->second.requests);
    load.errors += more(seen.errors, started->second.errors);
  }
  // Of versions that nobody can go back to.
  std::erase_if(load_, [&](const auto& entry) {
    return entry.first.first == service.name && service.find(entry.first.second) == nullptr;
  });
}

bool Services::decide(Entry& entry, Desk& desk, ServiceSeen& seen,
                      const std::optional<serve::Traffic>& traffic) {
  std::vector<serve::Replica> replicas;
  replicas.reserve(seen.replicas.size());
  for (const ReplicaSeen& one : seen.replicas) replicas.push_back(one.replica);
  const serve::Service before = entry.service;
  const WallTime now = parts_.clock.wall_now();
  serve::Memory memory = desk.memory;
  const serve::Plan plan = serve::plan(entry.service, replicas, traffic, memory, now);
  if (entry.service != before) {
    const auto written = write(entry);
    if (!written) {
      log_error("service not written",
                {{"service", before.name}, {"reason", written.error().message}});
    }
    if (!written || !*written) {
      entry.service = before;
      // A disk that is full is so for longer, and its log would be as well.
      look_again(written ? Duration(kSoon) : Duration(kRetry));
      return false;
    }
    for (const serve::Happening& step : serve::new_in(entry.service.history, before.history)) {
      log_info("service", {{"service", before.name}, {"what", step.text}});
    }
  }
  desk.memory = memory;
  for (const serve::Replica& replica : replicas) {
    if (replica.phase == serve::Phase::kEnded) desk.started.erase(replica.job);
  }
  std::erase_if(seen.replicas,
                [](const ReplicaSeen& one) { return one.replica.phase == serve::Phase::kEnded; });
  for (const model::JobId job : plan.stop) {
    const Status told = parts_.dispatcher.cancel(job, fmt::format("divvy serve {}", before.name));
    if (!told && told.error().code != ErrorCode::kNotFound) {
      log_warning("replica not told to end",
                  {{"job", job.value()}, {"reason", told.error().message}});
    }
  }
  if (plan.start.empty()) desk.trouble.clear();
  for (const serve::VersionNumber version : plan.start) start(entry.service, version, desk);
  if (plan.look_at) look_again(std::max<Duration>(*plan.look_at - now, kRest));
  const bool moves = !plan.start.empty() || !plan.stop.empty() || entry.service != before ||
                     std::ranges::any_of(entry.service.replicas,
                                         [](const auto& known) { return !known.second.ready; });
  const serve::Scale& scale = entry.service.settings.scale;
  if (moves || entry.service.deleting) look_again(kSoon);
  if (scale.least != scale.most) look_again(entry.service.desired == 0 ? kAsleep : kScaling);
  look_again(kLater);
  if (plan.gone) {
    const Status removed = parts_.database.commit([&](store::Connection& connection) {
      return store::ServiceTable(connection).remove(before.name);
    });
    if (!removed) {
      log_error("service not removed",
                {{"service", before.name}, {"reason", removed.error().message}});
    }
  }
  return true;
}

proxy::Site Services::site_of(const serve::Service& service, const Desk& desk,
                              const std::vector<ReplicaSeen>& replicas) {
  const serve::Settings& settings = service.settings;
  proxy::Site site{.name = service.name,
                   .port = settings.port,
                   .ready = settings.ready,
                   .wait = settings.wait,
                   .servers = {}};
  const auto weights = serve::weights(service);
  for (const ReplicaSeen& seen : replicas) {
    const serve::Replica& replica = seen.replica;
    // One that has been told to end keeps the requests that it has.
    if (replica.phase == serve::Phase::kWaiting || replica.phase == serve::Phase::kEnded) continue;
    const auto weight = weights.find(replica.job);
    site.servers.push_back({.name = server_name(replica.job),
                            .port = desk.started.at(replica.job).port,
                            .weight = weight == weights.end() ? 0 : weight->second});
  }
  return site;
}

std::optional<Duration> Services::step() {
  patience_.reset();
  auto entries = read_all();
  if (!entries) {
    log_error("services not read", {{"reason", entries.error().message}});
    return kLater;
  }
  if (entries->empty() && !routing_) {
    any_ = false;
    return {};
  }
  any_ = true;
  std::optional<proxy::Report> report;
  if (!entries->empty()) {
    if (auto found = parts_.proxy.report()) report = *std::move(found);
  }
  service_ports_.clear();
  for (const Entry& entry : *entries) service_ports_.insert(entry.service.settings.port);
  std::vector<proxy::Site> sites;
  std::map<std::string, ServiceSeen> all;
  for (Entry& entry : *entries) {
    const std::string name = entry.service.name;
    Desk& desk = desks_[name];
    ServiceSeen& seen = all[name];
    seen.replicas = look(entry.service, desk, report);
    std::optional<serve::Traffic> traffic;
    if (report) {
      if (const auto site = report->find(name); site != report->end()) {
        seen.in_flight = site->second.in_flight;
        traffic = serve::Traffic{.in_flight = site->second.in_flight,
                                 .requests = site->second.requests,
                                 .latency_ms = site->second.latency_ms,
                                 .gpu_use = use_of_gpus(entry.service)};
      }
    }
    (void)decide(entry, desk, seen, traffic);
    count(entry.service, desk, seen.replicas);
    seen.trouble = desk.trouble;
    if (!entry.service.deleting) sites.push_back(site_of(entry.service, desk, seen.replicas));
  }
  std::erase_if(desks_, [&](const auto& desk) { return !all.contains(desk.first); });
  const auto troubles = parts_.proxy.apply(sites);
  if (!troubles) {
    log_error("services are not routed", {{"reason", troubles.error().message}});
    for (auto& [name, seen] : all) seen.trouble = troubles.error().message;
    look_again(kRetry);
  } else {
    for (const auto& [name, trouble] : *troubles) all[name].trouble = trouble;
  }
  routing_ = !entries->empty() || !troubles;
  const std::lock_guard lock(mutex_);
  std::erase_if(load_, [&](const auto& entry) { return !all.contains(entry.first.first); });
  seen_ = std::move(all);
  return patience_;
}

}  // namespace divvy::control
