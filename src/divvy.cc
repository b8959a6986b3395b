// `divvy`: the program of the user's shell. Composition only: what the commands need is made here.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/app.h"
#include "container_parts.h"
#include "driver.h"
#include "model/node.h"
#include "net/local_paths.h"
#include "node/inventory.h"
#include "node/ledger_report.h"
#include "nvml/library.h"

namespace {

divvy::Result<divvy::model::Node> take_inventory() {
  DIVVY_TRY(library, divvy::open_driver());
  return divvy::node::take_inventory(*library);
}

divvy::Result<std::string> read_ledger(const std::string& state_folder) {
  return divvy::node::ledger_document(state_folder.empty() ? divvy::net::state_folder()
                                                           : std::filesystem::path(state_folder));
}

divvy::Result<std::string> cdi_file() {
  DIVVY_TRY(node, take_inventory());
  divvy::node::ContainerDevices devices(divvy::container_parts(node, {}));
  DIVVY_TRY(spec, devices.gpu_spec());
  return to_json(spec);
}

divvy::Status clean_cdi() {
  return divvy::node::CdiFiles(divvy::net::state_folder() / "cdi-files").keep_only({});
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path home = divvy::installation();
  const bool simulated = divvy::wants_simulated_gpus();
  const divvy::cli::Services services{
      .version = DIVVY_VERSION,
      .inventory = take_inventory,
      .daemon = {.socket = divvy::net::api_socket(divvy::net::run_folder()),
                 .program = home / "bin/divvyd",
                 .simulated = simulated},
      .libraries = {.shim = home / "lib/divvy/libdivvy.so",
                    .simgpu = simulated ? home / "lib/divvy/simgpu" : std::filesystem::path()},
      .ledger = read_ledger,
      .cdi_file = cdi_file,
      .clean_cdi = clean_cdi};
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  return divvy::cli::run(arguments, services, divvy::cli::this_terminal(), std::cout, std::cerr);
}
