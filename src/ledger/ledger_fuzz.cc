// Any bytes are a ledger, or one with a torn end, or a damaged one with the place of the damage;
// and what can be read can be written and read again.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "ledger/ledger_state.h"

namespace {

using namespace divvy::ledger;

void check_scan(std::string_view bytes) {
  const JournalScan scan = scan_journal(bytes);
  DIVVY_CHECK(scan.good_bytes <= bytes.size());
  DIVVY_CHECK(scan.damage || scan.good_bytes + scan.torn_bytes == bytes.size());
  const Replay replayed = replay(scan);
  if (replayed.damage) DIVVY_CHECK(replayed.damage->offset <= bytes.size());
  for (const auto& [gpu, share] : replayed.state.shares) {
    DIVVY_CHECK(share.thousandths() <= divvy::Share::kWhole);
  }
}

void check_record(std::string_view bytes) {
  (void)decode_first_state_file(bytes);
  const auto change = decode_ledger_change(bytes);
  if (!change) return;
  const std::string text = encode(*change);
  const auto again = decode_ledger_change(text);
  DIVVY_CHECK(again.has_value(), "{}", text);
  DIVVY_CHECK(encode(*again) == text, "{}", text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Checksums keep a fuzzer out, so records are also tried without any.
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_scan(bytes);
  check_record(bytes);
  return 0;
}
