// What the ledger of a state folder says, for people and programs: `divvy ledger show` and `divvy
// ledger verify`. Reads the file and changes nothing, whether a daemon runs or not. Callable from
// any thread and process.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace divvy::ledger {

// A document of kind Ledger in the schema divvy/v1. A damaged ledger is an answer, with everything
// up to the damage. kNotFound where there is none, kPermissionDenied for whoever may not read it.
[[nodiscard]] Result<std::string> ledger_document(const std::filesystem::path& state_folder);

}  // namespace divvy::ledger
