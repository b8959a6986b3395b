#include "run/member_start.h"

namespace divvy::run {

MemberStart member_start(const model::Job& job, std::uint32_t rank,
                         const std::vector<std::string>& hosts, const MachineUser& user,
                         const MemberGrant& grant) {
  MemberStart member;
  member.key = {job.id, job.attempt, rank};
  member.command = job.spec.command;
  member.uid = user.uid;
  member.gid = user.gid;
  member.groups = user.groups;
  member.limits = job.spec.limits;
  member.container = job.spec.container;
  member.grace = job.spec.grace;
  member.keep_input = job.spec.keep_input;
  member.working_directory = job.spec.working_directory;
  member.secrets = grant.secrets;
  const Environment launch = launch_environment(launch_of(job, rank, hosts));
  if (job.spec.container) {
    // The image has the user's own, and the device brings the slice's.
    member.environment = member_environment(std::nullopt, launch, job.spec.environment, {});
    member.cdi_devices = grant.cdi_devices;
    return member;
  }
  member.environment =
      member_environment(user.account, launch, job.spec.environment, grant.environment);
  if (member.working_directory.empty()) member.working_directory = user.account.home;
  return member;
}

}  // namespace divvy::run
