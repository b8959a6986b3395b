// Any body and any query is something that makes sense, or one sentence about what is wrong.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/job_documents.h"
#include "api/queue_documents.h"
#include "api/stream_requests.h"
#include "api/what_if_request.h"
#include "base/check.h"

using namespace divvy;

template <typename T>
static void expect_reason(const Result<T>& result) {
  DIVVY_CHECK(result.has_value() || !result.error().message.empty());
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto spec = api::parse_job_request(text)) {
    DIVVY_CHECK(model::check(*spec).has_value());
  } else {
    expect_reason(spec);
  }
  static const auto kJob = api::parse_job_request(R"({"gpu":1,"command":["a"]})");
  if (const auto changed = api::parse_job_change(*kJob, text)) {
    DIVVY_CHECK(model::check(*changed).has_value() && changed->command == kJob->command);
  } else {
    expect_reason(changed);
  }
  if (const auto filter = api::parse_jobs_query(text)) {
    DIVVY_CHECK(filter->limit >= 1 && filter->limit <= store::JobFilter::kMostPerPage);
    DIVVY_CHECK(filter->states.size() <= 8);
  }
  expect_reason(api::parse_watch_query(text));
  expect_reason(api::parse_usage_query(text));
  expect_reason(api::parse_channel_request(text));
  expect_reason(api::parse_join_query(std::string(text)));
  expect_reason(api::parse_what_if_request(text));
  if (const auto queue = api::read_queue_settings("research", text)) {
    const auto again = api::read_queue_settings("research", api::write_queue_settings(*queue));
    DIVVY_CHECK(again.has_value() && *again == *queue);
  }
  if (const auto user = api::read_user_settings("ada", text)) {
    const auto again = api::read_user_settings("ada", api::write_user_settings(*user));
    DIVVY_CHECK(again.has_value() && *again == *user);
  }
  return 0;
}
