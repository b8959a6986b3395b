#include "dispatch/node_machine.h"

#include <unistd.h>

#include <numeric>
#include <thread>

#include "base/text.h"
#include "node/container_devices.h"
#include "place/node_spec.h"

namespace divvy::dispatch {
namespace {

Bytes machine_ram() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) return {};
  return Bytes(static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page));
}

std::string command_text(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  return text.substr(0, 200);
}

}  // namespace

jobs::Fleet NodeMachine::fleet() {
  const model::Node& node = parts_.tenants.node();
  const std::uint64_t cpus = std::max(std::thread::hardware_concurrency(), 1U);
  const place::NodeSpec spec = place::spec_of(node, 1000 * cpus, machine_ram());
  const node::Slices slices = parts_.tenants.slices();
  jobs::FleetNode only;
  only.name = spec.name;
  only.cpu_milli = spec.cpu_milli;
  only.ram = spec.ram;
  for (const node::SharedGpu& gpu : slices.gpus()) {
    const auto known = std::ranges::find(spec.devices, gpu.uuid.str(), &place::DeviceSpec::uuid);
    if (known == spec.devices.end()) continue;
    jobs::FleetGpu one{.uuid = gpu.uuid};
    one.index = static_cast<std::uint32_t>(gpu.index.value());
    one.device = *known;
    one.device.memory = gpu.memory;
    one.resting = gpu.unusable.empty() ? gpu.resting : gpu.unusable;
    one.lost = gpu.failing || !gpu.unusable.empty();
    only.gpus.push_back(std::move(one));
  }
  return {{std::move(only)}, node::kSmallestSlice};
}

Result<MemberSlice> NodeMachine::grant(const run::MemberKey& key, const model::Job& job,
                                       const model::JobMember& member, const MemberUser& user) {
  if (member.slices.empty()) {
    MemberSlice none;
    none.environment["CUDA_VISIBLE_DEVICES"] = "";
    return none;
  }
  const bool latency = job.spec.job_class == model::JobClass::kLatency;
  const bool started_here = job.spec.holder == model::Holder::kMembers;
  const node::Ask ask{
      .slices = member.slices,
      .mode = job.spec.mode.value_or(model::GpuMode::kTimeslice),
      .tenant_class = latency ? node::TenantClass::kLatency : node::TenantClass::kBatch,
      .name = started_here ? to_string(key) : user.name,
      .command = started_here ? command_text(job.spec.command)
                              : fmt::to_string(fmt::join(job.spec.command, " ")),
      .holder = job.spec.holder,
      .member = key,
      .peer = {user.pid, user.uid, user.gid}};
  DIVVY_TRY(grant, parts_.tenants.grant(ask));
  MemberSlice slice;
  slice.tenant = grant.record.id;
  slice.environment = std::move(grant.environment);
  slice.cdi_devices = {node::ContainerDevices::device_name(grant.record.name)};
  if (!started_here) return slice;
  slice.environment["LD_PRELOAD"] = parts_.shim.string();
  slice.environment.insert(parts_.environment.begin(), parts_.environment.end());
  return slice;
}

std::optional<node::TenantRecord> NodeMachine::find(const model::MemberKey& key) const {
  for (node::TenantRecord& record : parts_.tenants.all()) {
    if (record.member == key) return std::move(record);
  }
  return std::nullopt;
}

// Its processes have written it, so it is theirs to get wrong: it is shown and nothing else.
std::optional<Bytes> NodeMachine::memory_peak(const run::MemberKey& key) {
  const auto record = find(key);
  const auto view = record ? parts_.tenants.get(record->id) : std::nullopt;
  if (!view) return std::nullopt;
  std::optional<Bytes> peak;
  for (const node::SliceMemory& slice : view->report.slices) {
    peak = std::max(peak.value_or(Bytes(0)), slice.peak);
  }
  return peak;
}

Status NodeMachine::release(const run::MemberKey& key) {
  const auto record = find(key);
  if (!record) return {};
  // The shepherd has seen to it that no process of the member is left.
  return parts_.tenants.release(record->id, {0, 0, 0}, node::Registrar::ComeBack::kImpossible);
}

std::vector<HeldSlices> NodeMachine::held() {
  std::vector<HeldSlices> all;
  for (const node::TenantRecord& record : parts_.tenants.all()) {
    HeldSlices held{.key = record.member, .holder = record.holder, .tenant = record.id};
    held.node = parts_.tenants.node().hostname();
    held.name = record.name;
    held.command = record.command;
    held.user = node::user_name(record.uid);
    held.since = WallTime(std::chrono::seconds(record.since_unix));
    held.slices = record.slices;
    if (record.tenant_class == node::TenantClass::kLatency) {
      held.job_class = model::JobClass::kLatency;
    }
    all.push_back(std::move(held));
  }
  return all;
}

void NodeMachine::on_gone(std::function<void(const model::MemberKey&)> call) {
  if (!call) return parts_.tenants.on_gone({});
  parts_.tenants.on_gone([call = std::move(call)](const node::TenantRecord& record) {
    if (record.holder != model::Holder::kMembers) call(record.member);
  });
}

void NodeMachine::reap() { parts_.tenants.reap(); }

bool NodeMachine::end_holder(const model::MemberKey& key, int signal) {
  const auto record = find(key);
  if (!record) return false;
  parts_.tenants.signal(record->id, signal);
  if (record->holder == model::Holder::kSlice) {
    // Refused while somebody uses it: then once more when they are gone.
    (void)parts_.tenants.release(record->id, {0, 0, 0}, node::Registrar::ComeBack::kImpossible);
  }
  return true;
}

Status NodeMachine::adopt(model::TenantId tenant, const model::MemberKey& key) {
  return parts_.tenants.set_member(tenant, key);
}

std::vector<MemberActivity> NodeMachine::activity() {
  std::vector<MemberActivity> all;
  for (const node::TenantView& tenant : parts_.tenants.list()) {
    MemberActivity activity{tenant.record.member};
    for (std::size_t i = 0; i < tenant.used.size(); ++i) {
      if (tenant.used[i]) activity.used += tenant.used[i]->thousandths;
    }
    all.push_back(activity);
  }
  return all;
}

}  // namespace divvy::dispatch
