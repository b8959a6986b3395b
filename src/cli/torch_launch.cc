#include "cli/torch_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/units.h"

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

constexpr std::uint32_t kWhole = 1000;

}  // namespace

Result<std::vector<std::string>> torch_command(const TorchLaunch& launch) {
  if (launch.words.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "no script was given: divvy submit torch --gpu 1 --members 4 -- train.py");
  }
  std::uint32_t processes = 1;
  if (launch.processes) {
    processes = *launch.processes;
    if (processes == 0) {
      return err(ErrorCode::kInvalidArgument, "--processes: a member has one at least");
    }
  } else if (launch.gpu) {
    DIVVY_TRY(share, with_context(parse_share(*launch.gpu), "--gpu"));
    processes = std::max<std::uint32_t>(1, (share.thousandths() + kWhole - 1) / kWhole);
  }
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
