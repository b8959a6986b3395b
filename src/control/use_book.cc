// What jobs held and used, for the account and for the queue's idle watch.
#include "control/dispatcher.h"

namespace divvy::control {
namespace {

using namespace std::chrono_literals;

// A crash costs at most so much of the account.
constexpr Duration kBookEvery = 60s;
constexpr Duration kCountEvery = 1s;

// In thousandths of a GPU, of the members that have not ended.
std::uint64_t share_of(const model::Job& job) {
  std::uint64_t share = 0;
  for (const model::JobMember& member : job.members) {
    if (member.end) continue;
    for (const model::Slice& slice : member.slices) share += slice.share().thousandths();
  }
  return share;
}

double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

bool Dispatcher::count_due(WallTime now) const {
  return !books_.empty() && now - counted_ >= kCountEvery;
}

void Dispatcher::count_use(WallTime now, Duration passed,
                           const std::vector<agent::MemberActivity>& used) {
  for (const agent::MemberActivity& activity : used) {
    const auto book = books_.find(activity.key.job);
    if (book == books_.end()) continue;
    book->second.latest = activity.used;
    if (activity.used == 0) continue;
    book->second.used += static_cast<double>(activity.used) * seconds(passed);
    queue_->used(activity.key.job, now);
  }
}

void Dispatcher::book_all(WallTime now) {
  for (auto& [id, held] : books_) {
    const model::Job* job = queue_->find(id);
    if (job != nullptr && now - held.since >= kBookEvery) book(*job, now);
  }
}

// From where the books ended to now.
void Dispatcher::book(const model::Job& job, WallTime now) {
  const auto found = books_.find(job.id);
  if (found == books_.end() || now <= found->second.since) return;
  Account& held = found->second;
  const double passed = seconds(now - held.since);
  store::UsageRow row;
  row.from = held.since;
  row.job = job.id;
  row.attempt = job.attempt;
  row.owner = job.owner;
  row.queue = job.spec.queue;
  const auto share = static_cast<double>(share_of(job));
  double memory_mib = 0;
  for (const model::JobMember& member : job.members) {
    if (member.end) continue;
    for (const model::Slice& slice : member.slices) {
      memory_mib += static_cast<double>(slice.memory().count()) / (1U << 20U);
    }
  }
  row.held = static_cast<std::uint64_t>(share * passed);
  row.used = static_cast<std::uint64_t>(held.used);
  row.memory = static_cast<std::uint64_t>(memory_mib * passed);
  unbooked_.push_back(std::move(row));
  held.since = now;
  held.used = 0;
}

std::optional<std::uint32_t> Dispatcher::use_of_share(model::JobId job) {
  const std::lock_guard lock(mutex_);
  const model::Job* const found = queue_->find(job);
  const auto held = books_.find(job);
  if (found == nullptr || found->members.size() != 1 || held == books_.end()) return {};
  const std::uint64_t share = share_of(*found);
  if (share == 0 || !held->second.latest) return {};
  return static_cast<std::uint32_t>(*held->second.latest * 100 / share);
}

// Once for each member: with the same write the job knows that it has ended.
void Dispatcher::book_cpu(const model::Job& job, const model::MemberKey& key,
                          const model::MemberEnd& end, WallTime now) {
  if (!end.use.cpu || job.attempt != key.attempt || key.rank >= job.members.size()) return;
  if (job.members[key.rank].end) return;
  store::UsageRow row;
  row.from = now;
  row.job = job.id;
  row.attempt = job.attempt;
  row.owner = job.owner;
  row.queue = job.spec.queue;
  row.cpu = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(*end.use.cpu).count());
  unbooked_.push_back(std::move(row));
}

}  // namespace divvy::control
