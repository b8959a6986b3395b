#include "cli/template_files.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <system_error>

namespace divvy::cli {

TemplateFolders template_folders(const EnvironmentVariables& environment, const std::string& kind) {
  TemplateFolders folders;
  if (const auto config = environment("XDG_CONFIG_HOME")) {
    folders.push_back(std::filesystem::path(*config) / "divvy" / kind);
  } else if (const auto home = environment("HOME")) {
    folders.push_back(std::filesystem::path(*home) / ".config/divvy" / kind);
  }
  folders.push_back(std::filesystem::path("/etc/divvy") / kind);
  return folders;
}

TemplateFiles read_template_files(const TemplateFolders& folders) {
  TemplateFiles found;
  for (const std::filesystem::path& folder : folders) {
    std::error_code code;
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder, code)) {
      if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
    }
    std::ranges::sort(paths);
    for (const std::filesystem::path& path : paths) {
      std::ifstream stream(path);
      std::stringstream text;
      text << stream.rdbuf();
      if (stream) {
        found.files.push_back({path.stem().string(), path.string(), text.str()});
      } else {
        found.troubles.push_back(path.string() + " could not be read");
      }
    }
  }
  return found;
}

}  // namespace divvy::cli
