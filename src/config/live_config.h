// The settings of a running daemon: reads its file again and passes on what may change meanwhile.
//
// Belongs to the thread that waits for signals; the functions given to on_change() are called on
// that thread and see to their own locks.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "config/daemon_config.h"

namespace divvy::config {

class LiveConfig {
 public:
  // What goes before the file: the command line and the environment.
  using Override = std::function<void(DaemonConfig&)>;

  // Without a file there is nothing to read again. `defaults` holds for what the file does not
  // name.
  static Result<LiveConfig> create(std::optional<std::filesystem::path> file, DaemonConfig defaults,
                                   Override before_file);

  [[nodiscard]] const DaemonConfig& now() const { return now_; }
  [[nodiscard]] const std::optional<std::filesystem::path>& file() const { return file_; }

  // Called with all settings whenever one that may change did.
  void on_change(std::function<void(const DaemonConfig&)> apply) {
    apply_.push_back(std::move(apply));
  }

  struct Reloaded {
    std::vector<std::string> changed;       // "log.level: info -> debug"
    std::vector<std::string> need_restart;  // "folders.run"
  };
  // A file that is wrong changes nothing; the error has a line for each problem.
  [[nodiscard]] Result<Reloaded> reload();
  // The same, told to the log. True when the file was right.
  bool reload_and_log();

 private:
  LiveConfig(std::optional<std::filesystem::path> file, DaemonConfig defaults, Override before_file)
      : file_(std::move(file)),
        defaults_(std::move(defaults)),
        before_file_(std::move(before_file)) {}
  [[nodiscard]] Result<DaemonConfig> read() const;

  std::optional<std::filesystem::path> file_;
  DaemonConfig defaults_;
  Override before_file_;
  DaemonConfig now_;
  std::vector<std::function<void(const DaemonConfig&)>> apply_;
};

}  // namespace divvy::config
