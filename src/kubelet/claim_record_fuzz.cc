// Any bytes as the record of claims: read or refused, and what was read is written and read the
// same.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kubelet/claim_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace divvy::kubelet;
  const auto read = read_claims({reinterpret_cast<const char*>(data), size});
  if (!read) return 0;
  const auto again = read_claims(write_claims(*read));
  DIVVY_CHECK(again.has_value() && *again == *read, "what was written is read the same");
  return 0;
}
