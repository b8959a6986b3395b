// Small YAML files that users and operators put into folders by name: apps of sessions
// (app_template.h) and templates of jobs (job_template.h). Callable from any thread.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace divvy::cli {

// Where they lie, those that go first at first.
using TemplateFolders = std::vector<std::filesystem::path>;

// The user's own and the operator's: ~/.config/divvy/KIND, then /etc/divvy/KIND.
using EnvironmentVariables = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] TemplateFolders template_folders(const EnvironmentVariables& environment,
                                               const std::string& kind);

struct TemplateFile {
  std::string name;  // of the file, without ".yaml"
  std::string path;
  std::string text;
};
struct TemplateFiles {
  std::vector<TemplateFile> files;  // of each folder by name
  std::vector<std::string> troubles;
};
[[nodiscard]] TemplateFiles read_template_files(const TemplateFolders& folders);

}  // namespace divvy::cli
