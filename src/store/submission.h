// What is submitted becomes jobs, once: a request that came twice with one key (the answer to the
// first was lost on the way) gives the jobs of the first. Called inside a change, so that jobs and
// key are there together or not at all.
#pragma once

#include <functional>
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
  WallTime at;
  // Gives the jobs (one, or those of an array) their numbers, from `first` on without a gap.
  std::function<std::vector<model::Job>(model::JobId first)> make;
  std::optional<std::string> key;          // The caller's, unique among those of one owner
  std::string fingerprint;                 // hash_text() of the request, with a key
  std::optional<model::JobId> first = {};  // that nobody has; nothing: the next that the table has
};

struct Submitted {
  std::vector<model::Job> jobs;  // As they are now when `repeated`
  bool repeated = false;         // Nothing was added: they are from the first time
};

// kFailedPrecondition when the key was used for something else; kNotFound when a job to wait for
// does not exist.
[[nodiscard]] Result<Submitted> submit(Connection& connection, const Submission& submission);

// Forgets the keys of before.
[[nodiscard]] Status forget_keys(Connection& connection, WallTime before);

}  // namespace divvy::store
