// A service: a command that is kept running as several replicas behind one port, in versions that
// replace each other while requests go on. Each replica is a job. Plain values; the store keeps
// them as documents (service_document.h), plan.h decides what becomes of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::serve {

using VersionNumber = std::uint32_t;

// How many replicas there are, between two bounds: as many as requests in flight ask for, or as
// keep what is measured near what is wanted; the most of what each of these asks for.
struct Scale {
  static constexpr std::uint32_t kMost = 128;

  std::uint32_t least = 1;  // 0: none while nobody asks for anything
  std::uint32_t most = 1;
  // Requests that one replica works on at a time. 0: they do not decide.
  std::uint32_t in_flight = 8;
  // Until an answer begins, on average, in milliseconds. 0: that does not decide.
  std::uint32_t latency_ms = 0;
  // Percent of its share of the GPU that a replica uses, on average. 0: that does not decide.
  std::uint32_t gpu_use = 0;
  model::Seconds calm{60};      // so long fewer would do, before there are fewer
  model::Seconds idle{5 * 60};  // so long without any request, before there is none
  friend bool operator==(const Scale&, const Scale&) = default;
};

// What is the same in all versions.
struct Settings {
  std::uint16_t port = 0;               // where the service is reached
  std::string ready = "/";              // answers 2xx or 3xx in a replica that may be asked
  model::Seconds ready_within{5 * 60};  // from the moment when a replica runs
  model::Seconds drain{30};             // for requests in flight of a replica that is to end
  model::Seconds wait{5 * 60};          // of a request while there is no replica
  Scale scale;
  friend bool operator==(const Settings&, const Settings&) = default;
};

// What its replicas are. Kept after it was replaced, to go back to.
struct Version {
  Version(VersionNumber number_, model::JobSpec job_, WallTime made_)
      : number(number_), job(std::move(job_)), made(made_) {}

  VersionNumber number = 0;
  model::JobSpec job;  // each of its replicas is such a job
  WallTime made;
  // Replicas that ended without being asked to since one of them worked for a while.
  std::uint32_t failures = 0;
  std::optional<WallTime> failed_at;
  std::string rejected;  // why it was taken back; empty: it was not
  friend bool operator==(const Version&, const Version&) = default;
};

// A version on its way to replace the stable one.
struct Candidate {
  VersionNumber version = 0;
  std::uint32_t weight = 100;  // percent of the requests; 100: as soon as it is ready, all
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// A replica that was started and whose end was not seen yet.
struct Known {
  VersionNumber version = 0;
  bool ready = false;
  WallTime turned;                   // when `ready` last changed, or it was first seen
  std::optional<WallTime> retiring;  // since then it gets no new requests, and is to end
  friend bool operator==(const Known&, const Known&) = default;
};

struct Happening {
  WallTime at;
  std::string text;  // for people: "version 3 replaces version 2"
  friend bool operator==(const Happening&, const Happening&) = default;
};
// What was told since `before`: behind what is still there of it.
[[nodiscard]] std::span<const Happening> new_in(const std::vector<Happening>& history,
                                                const std::vector<Happening>& before);

struct Service {
  static constexpr std::size_t kMostVersions = 20;
  static constexpr std::size_t kMostHappenings = 50;

  std::string name;
  std::string owner;
  WallTime made;
  Settings settings;
  std::vector<Version> versions;  // oldest first; one at least
  VersionNumber stable = 0;       // one of them
  std::optional<Candidate> candidate;
  std::uint32_t desired = 1;  // replicas, just now
  std::map<model::JobId, Known> replicas;
  std::vector<Happening> history;  // oldest first
  bool deleting = false;
  friend bool operator==(const Service&, const Service&) = default;

  // Null where there is no such version (any more).
  [[nodiscard]] const Version* find(VersionNumber number) const;
  [[nodiscard]] Version* find(VersionNumber number);
  void tell(WallTime at, std::string text);
};

// Of what people say. One sentence about the first thing that is wrong, beginning with the field.
[[nodiscard]] Status check_service_name(std::string_view name);
[[nodiscard]] Status check(const Settings& settings);
// A job that can be a replica: not an array, no gang, nothing that waits for others.
[[nodiscard]] Status check_replica(const model::JobSpec& job);
// What has to hold for plan(): of what was read from somewhere.
[[nodiscard]] Status check(const Service& service);

// --- What people do to a service; each checks first and changes nothing where it refuses ---

// With its first version, which is the stable one.
[[nodiscard]] Result<Service> make_service(std::string name, std::string owner, Settings settings,
                                           model::JobSpec job, WallTime now);
// A new version becomes the candidate, in the place of one that is on its way. `weight` below 100:
// it gets that part of the requests and stays there until it is promoted or taken back.
[[nodiscard]] Status update(Service& service, model::JobSpec job, std::uint32_t weight,
                            const std::string& by, WallTime now);
[[nodiscard]] Status promote(Service& service, std::uint32_t weight, const std::string& by,
                             WallTime now);
// Takes the candidate back, or, where there is none, goes to an earlier version: the one that was
// stable before, or the one that is named.
[[nodiscard]] Status roll_back(Service& service, std::optional<VersionNumber> to,
                               const std::string& by, WallTime now);
[[nodiscard]] Status change_settings(Service& service, Settings settings, const std::string& by,
                                     WallTime now);

}  // namespace divvy::serve
