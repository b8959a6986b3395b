// Any bytes are a job or one sentence that says what is wrong; a job that was read is written and
// read back as the same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/job_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spec = divvy::model::read_job_spec(text);
  if (!spec) {
    DIVVY_CHECK(!spec.error().message.empty());
    return 0;
  }
  (void)check(*spec);
  const auto again = divvy::model::read_job_spec(divvy::model::write_job_spec(*spec));
  DIVVY_CHECK(again.has_value() && *again == *spec);
  return 0;
}
