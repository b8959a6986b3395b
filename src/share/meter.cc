#include "share/meter.h"

#include <utility>

namespace divvy::share {
namespace {

constexpr Duration kAuditPeriod = std::chrono::seconds(1);

}  // namespace

Meter::Meter(nvml::Library& library, Clock& clock) : library_(library), clock_(clock) {
  const auto count = library_.device_count();
  for (std::uint32_t i = 0; count && i < *count; ++i) {
    const auto device = library_.device(i);
    if (!device) continue;
    const auto text = library_.uuid(*device);
    if (!text) continue;
    const auto uuid = model::GpuUuid::parse(*text);
    if (uuid) devices_.emplace(*uuid, *device);
  }
}

Meter::~Meter() { stop(); }

void Meter::start(Audit audit) {
  audit_ = std::move(audit);
  thread_ = std::thread([this] { run(); });
}

void Meter::stop() {
  stopping_ = true;
  clock_.wake();
  if (thread_.joinable()) thread_.join();
}

void Meter::measure(const model::GpuUuid& gpu, pid_t pid, Answer answer) {
  {
    const std::lock_guard lock(mutex_);
    questions_.push_back({gpu, pid, std::move(answer)});
  }
  asked_ = true;
  wake();
}

void Meter::wake() {
  auditing_ = true;
  clock_.wake();
}

std::optional<Meter::UsedByProcess> Meter::used_on(const model::GpuUuid& gpu) {
  const auto device = devices_.find(gpu);
  if (device == devices_.end()) return std::nullopt;
  const auto processes = library_.processes(device->second);
  if (!processes) return std::nullopt;
  UsedByProcess result;
  for (const nvml::ProcessMemory& process : *processes) {
    if (process.used) result[static_cast<pid_t>(process.pid)] = *process.used;
  }
  return result;
}

std::optional<Meter::BusyByProcess> Meter::busy_on(const model::GpuUuid& gpu) {
  const auto device = devices_.find(gpu);
  if (device == devices_.end()) return std::nullopt;
  const auto processes =
      library_.process_utilization(device->second, clock_.wall_now() - kAuditPeriod);
  if (!processes) return std::nullopt;
  BusyByProcess result;
  for (const nvml::ProcessUtilization& process : *processes) {
    result[static_cast<pid_t>(process.pid)] = process.sm_percent * 10;
  }
  return result;
}

void Meter::run() {
  TimePoint next_audit = clock_.now();
  bool was_auditing = false;
  while (!stopping_) {
    // An audit that begins again does so a period from now: the process that woke us is just about
    // to count what it asked for.
    if (auditing_ && !was_auditing) next_audit = clock_.now() + kAuditPeriod;
    was_auditing = auditing_;
    const TimePoint deadline = was_auditing ? next_audit : TimePoint::max();
    clock_.wait_until(deadline, [this, was_auditing] {
      return stopping_.load() || asked_.load() || (auditing_.load() && !was_auditing);
    });
    if (stopping_) return;

    asked_ = false;
    std::deque<Question> questions;
    {
      const std::lock_guard lock(mutex_);
      questions.swap(questions_);
    }
    for (Question& question : questions) {
      std::optional<Bytes> bytes;
      if (const auto used = used_on(question.gpu)) {
        const auto found = used->find(question.pid);
        if (found != used->end()) bytes = found->second;
      }
      question.answer(bytes);
    }
    if (was_auditing && clock_.now() >= next_audit) {
      auditing_ = false;  // First, so that a wake() during the audit is not lost.
      if (audit_()) auditing_ = true;
      next_audit = clock_.now() + kAuditPeriod;
      was_auditing = auditing_;
    }
  }
}

}  // namespace divvy::share
