#include "config/live_config.h"

#include "base/log.h"
#include "base/text.h"
#include "config/config_file.h"
#include "config/schema.h"

namespace divvy::config {

Result<LiveConfig> LiveConfig::create(std::optional<std::filesystem::path> file,
                                      DaemonConfig defaults, Override before_file) {
  LiveConfig live(std::move(file), std::move(defaults), std::move(before_file));
  DIVVY_TRY(config, live.read());
  live.now_ = std::move(config);
  return live;
}

Result<DaemonConfig> LiveConfig::read() const {
  DaemonConfig config = defaults_;
  if (file_) {
    DIVVY_TRY(loaded, load_config(*file_, defaults_));
    config = std::move(loaded);
  }
  if (before_file_) before_file_(config);
  return config;
}

Result<LiveConfig::Reloaded> LiveConfig::reload() {
  DIVVY_TRY(wanted, read());
  Reloaded reloaded;
  for (const Setting& setting : settings()) {
    const std::string before = setting.write(now_);
    const std::string after = setting.write(wanted);
    if (before == after) continue;
    if (!setting.reloadable) {
      reloaded.need_restart.push_back(setting.path());
      continue;
    }
    reloaded.changed.push_back(fmt::format("{}: {} -> {}", setting.path(), before, after));
    // Only this setting: one that needs a restart keeps the value that holds. What was written
    // reads back as the same value, and it is right or we would not have come here.
    const ReadConfig one =
        read_config(fmt::format("{}:\n  {}: {}\n", setting.section, setting.key, after), now_);
    now_ = one.config;
  }
  if (!reloaded.changed.empty()) {
    for (const auto& apply : apply_) apply(now_);
  }
  return reloaded;
}

bool LiveConfig::reload_and_log() {
  if (!file_) {
    log_warning("there is no configuration file to read again", {});
    return true;
  }
  const auto reloaded = reload();
  if (!reloaded) {
    for (const std::string_view line : split(reloaded.error().message, '\n')) {
      log_error("configuration is wrong, the old settings hold", {{"problem", line}});
    }
    return false;
  }
  for (const std::string& path : reloaded->need_restart) {
    log_warning(path + " needs a restart", {{"file", file_->string()}});
  }
  for (const std::string& change : reloaded->changed) {
    log_info("setting changed", {{"setting", change}});
  }
  log_info("configuration read again",
           {{"file", file_->string()}, {"changed", reloaded->changed.size()}});
  return true;
}

}  // namespace divvy::config
