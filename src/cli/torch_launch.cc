#include "cli/torch_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/member_processes.h"

namespace divvy::cli {
namespace {

// What a member knows only when it runs. One that is alone has no MASTER_ADDR. The variables of a
// gang say that each member is one process, which is what torchrun tells its own.
constexpr const char* kScript =
    R"(command -v torchrun >/dev/null 2>&1 || { echo 'torchrun is not there; get it with pip install torch' >&2; exit 127; }
processes=$1
shift
meet=${MASTER_ADDR:-127.0.0.1}:${MASTER_PORT:-$DIVVY_PORT}
unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE NODE_RANK
exec torchrun --nnodes="$DIVVY_MEMBERS" --nproc-per-node="$processes" --rdzv-backend=c10d --rdzv-endpoint="$meet" --rdzv-id="$DIVVY_JOB_ID.$DIVVY_ATTEMPT" "$@")";

}  // namespace

Result<std::vector<std::string>> torch_command(const TorchLaunch& launch) {
  if (launch.words.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "no script was given: divvy submit torch --gpu 1 --members 4 -- train.py");
  }
  DIVVY_TRY(processes, processes_of_member(launch.gpu, launch.processes));
  std::vector<std::string> command{"sh", "-c", kScript, "torch", fmt::to_string(processes)};
  command.insert(command.end(), launch.words.begin(), launch.words.end());
  return command;
}

std::string script_name(const std::vector<std::string>& words) {
  const auto found = std::ranges::find_if(
      words, [](const std::string& word) { return word.ends_with(".py") && word.size() > 3; });
  return found == words.end() ? "" : std::filesystem::path(*found).stem().string();
}

}  // namespace divvy::cli
