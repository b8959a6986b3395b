#include "run/launch_environment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "model/member_port.h"

namespace divvy::run {
namespace {

// How the members of one host are numbered among themselves.
struct LocalPlace {
  std::uint32_t rank = 0;  // among those of its host
  std::uint32_t size = 0;
  std::uint32_t host = 0;  // among the hosts, in the order in which they first occur
  std::uint32_t hosts = 0;
};

LocalPlace local_place(const Launch& launch) {
  LocalPlace place;
  std::vector<std::string_view> seen;
  const std::string& own = launch.hosts[launch.rank];
  for (std::uint32_t rank = 0; rank < launch.hosts.size(); ++rank) {
    const std::string& host = launch.hosts[rank];
    if (host == own) {
      if (rank < launch.rank) ++place.rank;
      ++place.size;
    }
    if (std::ranges::find(seen, host) == seen.end()) {
      if (host == own) place.host = static_cast<std::uint32_t>(seen.size());
      seen.push_back(host);
    }
  }
  place.hosts = static_cast<std::uint32_t>(seen.size());
  return place;
}

// A host's name has no character that JSON would want escaped (model/name.h, or an address).
std::string tf_config(const Launch& launch) {
  std::vector<std::string> workers;
  workers.reserve(launch.hosts.size());
  for (std::size_t rank = 0; rank < launch.hosts.size(); ++rank) {
    workers.push_back(fmt::format("\"{}:{}\"", launch.hosts[rank], launch.port + rank));
  }
  return fmt::format(R"({{"cluster":{{"worker":[{}]}},"task":{{"type":"worker","index":{}}}}})",
                     fmt::join(workers, ","), launch.rank);
}

void add_gang(const Launch& launch, Environment& result) {
  const LocalPlace place = local_place(launch);
  const std::string rank = fmt::to_string(launch.rank);
  const std::string size = fmt::to_string(launch.hosts.size());
  const std::string local_rank = fmt::to_string(place.rank);
  const std::string local_size = fmt::to_string(place.size);
  const std::string host = fmt::to_string(place.host);

  result["MASTER_ADDR"] = launch.hosts.front();
  result["MASTER_PORT"] = fmt::to_string(launch.port);
  result["RANK"] = rank;
  result["WORLD_SIZE"] = size;
  result["LOCAL_RANK"] = local_rank;
  result["LOCAL_WORLD_SIZE"] = local_size;
  result["NODE_RANK"] = host;
  result["GROUP_RANK"] = host;
  result["GROUP_WORLD_SIZE"] = fmt::to_string(place.hosts);

  result["OMPI_COMM_WORLD_RANK"] = rank;
  result["OMPI_COMM_WORLD_SIZE"] = size;
  result["OMPI_COMM_WORLD_LOCAL_RANK"] = local_rank;
  result["OMPI_COMM_WORLD_LOCAL_SIZE"] = local_size;
  result["OMPI_COMM_WORLD_NODE_RANK"] = local_rank;
  result["OMPI_UNIVERSE_SIZE"] = size;
  result["PMI_RANK"] = rank;
  result["PMI_SIZE"] = size;
  result["MPI_LOCALRANKID"] = local_rank;
  result["MPI_LOCALNRANKS"] = local_size;

  result["TF_CONFIG"] = tf_config(launch);
}

}  // namespace

Launch launch_of(const model::Job& job, std::uint32_t rank, std::vector<std::string> hosts) {
  DIVVY_CHECK(rank < hosts.size(), "rank {} of {} members", rank, hosts.size());
  Launch launch;
  launch.job = job.id;
  launch.name = job.spec.name;
  launch.queue = job.spec.queue;
  launch.owner = job.owner;
  launch.attempt = job.attempt;
  launch.rank = rank;
  launch.task = job.task;
  launch.port = model::first_port(job.id, job.attempt, hosts.size());
  launch.hosts = std::move(hosts);
  return launch;
}

Environment launch_environment(const Launch& launch) {
  DIVVY_CHECK(launch.rank < launch.hosts.size());
  Environment result;
  result["DIVVY_JOB_ID"] = fmt::to_string(launch.job.value());
  result["DIVVY_JOB_NAME"] = launch.name;
  result["DIVVY_JOB_OWNER"] = launch.owner;
  result["DIVVY_QUEUE"] = launch.queue;
  result["DIVVY_ATTEMPT"] = fmt::to_string(launch.attempt);
  result["DIVVY_RANK"] = fmt::to_string(launch.rank);
  result["DIVVY_MEMBERS"] = fmt::to_string(launch.hosts.size());
  result["DIVVY_PORT"] = fmt::to_string(launch.port + launch.rank);
  result["DIVVY_HOSTS"] = fmt::format("{}", fmt::join(launch.hosts, ","));
  if (launch.task) {
    result["DIVVY_ARRAY_ID"] = fmt::to_string(launch.task->array.value());
    result["DIVVY_ARRAY_INDEX"] = fmt::to_string(launch.task->index);
  }
  if (launch.hosts.size() > 1) add_gang(launch, result);
  return result;
}

Environment member_environment(const std::optional<Account>& account, const Environment& launch,
                               const Environment& job, const Environment& slice) {
  constexpr const char* kPreload = "LD_PRELOAD";
  Environment result;
  if (account) {
    result = {{"PATH", "/usr/local/bin:/usr/bin:/bin"},
              {"HOME", account->home},
              {"USER", account->name},
              {"LOGNAME", account->name},
              {"SHELL", account->shell}};
  }
  for (const auto& [name, value] : launch) result[name] = value;
  for (const auto& [name, value] : job) {
    if (!name.starts_with("DIVVY_")) result[name] = value;
  }
  for (const auto& [name, value] : slice) {
    std::string& there = result[name];
    there = name == kPreload && !there.empty() ? fmt::format("{}:{}", value, there) : value;
  }
  return result;
}

}  // namespace divvy::run
