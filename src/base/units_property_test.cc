// What has to hold for every quantity and for every text, not only for the examples in
// units_test.cc.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "base/units.h"

namespace divvy {
namespace {

Share any_share() { return Share(*rc::gen::inRange<std::uint32_t>(0, Share::kMaxThousandths + 1)); }

// Bytes of every size, often a round multiple of a unit, as real amounts are.
Bytes any_bytes() {
  const auto shift = *rc::gen::inRange(0, 64);
  return Bytes(*rc::gen::arbitrary<std::uint64_t>() << shift);
}

// Text that is nearly a quantity, which finds more than random bytes do.
std::string nearly_a_quantity() {
  return *rc::gen::container<std::string>(
      rc::gen::oneOf(rc::gen::elementOf(std::string("0123456789..  kKmMgGtTiIbB-+,e%")),
                     rc::gen::arbitrary<char>()));
}

void check_message(const Error& error, std::string_view example) {
  const auto lines = split(error.message, '\n');
  RC_ASSERT(lines.size() == 4U);
  const std::string_view shown = lines[1].substr(2);
  RC_ASSERT(lines[0].find("\"" + std::string(shown) + "\"") != std::string_view::npos);
  RC_ASSERT(lines[2].find_first_not_of(' ') == lines[2].size() - 1);
  RC_ASSERT(lines[2].ends_with('^'));
  RC_ASSERT(lines[2].size() - 3 <= shown.size());
  RC_ASSERT(lines[3] == example);
  for (const char c : error.message) RC_ASSERT(c == '\n' || (c >= 0x20 && c < 0x7F));
}

RC_GTEST_PROP(BytesProperty, PrintedReadsBackAsTheSame, ()) {
  const Bytes bytes = any_bytes();
  RC_ASSERT((parse_bytes(to_string(bytes)) == bytes));
}

RC_GTEST_PROP(BytesProperty, AnyTextIsReadOrExplained, ()) {
  const std::string text = nearly_a_quantity();
  const auto parsed = parse_bytes(text);
  if (!parsed) check_message(parsed.error(), "write it like 10GiB, 512Mi or 1.5G");
}

RC_GTEST_PROP(BytesProperty, CheckedArithmeticUndoesItself, ()) {
  const Bytes a = any_bytes();
  const Bytes b = any_bytes();
  if (const auto sum = checked_add(a, b)) RC_ASSERT(*sum - b == a);
  RC_ASSERT(checked_sub(a, b).has_value() == (a >= b));
}

RC_GTEST_PROP(ShareProperty, PrintedReadsBackAsTheSame, ()) {
  const Share share = any_share();
  RC_ASSERT((parse_share(to_string(share)) == share));
  RC_ASSERT((parse_share(fmt::format("{}m", share.thousandths())) == share));
}

RC_GTEST_PROP(ShareProperty, AnyTextIsReadOrExplained, ()) {
  const std::string text = nearly_a_quantity();
  const auto parsed = parse_share(text);
  if (!parsed) check_message(parsed.error(), "write it like 0.3, 2.5, 4 or 300m");
}

RC_GTEST_PROP(ShareProperty, WholePartAndFractionMakeTheShare, ()) {
  const Share share = any_share();
  RC_ASSERT(share.fraction() < Share(Share::kWhole));
  RC_ASSERT(Share::whole_gpus(share.whole_part()) + share.fraction() == share);
}

RC_GTEST_PROP(PortionProperty, PartsOfOneGpuNeverExceedItsMemory, ()) {
  const Bytes whole = any_bytes();
  const auto cut = *rc::gen::inRange<std::uint32_t>(0, Share::kWhole + 1);
  const Bytes left = portion(whole, Share(cut));
  const Bytes right = portion(whole, Share(Share::kWhole - cut));
  RC_ASSERT(left <= whole);
  RC_ASSERT(right <= whole - left);
  RC_ASSERT(whole - left - right <= Bytes(1));
}

}  // namespace
}  // namespace divvy
