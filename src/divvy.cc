// `divvy`: the program of the user's shell. Composition only: what the commands need is made here.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/app.h"
#include "config/config_file.h"
#include "container_parts.h"
#include "driver.h"
#include "kube_client.h"
#include "ledger/ledger_report.h"
#include "model/node.h"
#include "net/local_paths.h"
#include "nvml/inventory.h"
#include "nvml/library.h"

namespace {

divvy::Result<divvy::model::Node> take_inventory() {
  DIVVY_TRY(library, divvy::open_driver());
  return divvy::nvml::take_inventory(*library);
}

// Of the daemon that systemd starts; what is wrong in its file is for the doctor to tell.
divvy::cli::DaemonSettings daemon_settings() {
  constexpr const char* kFile = "/etc/divvy/divvyd.yaml";
  divvy::cli::DaemonSettings settings;
  std::error_code code;
  if (!std::filesystem::exists(kFile, code)) return settings;
  const auto config = divvy::config::load_config(kFile);
  if (!config) {
    settings.file = divvy::err(config.error());
    return settings;
  }
  const std::string& address = config->metrics.address;
  const std::string port = address.substr(address.rfind(':') + 1);
  settings.metrics_port = static_cast<std::uint16_t>(std::atoi(port.c_str()));
  if (!config->cdi.folder.empty()) settings.cdi_folders = {config->cdi.folder};
  return settings;
}

divvy::Result<std::string> read_ledger(const std::string& state_folder) {
  return divvy::ledger::ledger_document(state_folder.empty() ? divvy::net::state_folder()
                                                             : std::filesystem::path(state_folder));
}

divvy::Result<std::string> cdi_file() {
  DIVVY_TRY(node, take_inventory());
  divvy::inject::ContainerDevices devices(divvy::container_parts(node, {}));
  DIVVY_TRY(spec, devices.gpu_spec());
  return to_json(spec);
}

divvy::Status clean_cdi() {
  return divvy::inject::CdiFiles(divvy::net::state_folder() / "cdi-files").keep_only({});
}

// `divvy explain pod/NAME`: what a pod waits for stands in the objects of its cluster, and the
// program that reads them as kubectl does lies beside this one. Returns where there is no pod in
// the words, or no such program.
void explain_pod(const std::filesystem::path& program, int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const bool pod =
      std::ranges::any_of(words, [](const std::string& word) { return word.starts_with("pod/"); });
  if (!pod || words.front() != "explain") return;
  ::execv(program.c_str(), argv);
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path home = divvy::installation();
  explain_pod(home / "bin/kubectl-divvy", argc, argv);
  const bool simulated = divvy::wants_simulated_gpus();
  const auto run = divvy::net::client_run_folder(simulated);
  const divvy::cli::Services services{
      .version = DIVVY_VERSION,
      .inventory = take_inventory,
      .daemon = {.socket = divvy::net::api_socket(run.folder),
                 .program = home / "bin/divvyd",
                 .simulated = simulated,
                 .may_start = !run.of_the_machine},
      .libraries = {.shim = home / "lib/divvy/libdivvy.so", .simgpu = home / "lib/divvy/simgpu"},
      .state_folder = run.of_the_machine ? "/var/lib/divvy" : divvy::net::state_folder(),
      .daemon_settings = daemon_settings,
      .ledger = read_ledger,
      .cdi_file = cdi_file,
      .clean_cdi = clean_cdi,
      .now = {},
      .cluster = divvy::cluster_answers()};
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  return divvy::cli::run(arguments, services, divvy::cli::this_terminal(), std::cout, std::cerr);
}
