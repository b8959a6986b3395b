// One MPS control daemon of the driver (nvidia-cuda-mps-control) as a process: started for one GPU
// with directories of its own, asked, told to quit, found again after a restart of ours.
//
// Used by share/mps.h, which guards it: one thread at a time. Every call may block for as long as
// the driver's program takes, seconds at worst. The process is no child that ends with us: programs
// go on using it while divvyd is being replaced.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "model/gpu_uuid.h"
#include "sys/process.h"

namespace divvy::share {

struct MpsControlOptions {
  // A name to look up in PATH, or a path.
  std::string program = "nvidia-cuda-mps-control";
  std::chrono::milliseconds start_timeout{10'000};
  // How long running clients get to finish when it is told to quit; then it is killed.
  std::chrono::milliseconds quit_timeout{5'000};
};

class MpsControl {
 public:
  // `folder` belongs to this one alone; it is made by start() and removed by stop().
  MpsControl(model::GpuUuid gpu, std::filesystem::path folder, const MpsControlOptions& options);

  // Starts it and waits until it answers. One that an earlier divvyd left is taken over.
  // kUnsupported: the driver's program is not installed.
  [[nodiscard]] Status start();
  // Finds the process that an earlier divvyd started in this folder. False: there is none any more.
  [[nodiscard]] bool take_over();
  // Quits it, or kills it, and removes its folder. Also when it does not run.
  void stop();

  // Readable when the process is gone; -1 when none was started.
  [[nodiscard]] int process_fd() const { return process_.get(); }
  [[nodiscard]] bool running() const;
  // After it died: collects the process, so that start() begins anew.
  void forget();

  [[nodiscard]] static Status check_installed(const MpsControlOptions& options);
  // Of the daemon whose folder this is. Kept when a daemon that died is started again.
  [[nodiscard]] static std::filesystem::path pipe_folder(const std::filesystem::path& folder) {
    return folder / "pipe";
  }
  [[nodiscard]] std::filesystem::path log_folder() const { return folder_ / "log"; }
  [[nodiscard]] const model::GpuUuid& gpu() const { return gpu_; }

  // The GPU whose daemon a folder was made for, when an earlier divvyd left it.
  [[nodiscard]] static std::optional<model::GpuUuid> gpu_of_folder(
      const std::filesystem::path& folder);

 private:
  [[nodiscard]] Status launch(const std::string& program);
  [[nodiscard]] Status wait_until_it_answers(const std::string& program);
  // Lines to the daemon, by another instance of its own program. False: nobody listens.
  [[nodiscard]] bool tell(const std::string& program, const std::string& lines,
                          std::chrono::milliseconds timeout) const;
  [[nodiscard]] std::string last_words() const;
  [[nodiscard]] std::filesystem::path pipe_folder() const { return pipe_folder(folder_); }

  model::GpuUuid gpu_;
  std::filesystem::path folder_;
  MpsControlOptions options_;
  sys::ProcessName name_;
  UniqueFd process_;
};

}  // namespace divvy::share
