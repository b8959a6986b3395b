// Times that come again are written by users. Whatever is said, it is refused with words or comes
// later than now.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/cron.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cron = divvy::model::Cron::parse(text);
  if (!cron) {
    DIVVY_CHECK(!cron.error().message.empty(), "an error without words");
    return 0;
  }
  const divvy::WallTime now{std::chrono::seconds(1'794'744'000)};
  const auto next = cron->next(now);
  DIVVY_CHECK(!next || *next > now, "it comes in the past");
  DIVVY_CHECK(divvy::model::Cron::parse(cron->text()).has_value(), "it is not read again");
  return 0;
}
