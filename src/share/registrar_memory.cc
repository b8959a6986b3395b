// What tenants use, memory and time: as they count it, and as the driver says.
#include "share/registrar_impl.h"

namespace divvy::share {

std::vector<TenantReport> Registrar::Impl::report() const {
  const std::lock_guard lock(mutex_);
  std::vector<TenantReport> result;
  for (const auto& [id, tenant] : tenants_) {
    TenantReport one;
    one.tenant = id;
    one.root_gone = tenant.root_gone;
    for (const auto& [key, process] : tenant.processes) {
      one.processes.push_back(
          {process.pid, process.program, process.release, process.connection != nullptr});
    }
    for (int i = 0; i < static_cast<int>(tenant.record.slices.size()); ++i) {
      const CountedMemory counted = tenant.counted(i);
      SliceMemory memory;
      memory.uncounted = tenant.uncounted(i);
      memory.used = counted.used + memory.uncounted;
      memory.peak =
          std::max({tenant.peaks[static_cast<std::size_t>(i)], counted.peak, memory.used});
      memory.refused = counted.refused;
      one.slices.push_back(memory);
      SliceActivity activity{.present = tenant.has_context(i), .used_share = std::nullopt};
      if (activity.present && !tenant.behind_gates(i)) {
        activity.used_share = tenant.driver_shares[static_cast<std::size_t>(i)];
      }
      one.activity.push_back(activity);
    }
    result.push_back(std::move(one));
  }
  return result;
}

void Registrar::Impl::answer_measure(LiveTenant& tenant,
                                     const std::shared_ptr<Connection>& connection,
                                     const MeasureMessage& question) {
  if (!connection->process || connection->measuring ||
      question.gpu >= tenant.record.slices.size()) {
    send_measured(connection, question, std::nullopt);
    return;
  }
  connection->measuring = true;
  parts_.meter.measure(tenant.record.slices[question.gpu].gpu(), connection->peer.pid,
                       [this, connection, question](std::optional<Bytes> bytes) {
                         const std::lock_guard lock(mutex_);
                         connection->measuring = false;
                         send_measured(connection, question, bytes);
                       });
}

void Registrar::Impl::send_measured(const std::shared_ptr<Connection>& connection,
                                    const MeasureMessage& question, std::optional<Bytes> bytes) {
  if (!connection->socket) return;
  wire::Measured answer{};
  answer.header = {static_cast<std::uint32_t>(wire::Kind::kMeasured), sizeof answer};
  answer.gpu = question.gpu;
  answer.serial = question.serial;
  answer.known = bytes ? 1 : 0;
  answer.bytes = bytes.value_or(Bytes(0)).count();
  (void)sys::send_message(connection->socket.get(), answer);
}

void Registrar::Impl::remember_peaks(LiveTenant& tenant) {
  for (std::size_t i = 0; i < tenant.peaks.size(); ++i) {
    const int slice = static_cast<int>(i);
    const CountedMemory counted = tenant.counted(slice);
    tenant.peaks[i] =
        std::max({tenant.peaks[i], counted.peak, counted.used + tenant.uncounted(slice)});
  }
}

void Registrar::Impl::note_activity(LiveTenant& tenant, int slice,
                                    const std::optional<Meter::BusyByProcess>& busy) {
  std::optional<std::uint32_t>& share = tenant.driver_shares[static_cast<std::size_t>(slice)];
  share.reset();
  if (tenant.behind_gates(slice)) return;
  if (busy) {
    std::uint32_t sum = 0;
    bool seen = false;
    for (const auto& [key, process] : tenant.processes) {
      const auto found = busy->find(process.pid);
      if (found == busy->end()) continue;
      seen = true;
      sum += found->second;
    }
    // Work that goes through MPS may be booked on its server: who is missing there need not be
    // idle.
    if (seen || tenant.record.mode != model::GpuMode::kMps) {
      share = std::min<std::uint32_t>(sum, Share::kWhole);
    }
  }
  // The tenant's own programs read it there when they ask for their utilisation.
  (*tenant.control)->gpu[slice].used_share.store(share.value_or(0), std::memory_order_relaxed);
}

bool Registrar::Impl::audit() {
  struct Watched {
    pid_t pid = 0;
    ProcessKey key = 0;
    Bytes counted_before;
  };
  struct Sample {
    model::TenantId tenant;
    int slice = 0;
    model::GpuUuid gpu;
    std::vector<Watched> processes;
  };
  std::vector<Sample> samples;
  struct Answers {
    std::optional<Meter::UsedByProcess> used;
    std::optional<Meter::BusyByProcess> busy;
    bool ask_busy = false;  // Nobody needs it where all are behind gates
  };
  std::map<model::GpuUuid, Answers> answers;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, tenant] : tenants_) {
      if (!tenant.account || !tenant.has_context()) {
        // It may have had one at the last audit, and nobody asks about it any more.
        for (std::size_t i = 0; i < tenant.driver_shares.size(); ++i) {
          if (tenant.driver_shares[i]) (*tenant.control)->gpu[i].used_share.store(0);
          tenant.driver_shares[i].reset();
        }
        continue;
      }
      for (std::size_t i = 0; i < tenant.record.slices.size(); ++i) {
        const int slice = static_cast<int>(i);
        Sample sample{id, slice, tenant.record.slices[i].gpu(), {}};
        for (const auto& [key, process] : tenant.processes) {
          sample.processes.push_back(
              {process.pid, key, tenant.account->counted(process.seat, slice).used});
        }
        Answers& wanted = answers[sample.gpu];
        wanted.ask_busy = wanted.ask_busy || !tenant.behind_gates(slice);
        samples.push_back(std::move(sample));
      }
    }
  }
  for (auto& [gpu, answer] : answers) {
    answer.used = parts_.meter.used_on(gpu);
    if (answer.ask_busy) answer.busy = parts_.meter.busy_on(gpu);
  }

  const std::lock_guard lock(mutex_);
  for (const Sample& sample : samples) {
    const auto found = tenants_.find(sample.tenant);
    const Answers& answer = answers.at(sample.gpu);
    if (found == tenants_.end()) continue;
    LiveTenant& tenant = found->second;
    note_activity(tenant, sample.slice, answer.busy);
    if (!answer.used) continue;
    Bytes uncounted(0);
    for (const Watched& watched : sample.processes) {
      const auto process = tenant.processes.find(watched.key);
      const auto measured = answer.used->find(watched.pid);
      if (process == tenant.processes.end() || measured == answer.used->end()) continue;
      // The process may have allocated or freed while we asked: the larger count is the fair one.
      const Bytes now = tenant.account->counted(process->second.seat, sample.slice).used;
      uncounted += saturating_sub(measured->second, std::max(now, watched.counted_before));
    }
    (*tenant.control)->gpu[sample.slice].uncounted_bytes.store(uncounted.count());
  }
  for (auto& [id, tenant] : tenants_) remember_peaks(tenant);
  // Whoever runs without gates rings for nothing: that two of them have contexts by now, on the
  // same GPU, has to be noticed here.
  if (!samples.empty()) parts_.arbiter.doorbell();
  return !samples.empty();
}

}  // namespace divvy::share
