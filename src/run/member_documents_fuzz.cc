// The files of a member's folder may hold anything: each is read whole or refused, and a success is
// never made up.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "run/log_record.h"
#include "run/member_documents.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto orders = divvy::run::parse_orders(text)) {
    const auto again = divvy::run::parse_orders(divvy::run::to_document(*orders));
    DIVVY_CHECK(again && *again == *orders);
  }
  if (const auto watch = divvy::run::parse_watch(text)) {
    const auto again = divvy::run::parse_watch(divvy::run::to_document(*watch));
    DIVVY_CHECK(again && *again == *watch);
  }
  if (const auto ending = divvy::run::parse_ending(text)) {
    const auto again = divvy::run::parse_ending(divvy::run::to_document(*ending));
    DIVVY_CHECK(again && *again == *ending);
  }
  if (const auto record = divvy::run::parse_log_record(text)) {
    const std::string line = divvy::run::to_text(*record);
    const auto again =
        divvy::run::parse_log_record(std::string_view(line).substr(0, line.size() - 1));
    DIVVY_CHECK(again && again->at == record->at && again->bytes == record->bytes);
  }
  return 0;
}
