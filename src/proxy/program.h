// Runs a program and waits for its end, with a clean environment and nothing of ours open. Callable
// from any thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::proxy {

// Where it is, on the usual paths of programs for administrators, too; empty: nowhere.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);

// `words[0]` is a path. What it prints goes into the file. Success: exit status 0; otherwise the
// end of what it printed.
[[nodiscard]] Status run_program(std::vector<std::string> words, const std::filesystem::path& log,
                                 std::chrono::seconds patience);

}  // namespace divvy::proxy
