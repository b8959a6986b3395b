#include "agent/local_agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>

#include "agent/documents.h"
#include "agent/member_user.h"
#include "base/text.h"
#include "health/event_log.h"
#include "inject/container_devices.h"
#include "model/device_links.h"
#include "run/child.h"
#include "run/member_start.h"
#include "run/rootless.h"
#include "sys/process.h"

namespace divvy::agent {
namespace {

namespace json = boost::json;

// Orders that block at the same time; most take no time.
constexpr unsigned kMostGrants = 16;
constexpr unsigned kMostEnds = 32;
constexpr unsigned kMostLooks = 8;

Bytes machine_ram() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) return {};
  return Bytes(static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page));
}

template <typename... Options>
constexpr bool is_one_of(const Order& order) {
  return (std::holds_alternative<Options>(order) || ...);
}

Work work_of(const Order& order) {
  if (is_one_of<StartOrder>(order)) return Work::kStart;
  if (is_one_of<GrantOrder, ChangeOrder, ReapOrder, CheckHolderOrder>(order)) return Work::kGrant;
  if (is_one_of<ReleaseOrder, SignalOrder, StopOrder, FindOrder, ForgetOrder, AdoptOrder,
                GiveBackOrder>(order)) {
    return Work::kEnd;
  }
  return Work::kLook;
}

Result<Done> done(const Status& status) {
  if (!status) return err(status.error());
  return Done{};
}

sys::Peer peer_of(const LocalCaller& caller) { return {caller.pid, caller.uid, caller.gid}; }

GpuEvent event_of(const health::Event& event) {
  GpuEvent told;
  told.number = event.number;
  told.at = event.time;
  told.kind = to_string(event.kind);
  if (event.gpu) told.gpu = static_cast<std::uint32_t>(event.gpu->value());
  if (event.uuid) told.uuid = event.uuid->str();
  told.tenant = event.tenant;
  told.state = event.state;
  told.reason = event.reason;
  return told;
}

}  // namespace

LocalAgent::LocalAgent(Parts parts)
    : parts_(std::move(parts)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      streams_([&runtime = parts_.runtime](const auto& key) { return runtime.folder_of(key); }),
      relays_([&runtime = parts_.runtime](const auto& key) { return runtime.folder_of(key); }) {}

Result<std::unique_ptr<LocalAgent>> LocalAgent::create(Parts parts) {
  std::unique_ptr<LocalAgent> made(new LocalAgent(std::move(parts)));
  if (!made->bell_) return err(ErrorCode::kIo, "no event descriptor for the agent");
  made->told_ = made->state();
  made->workers_ = std::make_unique<Workers>(
      std::array{made->parts_.starters, kMostGrants, kMostEnds, kMostLooks});
  made->parts_.tenants.on_gone([agent = made.get()](const ledger::TenantRecord& record) {
    if (record.holder != model::Holder::kMembers) agent->tell(HolderGone{record.member});
  });
  made->parts_.tenants.on_resting([agent = made.get()] { agent->wake(); });
  made->watcher_ = std::thread([agent = made.get()] { agent->watch(); });
  return made;
}

LocalAgent::~LocalAgent() {
  parts_.tenants.on_gone({});
  parts_.tenants.on_resting({});
  stopping_ = true;
  wake();
  if (watcher_.joinable()) watcher_.join();
  workers_.reset();
}

const std::string& LocalAgent::node() const { return parts_.tenants.node().hostname(); }

void LocalAgent::send(Order order, Reply reply) {
  const Work work = work_of(order);
  workers_->add(work, [this, order = std::move(order), reply = std::move(reply)] {
    Result<Answer> answer = std::visit(
        [this](const auto& one) -> Result<Answer> {
          auto result = carry_out(one);
          if (!result) return err(std::move(result).error());
          return Answer(*std::move(result));
        },
        order);
    reply(std::move(answer));
  });
}

// --- What happens ---

void LocalAgent::listen(Listener listener) {
  const std::lock_guard lock(listener_mutex_);
  listener_ = std::move(listener);
}

void LocalAgent::wake() { (void)eventfd_write(bell_.get(), 1); }

void LocalAgent::tell(News news) {
  const std::lock_guard lock(listener_mutex_);
  if (listener_) listener_(std::move(news));
}

void LocalAgent::watch() {
  while (!stopping_) {
    const auto event =
        parts_.health != nullptr ? parts_.health->events().when_after(events_told_) : nullptr;
    pollfd waits[] = {{bell_.get(), POLLIN, 0},
                      {parts_.runtime.watch_fd(), POLLIN, 0},
                      {event ? event->get() : -1, POLLIN, 0}};
    poll(waits, 3, -1);
    eventfd_t rung = 0;
    (void)eventfd_read(bell_.get(), &rung);
    if (stopping_) return;
    for (const model::MemberReport& report : parts_.runtime.changes()) {
      tell(MemberEnded{report});
    }
    tell_events();
    tell_state();
  }
}

void LocalAgent::tell_events() {
  if (parts_.health == nullptr) return;
  for (const health::Event& event : parts_.health->events().since(events_told_)) {
    events_told_ = event.number;
    tell(event_of(event));
  }
}

void LocalAgent::tell_state() {
  MachineState now = state();
  if (now == told_) return;
  told_ = now;
  tell(StateChanged{std::move(now)});
}

MachineState LocalAgent::state() const {
  const model::Node& node = parts_.tenants.node();
  MachineState state;
  state.node = node.hostname();
  // All members of this machine reach each other there.
  state.address = "127.0.0.1";
  state.cpu_milli = 1000ULL * std::max(std::thread::hardware_concurrency(), 1U);
  state.ram = machine_ram();
  state.smallest_slice = ledger::kSmallestSlice;
  const auto groups = model::device_groups(node);
  const ledger::Slices slices = parts_.tenants.slices();
  for (const ledger::SharedGpu& gpu : slices.gpus()) {
    const auto place = node.find(gpu.uuid);
    if (!place) continue;
    MachineGpu one{.uuid = gpu.uuid};
    one.index = static_cast<std::uint32_t>(gpu.index.value());
    one.model = gpu.name;
    one.memory = gpu.memory;
    one.resting = gpu.unusable.empty() ? gpu.resting : gpu.unusable;
    one.lost = gpu.failing || !gpu.unusable.empty();
    one.nvlink_island = groups[*place].nvlink;
    one.pcie_switch = groups[*place].pcie;
    one.numa_node = groups[*place].numa;
    state.gpus.push_back(std::move(one));
  }
  return state;
}

// --- Slices ---

std::optional<ledger::TenantRecord> LocalAgent::find_record(const model::MemberKey& key) const {
  for (ledger::TenantRecord& record : parts_.tenants.all()) {
    if (record.member == key) return std::move(record);
  }
  return std::nullopt;
}

Result<Granted> LocalAgent::carry_out(const GrantOrder& order) {
  if (order.slices.empty()) {
    Granted none;
    none.environment["CUDA_VISIBLE_DEVICES"] = "";
    return none;
  }
  const bool started_here = order.holder == model::Holder::kMembers;
  Ask ask{.slices = order.slices,
          .mode = order.mode,
          .tenant_class = order.job_class,
          .name = started_here ? to_string(order.key) : order.name,
          .command = order.command,
          .holder = order.holder,
          .member = order.key,
          .peer = peer_of(order.caller)};
  if (started_here) {
    DIVVY_TRY(user, find_member_user(order.user));
    ask.peer = {0, user.uid, user.gid};
  }
  const auto before = order.holder == model::Holder::kSlice ? find_record(order.key) : std::nullopt;
  if (before && (before->holder != order.holder || before->slices != order.slices ||
                 before->mode != order.mode)) {
    return err(ErrorCode::kAlreadyExists, "{} holds other slices already", to_string(order.key));
  }
  DIVVY_TRY(grant,
            before ? Result<Grant>(parts_.tenants.granted(*before)) : parts_.tenants.grant(ask));
  Granted granted;
  granted.tenant = grant.record.id;
  granted.cdi_devices = {inject::ContainerDevices::device_name(grant.record.name)};
  if (!started_here) granted.document = json::serialize(grant_document(grant));
  granted.environment = std::move(grant.environment);
  if (!started_here) return granted;
  granted.environment["LD_PRELOAD"] = parts_.shim.string();
  granted.environment.insert(parts_.environment.begin(), parts_.environment.end());
  return granted;
}

Result<Released> LocalAgent::carry_out(const ReleaseOrder& order) {
  const auto record = find_record(order.key);
  if (!record) return Released{};
  Released released;
  // Its processes have written it, so it is theirs to get wrong: it is shown and nothing else.
  if (const auto view = parts_.tenants.get(record->id)) {
    for (const share::SliceMemory& slice : view->report.slices) {
      released.memory_peak = std::max(released.memory_peak.value_or(Bytes(0)), slice.peak);
    }
  }
  // The shepherd has seen to it that no process of the member is left.
  DIVVY_RETURN_IF_ERROR(
      parts_.tenants.release(record->id, {0, 0, 0}, share::Registrar::ComeBack::kImpossible));
  return released;
}

Result<Done> LocalAgent::carry_out(const AdoptOrder& order) {
  return done(parts_.tenants.set_member(order.tenant, order.key));
}

Result<Signalled> LocalAgent::carry_out(const SignalOrder& order) {
  const auto record = find_record(order.key);
  if (!record) return Signalled{false};
  parts_.tenants.signal(record->id, order.signal);
  if (record->holder == model::Holder::kSlice) {
    // Refused while somebody uses it: then once more when they are gone.
    (void)parts_.tenants.release(record->id, {0, 0, 0}, share::Registrar::ComeBack::kImpossible);
  }
  return Signalled{true};
}

Result<Done> LocalAgent::carry_out(const ReapOrder& /*order*/) {
  parts_.tenants.reap();
  return Done{};
}

// --- Members ---

Result<Done> LocalAgent::carry_out(const StartOrder& order) {
  DIVVY_TRY(user, find_member_user(order.user));
  model::Job job(order.key.job, order.user.name, order.spec, {});
  job.attempt = order.key.attempt;
  job.task = order.task;
  return done(parts_.runtime.start(
      run::member_start(job, order.key.rank, order.hosts, user,
                        {order.slice.environment, order.slice.cdi_devices, order.secrets})));
}

Result<Found> LocalAgent::carry_out(const FindOrder& order) {
  auto report = parts_.runtime.find(order.key);
  if (!report && report.error().code == ErrorCode::kNotFound) return Found{};
  if (!report) return err(std::move(report).error());
  return Found{*std::move(report)};
}

Result<Done> LocalAgent::carry_out(const StopOrder& order) {
  return done(parts_.runtime.stop(order.key, order.grace));
}

Result<Done> LocalAgent::carry_out(const ForgetOrder& order) {
  const Status forgotten = parts_.runtime.forget(order.key);
  if (!forgotten && forgotten.error().code == ErrorCode::kNotFound) return Done{};
  return done(forgotten);
}

Result<Done> LocalAgent::carry_out(const CheckOrder& order) {
  DIVVY_TRY(user, find_member_user(order.user));
  DIVVY_RETURN_IF_ERROR(parts_.tenants.check_mode(order.mode));
  // Root may raise them.
  if (user.uid != 0) DIVVY_RETURN_IF_ERROR(run::check_ulimits(order.ulimits));
  if (!order.container) return Done{};
  return done(run::check_container(user, *order.container, parts_.podman,
                                   {::geteuid(), parts_.keeps_privileges}));
}

// --- The machine as it is ---

Result<Activity> LocalAgent::carry_out(const ActivityOrder& /*order*/) {
  Activity all;
  for (const TenantView& tenant : parts_.tenants.list()) {
    MemberActivity activity{tenant.record.member};
    for (const auto& used : tenant.used) {
      if (used) activity.used += used->thousandths;
    }
    all.members.push_back(activity);
  }
  return all;
}

std::vector<HeldSlices> LocalAgent::held() const {
  std::vector<HeldSlices> all;
  for (const ledger::TenantRecord& record : parts_.tenants.all()) {
    HeldSlices held{.key = record.member, .holder = record.holder, .tenant = record.id};
    held.name = record.name;
    held.command = record.command;
    held.user = sys::user_name(record.uid);
    held.since = WallTime(std::chrono::seconds(record.since_unix));
    held.slices = record.slices;
    held.job_class = record.tenant_class;
    all.push_back(std::move(held));
  }
  return all;
}

Result<Listing> LocalAgent::carry_out(const ListOrder& /*order*/) {
  DIVVY_TRY(members, parts_.runtime.find());
  return Listing{state(), std::move(members), held()};
}

Result<OutputSizes> LocalAgent::carry_out(const OutputSizesOrder& /*order*/) {
  DIVVY_TRY(sizes, parts_.runtime.log_sizes());
  return OutputSizes{std::move(sizes)};
}

// --- For people ---

Status LocalAgent::check_watched() const {
  if (parts_.health != nullptr) return {};
  return err(ErrorCode::kUnsupported, "the health of the GPUs is not watched here");
}

Result<TenantView> LocalAgent::find_view(const std::string& tenant) const {
  DIVVY_TRY(id, parts_.tenants.find(tenant));
  auto view = parts_.tenants.get(id);
  if (!view) return err(ErrorCode::kNotFound, "the tenant is gone");
  return *std::move(view);
}

namespace {

json::object node_document(const model::Node& node, const ledger::Slices& slices,
                           const std::string& version) {
  const auto& driver = node.driver_version();
  return {{"version", version},
          {"hostname", node.hostname()},
          {"simulated", node.simulated()},
          {"driverVersion", driver ? json::value(*driver) : json::value(nullptr)},
          {"gpus", gpu_documents(slices)}};
}

json::array tenant_documents(const Tenants& tenants, bool held_only) {
  json::array items;
  for (const TenantView& view : tenants.list()) {
    if (!held_only) items.push_back(tenant_document(view));
    if (held_only && !has_root(view.record)) items.push_back(slice_document(view));
  }
  return items;
}

json::object health_documents(const Tenants& tenants, const HealthService& service) {
  const health::SamplerReport sampler = service.sampler();
  const auto samples = service.samples().all();
  const ledger::Slices slices = tenants.slices();
  json::array items;
  for (const health::GpuHealth& health : service.all()) {
    const ledger::SharedGpu* gpu = slices.find(health.uuid);
    if (gpu == nullptr) continue;
    const auto sample = std::ranges::find(samples, health.uuid, &health::GpuSample::uuid);
    items.push_back(health_document(*gpu, health, tenants.holders(health.uuid),
                                    sample == samples.end() ? nullptr : &*sample));
  }
  return {{"sampler",
           json::object{{"pid", sampler.pid > 0 ? json::value(sampler.pid) : json::value(nullptr)},
                        {"restarts", sampler.restarts}}},
          {"items", std::move(items)}};
}

Result<TenantView> held_by_name(TenantView view) {
  if (!has_root(view.record)) return view;
  return err(ErrorCode::kNotFound,
             "{} is no slice that is held by its name but a tenant with a process (pid {}); it "
             "ends with that",
             view.record.name, view.record.root.pid);
}

// The GPUs that a request names, as people name them.
Result<std::vector<model::GpuUuid>> named_gpus(const ledger::Slices& slices,
                                               const std::vector<std::string>& devices) {
  std::vector<model::GpuUuid> named;
  for (const std::string& device : devices) {
    DIVVY_TRY(uuid, slices.find_by_text(device));
    named.push_back(std::move(uuid));
  }
  return named;
}

}  // namespace

Result<Document> LocalAgent::carry_out(const ViewOrder& order) {
  switch (order.view) {
    case View::kNode:
      return Document{json::serialize(
          node_document(parts_.tenants.node(), parts_.tenants.slices(), parts_.version))};
    case View::kTenants:
      return Document{json::serialize(tenant_documents(parts_.tenants, false))};
    case View::kSlices:
      return Document{json::serialize(tenant_documents(parts_.tenants, true))};
    case View::kGpus:
      DIVVY_RETURN_IF_ERROR(check_watched());
      return Document{json::serialize(health_documents(parts_.tenants, *parts_.health))};
    case View::kTenant:
    case View::kSlice:
      break;
  }
  DIVVY_TRY(view, find_view(order.name));
  if (order.view == View::kTenant) return Document{json::serialize(tenant_document(view))};
  DIVVY_TRY(held, held_by_name(std::move(view)));
  return Document{json::serialize(slice_document(held))};
}

Result<Document> LocalAgent::carry_out(const WhyNotOrder& order) {
  const ledger::Slices slices = parts_.tenants.slices();
  DIVVY_TRY(named, named_gpus(slices, order.spec.devices));
  const ledger::NoFit answer = slices.why_not(
      {order.spec.request, std::move(named), order.spec.mode.value_or(model::GpuMode::kTimeslice)});
  return Document{json::serialize(no_fit_document(answer, parts_.tenants.list()))};
}

Result<Done> LocalAgent::carry_out(const CheckHolderOrder& order) {
  DIVVY_RETURN_IF_ERROR(named_gpus(parts_.tenants.slices(), order.devices));
  return done(parts_.tenants.check_new_name(order.name));
}

Result<Proposed> LocalAgent::carry_out(const ProposeOrder& order) {
  DIVVY_TRY(view, find_view(order.tenant));
  const Change change{order.change.share, order.change.memory, order.change.capped,
                      order.change.job_class};
  DIVVY_TRY(after, parts_.tenants.changed(view.record.id, change, peer_of(order.caller)));
  return Proposed{view.record.id, view.record.member, view.record.slices, std::move(after)};
}

Result<Done> LocalAgent::carry_out(const ChangeOrder& order) {
  return done(parts_.tenants.change(order.tenant, order.slices, order.job_class));
}

Result<Done> LocalAgent::carry_out(const GiveBackOrder& order) {
  DIVVY_TRY(view, find_view(order.tenant));
  if (order.held_only) DIVVY_RETURN_IF_ERROR(held_by_name(view));
  return done(parts_.tenants.release(view.record.id, peer_of(order.caller)));
}

Result<Done> LocalAgent::carry_out(const CordonOrder& order) {
  DIVVY_RETURN_IF_ERROR(check_watched());
  DIVVY_TRY(uuid, parts_.tenants.slices().find_by_text(order.gpu));
  if (!order.cordoned) return done(parts_.health->uncordon(uuid));
  std::optional<Duration> end_after;
  if (order.end_after_seconds) end_after = std::chrono::seconds(*order.end_after_seconds);
  return done(parts_.health->cordon(uuid, order.reason, order.drain, end_after));
}

Result<UniqueFd> LocalAgent::open_stream(const StreamOrder& order) {
  if (!order.channel.empty()) return relays_.open(order);
  if (order.kind == StreamOrder::Kind::kOutput) return streams_.open(order);
  // What a tenant says there is for a process with that tenant's rights.
  return err(ErrorCode::kInvalidArgument, "this goes through a channel, which has a name");
}

}  // namespace divvy::agent
