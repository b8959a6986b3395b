// Any packet is one checked request, one answer, or nothing; what was read says the same when it is
// written and read again.
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "run/shepherd_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto request = divvy::run::parse_shepherd_request(text)) {
    if (const auto* exec = std::get_if<divvy::run::ExecRequest>(&*request)) {
      DIVVY_CHECK(!exec->command.empty());
    }
    if (const auto* signal = std::get_if<divvy::run::SignalRequest>(&*request)) {
      DIVVY_CHECK(signal->signal > 0 && signal->signal < NSIG);
    }
    const std::string again = divvy::run::to_message(*request);
    if (again.size() <= divvy::run::kMaxShepherdMessage) {
      const auto reread = divvy::run::parse_shepherd_request(again);
      DIVVY_CHECK(reread && *reread == *request);
    }
  }
  if (const auto answer = divvy::run::parse_shepherd_answer(text)) {
    (void)divvy::run::parse_shepherd_answer(divvy::run::to_message(*answer));
  }
  return 0;
}
