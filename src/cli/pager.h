// Text that is shown a screen at a time by another program. Runs on the main thread.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

// The program of that name in the folders of `path`, as a shell finds it.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::string& name,
                                                                const std::string& path);

// Starts `command` with `text` as its standard input and waits until it has ended, however it ends.
// An error: it could not be started.
[[nodiscard]] Status show_in_pager(std::vector<std::string> command, const std::string& text);

}  // namespace divvy::cli
