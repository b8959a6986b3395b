#include "kube/lease.h"

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "base/log.h"
#include "base/time_text.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

// Whatever stands in a lease, nobody waits longer.
constexpr std::int64_t kMostSeconds = 600;

json::object& spec_of(json::object& lease) {
  json::value& spec = lease["spec"];
  if (!spec.is_object()) spec = json::object();
  return spec.as_object();
}

std::int64_t number_in(const json::object& lease, std::string_view name) {
  const json::value* spec = lease.if_contains("spec");
  const json::value* value =
      spec != nullptr && spec->is_object() ? spec->as_object().if_contains(name) : nullptr;
  return value != nullptr && value->is_int64() ? value->get_int64() : 0;
}

}  // namespace

LeaseCandidate::LeaseCandidate(ApiServer& api, Clock& clock, LeaseOptions options)
    : api_(api),
      clock_(clock),
      options_(std::move(options)),
      until_(TimePoint::min().time_since_epoch().count()) {}

std::string LeaseCandidate::path() const {
  return fmt::format("/apis/coordination.k8s.io/v1/namespaces/{}/leases", options_.space);
}

json::object LeaseCandidate::filled(json::object lease, bool taken) const {
  // Also of one that somebody else made.
  json::value* const metadata = lease.if_contains("metadata");
  if (!options_.owner.empty() && metadata != nullptr && metadata->is_object()) {
    metadata->get_object()["ownerReferences"] = json::array{options_.owner};
  }
  // Microseconds, as the API wants them.
  const std::string now = time_text(clock_.wall_now()).substr(0, 26) + "Z";
  const std::int64_t transitions = number_in(lease, "leaseTransitions");
  json::object& spec = spec_of(lease);
  spec["holderIdentity"] = options_.identity;
  spec["leaseDurationSeconds"] = options_.duration.count();
  spec["renewTime"] = now;
  if (taken) {
    spec["acquireTime"] = now;
    spec["leaseTransitions"] = transitions + 1;
  }
  return lease;
}

void LeaseCandidate::win(TimePoint asked_at, json::object lease) {
  mine_ = std::move(lease);
  until_ = (asked_at + options_.renew_deadline).time_since_epoch().count();
  clock_.wake();
}

void LeaseCandidate::lose() {
  mine_.reset();
  until_ = TimePoint::min().time_since_epoch().count();
  clock_.wake();
}

Status LeaseCandidate::create() {
  const TimePoint asked_at = clock_.now();
  json::object lease{{"apiVersion", "coordination.k8s.io/v1"},
                     {"kind", "Lease"},
                     {"metadata", {{"name", options_.name}, {"namespace", options_.space}}}};
  DIVVY_TRY(made, api_.create(path(), filled(std::move(lease), true)));
  win(asked_at, std::move(made));
  return {};
}

Status LeaseCandidate::write(json::object lease) {
  const TimePoint asked_at = clock_.now();
  auto written = api_.replace(path() + "/" + options_.name, lease);
  if (!written) {
    // Whatever happened there, what we know of it is not up to date.
    mine_.reset();
    return err(written.error());
  }
  win(asked_at, *std::move(written));
  return {};
}

Status LeaseCandidate::step() {
  if (mine_) return write(filled(*mine_, false));
  auto got = api_.get(path() + "/" + options_.name);
  if (!got) {
    if (got.error().code != ErrorCode::kNotFound) return err(got.error());
    // Somebody removed it; nobody may lead on with what is gone.
    lose();
    return create();
  }
  const std::string holder(text_at(*got, "spec.holderIdentity"));
  if (holder == options_.identity) return write(filled(*std::move(got), false));
  lose();
  const std::string version(text_at(*got, "metadata.resourceVersion"));
  const TimePoint now = clock_.now();
  if (version != seen_version_) {
    seen_version_ = version;
    seen_at_ = now;
  }
  const std::chrono::seconds theirs(
      std::clamp<std::int64_t>(number_in(*got, "leaseDurationSeconds"), 0, kMostSeconds));
  if (!holder.empty() && now - seen_at_ < std::max(options_.duration, theirs)) return {};
  return write(filled(*std::move(got), true));
}

Status LeaseCandidate::release() {
  const bool led = is_leader();
  std::optional<json::object> lease = std::move(mine_);
  lose();
  if (!led || !lease) return {};
  json::object& spec = spec_of(*lease);
  spec["holderIdentity"] = "";
  spec["leaseDurationSeconds"] = 1;
  DIVVY_RETURN_IF_ERROR(api_.replace(path() + "/" + options_.name, *lease));
  return {};
}

LeaderElection::LeaderElection(ApiServer& api, Clock& clock, LeaseOptions options,
                               std::function<void()> on_started, std::function<void()> on_stopped)
    : clock_(clock),
      candidate_(api, clock, std::move(options)),
      on_started_(std::move(on_started)),
      on_stopped_(std::move(on_stopped)),
      attempts_([this](const std::stop_token& stop) { attempt(stop); }),
      notifier_([this](const std::stop_token& stop) { notify(stop); }) {}

LeaderElection::~LeaderElection() {
  attempts_.request_stop();
  clock_.wake();
  attempts_.join();
  notifier_.request_stop();
  clock_.wake();
  notifier_.join();
  if (const Status released = candidate_.release(); !released) {
    log_info("lease not given back; the next one waits for its end",
             {{"lease", candidate_.options().name}, {"reason", released.error().message}});
  }
}

void LeaderElection::attempt(const std::stop_token& stop) {
  bool failed = false;
  while (!stop.stop_requested()) {
    const TimePoint start = clock_.now();
    const Status step = candidate_.step();
    // Somebody else was faster: that is what it is for.
    const bool failing = !step && step.error().code != ErrorCode::kFailedPrecondition &&
                         step.error().code != ErrorCode::kAlreadyExists;
    if (failing && !failed) {
      log_warning("lease not reached; trying again",
                  {{"lease", candidate_.options().name}, {"reason", step.error().message}});
    }
    failed = failing;
    clock_.wait_until(start + candidate_.options().retry,
                      [&stop] { return stop.stop_requested(); });
  }
}

void LeaderElection::notify(const std::stop_token& stop) {
  bool leads = false;
  const auto turned = [&] { return stop.stop_requested() || candidate_.is_leader() != leads; };
  for (;;) {
    const TimePoint until = candidate_.leader_until();
    // A renewal moves the end: then it waits for the new one.
    clock_.wait_until(leads ? until : TimePoint::max(),
                      [&] { return turned() || (leads && candidate_.leader_until() != until); });
    if (stop.stop_requested()) break;
    if (candidate_.is_leader() == leads) continue;
    leads = !leads;
    if (leads) {
      on_started_();
    } else {
      on_stopped_();
    }
  }
  if (leads) on_stopped_();
}

}  // namespace divvy::kube
