#include "serve/service.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "model/name.h"

namespace divvy::serve {
namespace {

constexpr std::uint16_t kLowestPort = 1024;
constexpr std::size_t kLongestName = 63;
constexpr std::size_t kLongestPath = 256;
constexpr model::Seconds kLongest{24 * 3600};

// Words of `divvy serve`, where a service of that name could not be told from them.
constexpr std::array<std::string_view, 8> kWords{"scale",   "update", "promote", "rollback",
                                                 "history", "list",   "get",     "delete"};

tl::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return err(ErrorCode::kInvalidArgument, "{}: {}", field, what);
}

Status check_time(std::string_view field, model::Seconds time, model::Seconds shortest) {
  if (time >= shortest && time <= kLongest) return {};
  return wrong(field,
               fmt::format("{} s is not between {} s and a day", time.count(), shortest.count()));
}

// What may stand in a path of HTTP and in a line of a configuration without quotes.
bool is_plain(char c) {
  constexpr std::string_view kOthers = "/-._~?=&%:@!+,;";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.find(c) != std::string_view::npos;
}

// The oldest that nobody needs goes where there are too many.
void add_version(Service& service, model::JobSpec job, WallTime now) {
  const VersionNumber number = service.versions.back().number + 1;
  service.versions.emplace_back(number, std::move(job), now);
  if (service.versions.size() <= Service::kMostVersions) return;
  const auto needed = [&](const Version& version) {
    return version.number == service.stable || version.number == number ||
           (service.candidate && service.candidate->version == version.number) ||
           std::ranges::any_of(service.replicas, [&](const auto& entry) {
             return entry.second.version == version.number;
           });
  };
  const auto gone = std::ranges::find_if_not(service.versions, needed);
  if (gone != service.versions.end()) service.versions.erase(gone);
}

Status check_weight(std::uint32_t weight) {
  if (weight >= 1 && weight <= 100) return {};
  return wrong("weight", "this has to be from 1 to 100 percent of the requests");
}

void drop_candidate(Service& service, const std::string& why) {
  if (!service.candidate) return;
  if (Version* version = service.find(service.candidate->version)) version->rejected = why;
  service.candidate.reset();
}

Status not_while_deleting(const Service& service) {
  if (!service.deleting) return {};
  return err(ErrorCode::kFailedPrecondition, "the service {} is being deleted", service.name);
}

}  // namespace

const Version* Service::find(VersionNumber number) const {
  const auto found = std::ranges::find(versions, number, &Version::number);
  return found == versions.end() ? nullptr : &*found;
}

Version* Service::find(VersionNumber number) {
  const auto found = std::ranges::find(versions, number, &Version::number);
  return found == versions.end() ? nullptr : &*found;
}

std::span<const Happening> new_in(const std::vector<Happening>& history,
                                  const std::vector<Happening>& before) {
  const std::span all(history);
  std::span<const Happening> left(before);
  if (left.size() > all.size()) left = left.last(all.size());
  while (!std::ranges::equal(left, all.first(left.size()))) left = left.subspan(1);
  return all.subspan(left.size());
}

void Service::tell(WallTime at, std::string text) {
  history.push_back({at, std::move(text)});
  if (history.size() > kMostHappenings) history.erase(history.begin());
}

Status check_service_name(std::string_view name) {
  DIVVY_RETURN_IF_ERROR(with_context(model::check_name("service", name), "name"));
  if (name.size() > kLongestName) {
    return wrong("name",
                 fmt::format("a service has a name of {} characters at most", kLongestName));
  }
  if (std::ranges::find(kWords, name) != kWords.end()) {
    return wrong("name", fmt::format("{} is a word of divvy serve; take another name", name));
  }
  return {};
}

Status check(const Settings& settings) {
  if (settings.port < kLowestPort) {
    return wrong("port", fmt::format("this has to be a port from {} to 65535", kLowestPort));
  }
  if (!settings.ready.starts_with('/') || settings.ready.size() > kLongestPath ||
      !std::ranges::all_of(settings.ready, is_plain)) {
    return wrong("ready", fmt::format("this has to be a path like /health, of at most {} letters, "
                                      "digits and signs that need no quoting",
                                      kLongestPath));
  }
  DIVVY_RETURN_IF_ERROR(check_time("ready_within", settings.ready_within, model::Seconds(1)));
  DIVVY_RETURN_IF_ERROR(check_time("drain", settings.drain, model::Seconds(0)));
  DIVVY_RETURN_IF_ERROR(check_time("wait", settings.wait, model::Seconds(1)));
  const Scale& scale = settings.scale;
  DIVVY_RETURN_IF_ERROR(check_time("replicas.calm", scale.calm, model::Seconds(1)));
  DIVVY_RETURN_IF_ERROR(check_time("replicas.idle", scale.idle, model::Seconds(1)));
  if (scale.most > Scale::kMost) {
    return wrong("replicas.most", fmt::format("{} are more than the {} that a service may have",
                                              scale.most, Scale::kMost));
  }
  if (scale.least > scale.most) {
    return wrong("replicas",
                 fmt::format("{} at least are more than {} at most", scale.least, scale.most));
  }
  if (scale.gpu_use > 100) {
    return wrong("replicas.gpu_use", "this is a part of a replica's share, in percent");
  }
  if (scale.in_flight == 0 && scale.latency_ms == 0 && scale.gpu_use == 0) {
    return wrong("replicas.in_flight",
                 "this has to be 1 at least where neither latency_ms nor gpu_use decides");
  }
  return {};
}

Status check_replica(const model::JobSpec& job) {
  DIVVY_RETURN_IF_ERROR(model::check(job));
  const auto refuse = [](std::string_view field) {
    return err(ErrorCode::kInvalidArgument, "{}: a replica of a service cannot have that", field);
  };
  if (job.array) return refuse("array");
  if (job.members() != 1) return refuse("members");
  if (!job.after.empty()) return refuse("after");
  if (job.retry.most > 0) return refuse("retry");
  if (job.time_limit) return refuse("time_limit");
  if (job.keep_input) return refuse("stdin");
  if (job.holder != model::Holder::kMembers) return refuse("holder");
  if (job.environment.contains("PORT")) {
    return wrong("environment.PORT", "each replica gets a port of its own in this variable");
  }
  return {};
}

Status check(const Service& service) {
  DIVVY_RETURN_IF_ERROR(check_service_name(service.name));
  DIVVY_RETURN_IF_ERROR(check(service.settings));
  if (service.versions.empty()) return wrong("versions", "there are none");
  VersionNumber last = 0;
  for (const Version& version : service.versions) {
    if (version.number <= last) return wrong("versions", "they are not in order");
    last = version.number;
    DIVVY_RETURN_IF_ERROR(
        with_context(check_replica(version.job), fmt::format("versions.{}", version.number)));
  }
  if (service.find(service.stable) == nullptr) return wrong("stable", "there is no such version");
  if (service.candidate) {
    DIVVY_RETURN_IF_ERROR(check_weight(service.candidate->weight));
    if (service.find(service.candidate->version) == nullptr ||
        service.candidate->version == service.stable) {
      return wrong("candidate", "this is no other version");
    }
  }
  if (service.desired > Scale::kMost) return wrong("desired", "these are too many");
  return {};
}

Result<Service> make_service(std::string name, std::string owner, Settings settings,
                             model::JobSpec job, WallTime now) {
  DIVVY_RETURN_IF_ERROR(check_service_name(name));
  DIVVY_RETURN_IF_ERROR(check(settings));
  DIVVY_RETURN_IF_ERROR(with_context(check_replica(job), "job"));
  Service service;
  service.name = std::move(name);
  service.made = now;
  service.settings = std::move(settings);
  service.versions.emplace_back(1, std::move(job), now);
  service.stable = 1;
  // Somebody who makes a service wants to see it work; it goes to zero later.
  service.desired = std::max(service.settings.scale.least,
                             std::min<std::uint32_t>(1, service.settings.scale.most));
  service.tell(now, fmt::format("made by {}", owner));
  service.owner = std::move(owner);
  return service;
}

Status update(Service& service, model::JobSpec job, std::uint32_t weight, const std::string& by,
              WallTime now) {
  DIVVY_RETURN_IF_ERROR(not_while_deleting(service));
  DIVVY_RETURN_IF_ERROR(check_weight(weight));
  DIVVY_RETURN_IF_ERROR(with_context(check_replica(job), "job"));
  drop_candidate(service, fmt::format("another version came from {} before it had taken over", by));
  add_version(service, std::move(job), now);
  service.candidate = Candidate{service.versions.back().number, weight};
  service.tell(now, fmt::format("version {} from {}, for {} % of the requests",
                                service.versions.back().number, by, weight));
  return {};
}

Status promote(Service& service, std::uint32_t weight, const std::string& by, WallTime now) {
  DIVVY_RETURN_IF_ERROR(not_while_deleting(service));
  DIVVY_RETURN_IF_ERROR(check_weight(weight));
  if (!service.candidate) {
    return err(ErrorCode::kFailedPrecondition,
               "the service {} has no version to promote: version {} gets all requests; divvy "
               "serve update brings another one",
               service.name, service.stable);
  }
  service.candidate->weight = weight;
  service.tell(now, fmt::format("version {} gets {} % of the requests, says {}",
                                service.candidate->version, weight, by));
  return {};
}

Status roll_back(Service& service, std::optional<VersionNumber> to, const std::string& by,
                 WallTime now) {
  DIVVY_RETURN_IF_ERROR(not_while_deleting(service));
  if (service.candidate && (!to || *to == service.stable)) {
    service.tell(now, fmt::format("version {} taken back by {}; version {} goes on",
                                  service.candidate->version, by, service.stable));
    drop_candidate(service, fmt::format("taken back by {}", by));
    return {};
  }
  const auto earlier = [&](const Version& version) {
    if (to) return version.number == *to;
    return version.number < service.stable && version.rejected.empty();
  };
  Version* found = nullptr;
  for (Version& version : service.versions) {
    if (earlier(version)) found = &version;
  }
  if (found == nullptr) {
    return err(ErrorCode::kNotFound,
               "the service {} has no {} to go back to; divvy serve history {} shows its versions",
               service.name, to ? fmt::format("version {}", *to) : "earlier version", service.name);
  }
  if (found->number == service.stable) {
    return err(ErrorCode::kFailedPrecondition, "version {} of {} is the one that runs",
               found->number, service.name);
  }
  const VersionNumber number = found->number;
  drop_candidate(service, fmt::format("{} went back to version {}", by, number));
  found->failures = 0;
  found->failed_at.reset();
  found->rejected.clear();
  service.candidate = Candidate{number, 100};
  service.tell(now, fmt::format("back to version {}, says {}", number, by));
  return {};
}

Status change_settings(Service& service, Settings settings, const std::string& by, WallTime now) {
  DIVVY_RETURN_IF_ERROR(not_while_deleting(service));
  DIVVY_RETURN_IF_ERROR(check(settings));
  const Scale& scale = settings.scale;
  if (scale != service.settings.scale) {
    service.tell(now, scale.least == scale.most
                          ? fmt::format("{} replicas, says {}", scale.least, by)
                          : fmt::format("{} to {} replicas, says {}", scale.least, scale.most, by));
    service.desired = std::clamp(service.desired, scale.least, scale.most);
  } else {
    service.tell(now, fmt::format("changed by {}", by));
  }
  service.settings = std::move(settings);
  return {};
}

}  // namespace divvy::serve
