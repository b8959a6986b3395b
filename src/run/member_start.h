// From a job that was given a place to what a runtime starts. Pure, callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/job.h"
#include "run/runtime.h"
#include "run/users.h"

namespace divvy::run {

// What a member was granted (agent::Tenants): a plain process is given the variables, a container
// the devices; and either the secrets of the job's owner.
struct MemberGrant {
  Environment environment;
  std::vector<std::string> cdi_devices;
  Environment secrets = {};
};

// The member `rank` of the job's present attempt, whose members are at `hosts`, by rank.
[[nodiscard]] MemberStart member_start(const model::Job& job, std::uint32_t rank,
                                       const std::vector<std::string>& hosts,
                                       const MachineUser& user, const MemberGrant& grant);

}  // namespace divvy::run
