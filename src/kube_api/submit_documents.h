// A job of `divvy submit` as objects of Kubernetes: an Indexed Job, whose pods are the members and
// ask for their slices in Divvy's own annotations, and for members that speak with each other a
// headless Service, in which rank 0 has a name. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "model/job_spec.h"

namespace divvy::kube_api {

// Two jobs of one name are two Jobs: "train-x7k2p".
[[nodiscard]] std::string object_name(const model::JobSpec& spec, const std::string& suffix);

struct JobNames {
  std::string space;
  std::string name;         // object_name()
  std::string fingerprint;  // of what was sent, where it came with an Idempotency-Key
};
// Refused is what a pod cannot be told, by its field and with the way out.
[[nodiscard]] Result<boost::json::object> batch_job(const model::JobSpec& spec,
                                                    const JobNames& names);

// Nothing: its members need none. `uid` is that of the Job, with which it goes.
[[nodiscard]] std::optional<boost::json::object> rank_service(const model::JobSpec& spec,
                                                              const JobNames& names,
                                                              const std::string& uid);

// What opens a session, and other variables of its app, are for those alone who may read Secrets;
// its pod gets them from one, which goes with its Job. Nothing: it is no session.
[[nodiscard]] std::optional<boost::json::object> session_secret(const model::JobSpec& spec,
                                                                const JobNames& names,
                                                                const std::string& uid);

// Of a Job: `JobNames::fingerprint`.
inline constexpr std::string_view kFingerprintAnnotation = "divvy.dev/fingerprint";

}  // namespace divvy::kube_api
