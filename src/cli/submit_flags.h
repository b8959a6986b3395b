// The options of `divvy submit` as fields of the job's document, over those that a file has. Pure
// apart from adding the options.
#pragma once

#include <boost/json/fwd.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace divvy::cli {

struct SubmitFlags {
  std::optional<std::string> name, queue, gpu, gpu_memory, topology, job_class, mode,
      working_directory;
  std::optional<std::string> image, cpu, ram, shm, grace, minimum_run, time_limit, expected, array;
  std::optional<std::uint32_t> members, least_members, pids, retries;
  std::optional<std::int32_t> priority;
  bool cap = false;
  std::optional<std::string> notify;
  bool keep = false;
  bool hold_for_capacity = false;
  bool input = false;
  std::vector<std::string> environment, secrets, mounts, ports, entry_point, ulimits, labels, after;
  std::vector<std::string> devices, models, denied_models;
};

void add_submit_flags(CLI::App& command, SubmitFlags& flags);

// Errors name the option. `command` replaces that of the document where it has words.
[[nodiscard]] Status apply(const SubmitFlags& flags, const std::vector<std::string>& command,
                           boost::json::object& document);

}  // namespace divvy::cli
