// Reads a configuration file whole, with everything that is wrong in it, and writes one. Pure apart
// from load_config(), which opens a file; callable from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/daemon_config.h"
#include "config/yaml_reader.h"

namespace divvy::config {

struct ReadConfig {
  DaemonConfig config;            // What is right in the file over the defaults
  std::vector<Problem> problems;  // In the order of their places; the file is refused if any
};

// `defaults` holds for what the file does not name.
[[nodiscard]] ReadConfig read_config(std::string_view text, const DaemonConfig& defaults = {});

// "/etc/divvy/divvyd.yaml:3:5: there is no setting ...", without a line end.
[[nodiscard]] std::string problem_line(const std::filesystem::path& file, const Problem& problem);

// The error holds one problem_line() for each problem (kInvalidArgument), or why the file cannot be
// read.
[[nodiscard]] Result<DaemonConfig> load_config(const std::filesystem::path& file,
                                               const DaemonConfig& defaults = {});

// One setting as it stands on a command line, "health.sample_interval=5s", with the same checks as
// in a file.
[[nodiscard]] Status set_by_text(DaemonConfig& config, std::string_view text);

// A file that reads back as `config`, with what each setting means beside it.
[[nodiscard]] std::string write_config(const DaemonConfig& config = {});

// The page docs/configuration.md.
[[nodiscard]] std::string configuration_page();

}  // namespace divvy::config
