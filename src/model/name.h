// The rule for names that users pick (tenants, jobs): 1 to 128 of a-z, A-Z, 0-9, '.', '_' and '-',
// with a letter or digit at both ends. Such a name is safe in a path, a log line, a URL and a
// terminal.
#pragma once

#include <string_view>

#include "base/result.h"

namespace divvy::model {

// `of` says whose name it is ("job"), for the message.
[[nodiscard]] Status check_name(std::string_view of, std::string_view name);

// Names of tenants that nobody picks: those of members of jobs, which begin with "job-" and a digit
// ("job-7.1.0"), and numbers, by which tenants are found as well.
[[nodiscard]] bool is_reserved_tenant_name(std::string_view name);

}  // namespace divvy::model
