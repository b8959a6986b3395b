// What is submitted becomes jobs, once: an array becomes its tasks, and a request that came twice
// with one key (the answer to the first was lost on the way) gives the jobs of the first.
// Called inside a change, so that jobs and key are there together or not at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/job.h"
#include "store/connection.h"

namespace divvy::store {

struct Submission {
  static constexpr std::size_t kLongestKey = 255;

  std::string owner;
  model::JobSpec spec;  // has passed model::check()
  WallTime at;
  std::string reason;              // Of the first step: "submitted by ada"
  std::optional<std::string> key;  // The caller's, unique among those of one owner
  std::string fingerprint;         // hash_text() of the request, with a key
};

struct Submitted {
  std::vector<model::Job> jobs;  // One; of an array its tasks. As they are now when `repeated`
  bool repeated = false;         // Nothing was added: they are from the first time
};

// kFailedPrecondition when the key was used for something else; kNotFound when a job to wait for
// does not exist.
[[nodiscard]] Result<Submitted> submit(Connection& connection, const Submission& submission);

// Forgets the keys of before.
[[nodiscard]] Status forget_keys(Connection& connection, WallTime before);

}  // namespace divvy::store
