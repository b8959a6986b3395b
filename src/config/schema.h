// Every setting of divvyd, in one table: where it stands in the file, what it may be, what it means
// and whether it can change while the daemon runs. From the table come the check of a file, the
// default file, the page docs/configuration.md and the list of what a reload changed, so that none
// of them can disagree with another. Pure, callable from any thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/daemon_config.h"
#include "config/values.h"

namespace divvy::config {

struct Section {
  std::string_view name;
  std::string_view meaning;
};

struct Setting {
  std::string_view section;
  std::string_view key;  // Within the section
  std::string kind;      // "a time from 100ms to 1h"
  std::string_view meaning;
  bool reloadable = false;  // SIGHUP changes it; otherwise it needs a restart
  std::function<void(const YamlNode&, DaemonConfig&, Problems&)> read;
  std::function<std::string(const DaemonConfig&)> write;  // As it would stand in a file

  // "health.sample_interval"
  [[nodiscard]] std::string path() const;
};

// In the order of the file.
[[nodiscard]] std::span<const Section> sections();
[[nodiscard]] std::span<const Setting> settings();
[[nodiscard]] std::vector<const Setting*> settings_of(std::string_view section);

}  // namespace divvy::config
