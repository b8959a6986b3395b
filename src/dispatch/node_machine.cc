#include "dispatch/node_machine.h"

#include <unistd.h>

#include <numeric>
#include <thread>

#include "base/text.h"
#include "node/container_devices.h"
#include "place/node_spec.h"

namespace divvy::dispatch {
namespace {

bool is_member(const node::TenantRecord& record) {
  return !node::has_root(record) && run::parse_member_key(record.name).has_value();
}

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
  for (const node::TenantView& tenant : parts_.tenants.list()) {
    if (is_member(tenant.record)) continue;
    for (const model::Slice& slice : tenant.record.slices) {
      const auto gpu = std::ranges::find(only.gpus, slice.gpu(), &jobs::FleetGpu::uuid);
      if (gpu == only.gpus.end()) continue;
      gpu->others_share = Share(gpu->others_share.thousandths() + slice.share().thousandths());
      gpu->others_memory = Bytes(gpu->others_memory.count() + slice.memory().count());
    }
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
  const node::Ask ask{
      .request = job.spec.request,
      .devices = {},
      .mode = node::GpuMode::kTimeslice,
      .tenant_class = latency ? node::TenantClass::kLatency : node::TenantClass::kBatch,
      .name = to_string(key),
      .command = command_text(job.spec.command),
      .peer = {0, user.uid, user.gid},
      .held = true,
      .of_a_job = true,
      .slices = member.slices};
  DIVVY_TRY(answer, parts_.tenants.grant(ask));
  if (const auto* no_fit = std::get_if<node::NoFit>(&answer)) {
    return err(ErrorCode::kResourceExhausted, "{}", no_fit->summary);
  }
  MemberSlice slice;
  slice.environment = std::get<node::Grant>(answer).environment;
  slice.environment["LD_PRELOAD"] = parts_.shim.string();
  slice.environment.insert(parts_.environment.begin(), parts_.environment.end());
  slice.cdi_devices = {node::ContainerDevices::device_name(ask.name)};
  return slice;
}

Status NodeMachine::release(const run::MemberKey& key) {
  const auto tenant = parts_.tenants.find(to_string(key));
  if (!tenant) return {};
  const auto view = parts_.tenants.get(*tenant);
  if (!view || !is_member(view->record)) return {};
  // The shepherd has seen to it that no process of the member is left.
  return parts_.tenants.release(*tenant, {0, 0, 0}, node::Registrar::ComeBack::kImpossible);
}

std::vector<run::MemberKey> NodeMachine::held() {
  std::vector<run::MemberKey> keys;
  for (const node::TenantView& tenant : parts_.tenants.list()) {
    if (!is_member(tenant.record)) continue;
    keys.push_back(*run::parse_member_key(tenant.record.name));
  }
  return keys;
}

std::vector<MemberActivity> NodeMachine::activity() {
  std::vector<MemberActivity> all;
  for (const node::TenantView& tenant : parts_.tenants.list()) {
    if (!is_member(tenant.record)) continue;
    MemberActivity activity{*run::parse_member_key(tenant.record.name)};
    for (std::size_t i = 0; i < tenant.used.size(); ++i) {
      if (tenant.used[i]) activity.used += tenant.used[i]->thousandths;
    }
    all.push_back(activity);
  }
  return all;
}

}  // namespace divvy::dispatch
