// `divvy submit torch`: the command of each member of a PyTorch job. Pure, callable from any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

struct TorchLaunch {
  std::vector<std::string> words;  // for torchrun: its own options, the script, the script's
  std::optional<std::string> gpu;  // of each member, as --gpu has it
  std::optional<std::uint32_t> processes;  // of each member; nothing: one for each GPU
};
// One torchrun in each member, which meet at rank 0 by c10d. kInvalidArgument: there is no script.
[[nodiscard]] Result<std::vector<std::string>> torch_command(const TorchLaunch& launch);
// "train" of "train.py" among the words; empty where none is seen.
[[nodiscard]] std::string script_name(const std::vector<std::string>& words);

}  // namespace divvy::cli
