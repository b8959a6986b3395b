// What a member finds in its environment: who it is, who the others are, and where to meet them, in
// the variables that PyTorch, MPI and TensorFlow launchers read. Pure functions, callable from any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/job.h"

namespace divvy::run {

using Environment = std::map<std::string, std::string>;

// One member of an attempt and those that it works with.
struct Launch {
  model::JobId job;
  std::string name;
  std::string queue;
  std::string owner;
  std::uint32_t attempt = 0;
  std::uint32_t rank = 0;
  std::optional<model::ArrayTask> task;
  // Where each member of this attempt is reached, by rank: of an elastic job as many as there are.
  std::vector<std::string> hosts;
  // model/member_port.h
  std::uint16_t port = 0;
};

// Of `rank`, which is below hosts.size().
[[nodiscard]] Launch launch_of(const model::Job& job, std::uint32_t rank,
                               std::vector<std::string> hosts);

// DIVVY_* for every member. A gang's have RANK, WORLD_SIZE, MASTER_ADDR and their kin besides; one
// that is alone has not, because programs take them for the wish to wait for others.
[[nodiscard]] Environment launch_environment(const Launch& launch);

// Who a plain process runs as.
struct Account {
  std::string name;
  std::string home;
  std::string shell;
};

// Later ones win: the user's own, the launch's, what the job says, what its slices need. The job
// cannot change DIVVY_*, and what it preloads comes after what its slice preloads. In a container
// `account` is nothing: the image knows what the user's are.
[[nodiscard]] Environment member_environment(const std::optional<Account>& account,
                                             const Environment& launch, const Environment& job,
                                             const Environment& slice);

}  // namespace divvy::run
