// The commands `divvy ledger show` and `divvy ledger verify`: what divvyd has written down, read
// from its file whether it runs or not. Runs on the main thread.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "base/result.h"
#include "cli/style.h"

namespace CLI {
class App;
}

namespace divvy::cli {

// The ledger of a state folder as a document of kind Ledger; an empty folder means that of this
// machine's daemon.
using LedgerReader = std::function<Result<std::string>(const std::string& state_folder)>;

struct LedgerArguments {
  std::string format = "table";
  std::string state_folder;
};

// Adds `ledger` with everything below it to the command line. `arguments` outlives it.
CLI::App* add_ledger(CLI::App& app, LedgerArguments& arguments);

// Who holds what, one line per slice.
[[nodiscard]] Result<std::string> ledger_table(const std::string& document, const Style& style);
// What the file is made of and whether all of it can be read.
struct LedgerVerdict {
  std::string text;
  bool damaged = false;
};
[[nodiscard]] Result<LedgerVerdict> ledger_verdict(const std::string& document);

// Runs the command below `ledger` that was given. A wrong option is an error for the usage message;
// everything else has been said and is an exit status.
[[nodiscard]] Result<int> run_ledger(const CLI::App& ledger, const LedgerArguments& arguments,
                                     const LedgerReader& reader, const Style& style,
                                     std::ostream& out, std::ostream& err);

}  // namespace divvy::cli
