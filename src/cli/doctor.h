// `divvy doctor`: looks at the machine, the driver and the daemon, and says of everything that is
// not as it should be what it is and how to mend it. It changes nothing.
//
// The checks are functions from a DoctorInput to findings; what they look at can be a folder of a
// test and functions that answer what the test wants. Runs on the main thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/daemon.h"
#include "cli/gpus.h"
#include "cli/output.h"
#include "cli/style.h"

namespace divvy::cli {

enum class Verdict { kOk, kNote, kWarning, kError };
[[nodiscard]] std::string_view to_string(Verdict verdict);

struct Finding {
  std::string check;  // "driver.kernel_module"
  Verdict verdict = Verdict::kOk;
  std::string text;  // One sentence without a full stop
  std::string fix;   // What to do; empty when all is well
};
using Findings = std::vector<Finding>;

// What the daemon's configuration says about this machine.
struct DaemonSettings {
  Status file;                        // Of the file, if there is one: a line for each problem
  std::uint16_t metrics_port = 9400;  // 0: metrics are not served
  std::vector<std::filesystem::path> cdi_folders = {"/etc/cdi", "/var/run/cdi"};
};

// What the checks look at.
struct DoctorInput {
  std::filesystem::path root = "/";  // All paths of the system are looked up below it
  std::string version;               // Of this `divvy`
  bool simulated = false;            // The environment asks for simulated GPUs
  uid_t uid = 0;
  std::filesystem::path run_folder;
  std::filesystem::path state_folder;
  std::filesystem::path shim;
  std::string search_path;  // PATH
  std::string kernel;       // "6.1.0-28-amd64"
  std::uint64_t open_files = 0;
  DaemonSettings settings;
  WallTime now;
  bool clock_synchronized = true;
  Inventory inventory;
  std::function<Result<Reply>(const std::string& path)> ask_daemon;
  // Starts a program with the library in it. The error says what the loader said.
  std::function<Status()> preload;
};

[[nodiscard]] Findings examine_driver(const DoctorInput& input);
// The daemon of root shares simulated GPUs, which its users have without a driver.
[[nodiscard]] bool has_simulated_gpus_of_root(const DoctorInput& input);
[[nodiscard]] Findings examine_daemon(const DoctorInput& input);
[[nodiscard]] Findings examine_system(const DoctorInput& input);
// All of them.
[[nodiscard]] Findings examine(const DoctorInput& input);

[[nodiscard]] std::string doctor_document(const Findings& findings);
[[nodiscard]] std::string doctor_text(const Findings& findings, const Style& style);

// Prints, and gives the exit status: 1 when there are errors.
int run_doctor(const DoctorInput& input, OutputFormat format, const Style& style,
               std::ostream& out);

}  // namespace divvy::cli
