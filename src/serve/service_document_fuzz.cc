// Any bytes are a service, a request about one, or one sentence that says what is wrong; a service
// that was read is written and read back as the same, and can be planned for.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/plan.h"
#include "serve/service_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace divvy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto service = serve::read_service(text);
  if (service) {
    const auto again = serve::read_service(serve::write_service(*service));
    DIVVY_CHECK(again.has_value() && *again == *service);
    serve::Service planned = *service;
    serve::Memory memory;
    (void)serve::plan(planned, {}, {}, memory, WallTime(std::chrono::hours(1)));
    DIVVY_CHECK(check(planned).has_value());
  } else {
    DIVVY_CHECK(!service.error().message.empty());
  }
  if (const auto wanted = serve::read_new_service(text)) {
    const auto made = serve::make_service(wanted->name, "ada", wanted->settings, wanted->job, {});
    if (made) {
      const auto kept = serve::read_service(serve::write_service(*made));
      DIVVY_CHECK(kept.has_value() && *kept == *made);
    }
  }
  (void)serve::read_settings_change({}, text);
  (void)serve::read_new_version(text);
  (void)serve::read_promotion(text);
  (void)serve::read_roll_back(text);
  return 0;
}
