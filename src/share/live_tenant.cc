#include "share/live_tenant.h"

#include <algorithm>
#include <cstring>

namespace divvy::share {
namespace {

// Half a millisecond: long against the cost of a gate, short against a lease.
constexpr std::uint32_t kBatchNs = 500'000;

// The sixteen bytes of "GPU-xxxxxxxx-xxxx-...", in the order of the text.
void write_uuid(std::uint8_t (&bytes)[16], const model::GpuUuid& uuid) {
  std::size_t nibble = 0;
  for (const char c : uuid.str().substr(4)) {
    if (c == '-') continue;
    const auto value = static_cast<std::uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    std::uint8_t& byte = bytes[nibble / 2];
    byte = static_cast<std::uint8_t>(nibble % 2 == 0 ? value << 4 : byte | value);
    ++nibble;
  }
}

}  // namespace

CountedMemory LiveTenant::counted(int slice) const {
  CountedMemory sum;
  sum.refused = refused_before[static_cast<std::size_t>(slice)];
  if (!account) return sum;
  for (const auto& [key, process] : processes) {
    const CountedMemory one = account->counted(process.seat, slice);
    sum.used += one.used;
    sum.peak = std::max(sum.peak, one.peak);
    sum.refused += one.refused;
  }
  return sum;
}

void LiveTenant::remember(const LiveProcess& process) {
  if (!account) return;
  for (std::size_t i = 0; i < record.slices.size(); ++i) {
    refused_before[i] += account->counted(process.seat, static_cast<int>(i)).refused;
  }
}

Bytes LiveTenant::uncounted(int slice) const {
  return Bytes((*control)->gpu[slice].uncounted_bytes.load(std::memory_order_relaxed));
}

LiveProcess* LiveTenant::find_pid(pid_t pid) {
  const auto found =
      std::ranges::find_if(processes, [pid](const auto& entry) { return entry.second.pid == pid; });
  return found == processes.end() ? nullptr : &found->second;
}

LiveProcess* LiveTenant::find_seat(Seat seat) {
  const auto found = std::ranges::find_if(
      processes, [seat](const auto& entry) { return entry.second.seat == seat; });
  return found == processes.end() ? nullptr : &found->second;
}

bool LiveTenant::has_context() const {
  return std::ranges::any_of(processes, [](const auto& entry) {
    const LiveProcess& process = entry.second;
    return !process.lanes || (*process.lanes)->contexts.load(std::memory_order_relaxed) != 0;
  });
}

bool LiveTenant::has_context(int slice) const {
  return std::ranges::any_of(processes, [slice](const auto& entry) {
    const LiveProcess& process = entry.second;
    return !process.lanes ||
           ((*process.lanes)->contexts.load(std::memory_order_relaxed) >> slice & 1) != 0;
  });
}

bool LiveTenant::behind_gates(int slice) const {
  const auto gated = static_cast<std::uint32_t>(wire::Mode::kGated);
  if ((*control)->gpu[slice].mode.load(std::memory_order_relaxed) != gated) return false;
  return std::ranges::none_of(processes, [](const auto& entry) {
    const auto& lanes = entry.second.lanes;
    return lanes && ((*lanes)->flags.load(std::memory_order_relaxed) & wire::kGatesUnavailable);
  });
}

void fill_control(wire::ControlPage& page, const ledger::TenantRecord& record,
                  const std::vector<ledger::SharedGpu>& gpus) {
  page.tenant = record.id.value();
  page.gpu_count = static_cast<std::uint32_t>(record.slices.size());
  page.any_gated.store(0);
  page.asleep.store(1);
  std::memset(page.tenant_name, 0, sizeof page.tenant_name);
  record.name.copy(page.tenant_name, sizeof page.tenant_name - 1);
  for (std::size_t i = 0; i < record.slices.size(); ++i) {
    wire::ControlGpu& gpu = page.gpu[i];
    write_uuid(gpu.uuid, record.slices[i].gpu());
    gpu.gate.store(1);
    gpu.mode.store(static_cast<std::uint32_t>(wire::Mode::kFree));
    gpu.batch_ns.store(kBatchNs);
    gpu.minor.store(gpus[i].index.value());
  }
  write_terms(page, record);
}

void write_terms(wire::ControlPage& page, const ledger::TenantRecord& record) {
  for (std::size_t i = 0; i < record.slices.size(); ++i) {
    const model::Slice& slice = record.slices[i];
    wire::ControlGpu& gpu = page.gpu[i];
    gpu.memory_limit.store(slice.memory().count());
    gpu.share.store(slice.share().thousandths());
    std::uint32_t flags = 0;
    if (record.tenant_class == TenantClass::kLatency) flags |= wire::kSliceLatencyClass;
    if (slice.kind() == model::ShareKind::kCap) flags |= wire::kSliceCapped;
    if (record.mode == model::GpuMode::kMps) flags |= wire::kSliceMps;
    gpu.flags.store(flags);
  }
}

std::vector<Arbiter::Slice> arbiter_slices(const ledger::TenantRecord& record,
                                           const std::vector<ledger::SharedGpu>& gpus) {
  std::vector<Arbiter::Slice> result;
  for (std::size_t i = 0; i < record.slices.size(); ++i) {
    const model::Slice& slice = record.slices[i];
    SliceTerms terms;
    terms.share = slice.share().thousandths();
    terms.capped = slice.kind() == model::ShareKind::kCap;
    terms.tenant_class = record.tenant_class;
    terms.mps = record.mode == model::GpuMode::kMps;
    result.push_back({static_cast<int>(gpus[i].index.value()), terms});
  }
  return result;
}

}  // namespace divvy::share
