// Services as the daemon describes them (JSON in), as text for people. Pure, callable from any
// thread.
#pragma once

#include <string>

#include "cli/answer.h"
#include "cli/list_view.h"
#include "cli/style.h"

namespace divvy::cli {

[[nodiscard]] ListView service_list_view();
// "http://127.0.0.1:8000"
[[nodiscard]] std::string service_address(const Answer& service);
// "3 replicas", "1 to 5 replicas"
[[nodiscard]] std::string replicas_text(const Answer& service);
[[nodiscard]] std::string service_summary(const Answer& service, const Style& style);
[[nodiscard]] std::string service_history(const Answer& service, const Style& style);

}  // namespace divvy::cli
