#include "base/units.h"

#include "base/memory_amount.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace divvy {
namespace {

static_assert(gib(10) == Bytes(10'737'418'240));
static_assert(gib(1) + mib(512) == mib(1536));
static_assert(Share(2500).whole_part() == 2 && Share(2500).fraction() == Share(500));
static_assert(Share::whole_gpus(4) == Share(4000));

TEST(ParseBytes, ReadsWhatPeopleType) {
  const std::vector<std::pair<std::string_view, Bytes>> cases{
      {"10GiB", gib(10)},
      {"10Gi", gib(10)},
      {"10G", Bytes(10'000'000'000)},
      {"10GB", Bytes(10'000'000'000)},
      {"512Mi", mib(512)},
      {"512MiB", mib(512)},
      {"512MB", Bytes(512'000'000)},
      {"512M", Bytes(512'000'000)},
      {"1.5GiB", mib(1536)},
      {".5Gi", mib(512)},
      {"1048576", mib(1)},
      {"1048576B", mib(1)},
      {"1Ti", gib(1024)},
      {"2Pi", tib(2048)},
      {"15EiB", Bytes(std::uint64_t{15} << 60)},
      {"10gib", gib(10)},
      {"10gb", Bytes(10'000'000'000)},
      {"10mb", Bytes(10'000'000)},
      {"64k", Bytes(64'000)},
      {"64Ki", kib(64)},
      {"10 GiB", gib(10)},
      {"  10\tGiB ", gib(10)},
      {"0", Bytes(0)},
      {"0GiB", Bytes(0)},
      {"000010Mi", mib(10)},
      {"0.1KiB", Bytes(102)},  // 102.4: the part of a byte is dropped.
      {"18446744073709551615", Bytes::max()},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_bytes(text);
    ASSERT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
    EXPECT_EQ(parsed->count(), expected.count()) << text;
  }
}

TEST(ParseMemory, AsksForTheUnitOfASmallNumber) {
  EXPECT_EQ(parse_memory("10").error().message,
            "cannot read \"10\" as an amount of memory: the unit is missing; did you mean 10GiB?\n"
            "  10\n"
            "    ^\n"
            "write it like 10GiB, 512Mi or 1.5G");
  EXPECT_EQ(parse_memory("10GiB"), gib(10));
  EXPECT_EQ(parse_memory("10B"), Bytes(10));
  EXPECT_EQ(parse_memory("0"), Bytes(0));
  EXPECT_EQ(parse_memory("1073741824"), gib(1));
  EXPECT_FALSE(parse_memory(""));
}

TEST(ParseBytes, ShowsTheTextThePlaceAndAnExample) {
  EXPECT_EQ(parse_bytes("10Gx").error().message,
            "cannot read \"10Gx\" as an amount of memory: unknown unit \"Gx\"\n"
            "  10Gx\n"
            "    ^\n"
            "write it like 10GiB, 512Mi or 1.5G");
}

struct Refused {
  std::string_view text;
  std::string_view reason;
  std::size_t caret;
};

template <typename T>
void expect_refused(const Refused& refused, const Result<T>& parsed) {
  ASSERT_FALSE(parsed.has_value()) << refused.text;
  const std::string& message = parsed.error().message;
  EXPECT_NE(message.find(refused.reason), std::string::npos) << message;
  const std::string caret_line = "\n  " + std::string(refused.caret, ' ') + "^\nwrite it like ";
  EXPECT_NE(message.find(caret_line), std::string::npos) << message;
}

TEST(ParseBytes, ExplainsWhatIsWrong) {
  const std::vector<Refused> cases{
      {"", "nothing is written", 0},
      {"   ", "nothing is written", 3},
      {"-1GiB", "cannot be negative", 0},
      {"GiB", "begin with a number", 0},
      {"+5", "begin with a number", 0},
      {"nan", "begin with a number", 0},
      {"inf", "begin with a number", 0},
      {"10m", "thousandths", 2},
      {"10 m", "thousandths", 3},
      {"1.GiB", "a digit has to follow", 2},
      {".", "a digit has to follow", 1},
      {"1.2.3GiB", "second point", 3},
      {"1,5GiB", "not a comma", 1},
      {"1.5", "no part of a byte", 1},
      {"1.5B", "no part of a byte", 1},
      {"1e9", "unknown unit \"e9\"", 1},
      {"0x10", "unknown unit \"x10\"", 1},
      {"10 Gi B", "unknown unit \"Gi B\"", 3},
      {"10GiBs", "unknown unit", 2},
      {"16EiB", "more than 64 bits", 0},
      {"18446744073709551616", "more than 64 bits", 0},
      {"15.99999999999999999EiB1", "unknown unit", 20},
      {"99999999999999999999999999", "more than 64 bits", 0},
      {"0.0000000001Ki", "less than one byte", 0},
      {"0.0000000000000000001Ei", "more than 18 decimals", 20},
  };
  for (const auto& refused : cases) expect_refused(refused, parse_bytes(refused.text));
}

TEST(ParseBytes, TellsTooLargeFromWrong) {
  EXPECT_EQ(parse_bytes("16EiB").error().code, ErrorCode::kOutOfRange);
  EXPECT_EQ(parse_bytes("16XiB").error().code, ErrorCode::kInvalidArgument);
}

TEST(ParseShare, ReadsWhatPeopleType) {
  const std::vector<std::pair<std::string_view, std::uint32_t>> cases{
      {"0.3", 300},    {".5", 500},  {"2.5", 2500}, {"4", 4000},     {"300m", 300},
      {"2500m", 2500}, {"0.001", 1}, {"0.25", 250}, {" 1 ", 1000},   {"0.3000", 300},
      {"300 m", 300},  {"0", 0},     {"1.0", 1000}, {"007.5", 7500}, {"1000000", 1'000'000'000},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = parse_share(text);
    ASSERT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
    EXPECT_EQ(parsed->thousandths(), expected) << text;
  }
}

TEST(ParseShare, ExplainsWhatIsWrong) {
  const std::vector<Refused> cases{
      {"", "nothing is written", 0},
      {"0.0005", "the smallest step is 0.001", 5},
      {"0.30001", "the smallest step is 0.001", 6},
      {"1.5m", "thousandths (m) have no decimals", 1},
      {"-0.3", "cannot be negative", 0},
      {"NaN", "begin with a number", 0},
      {"0,3", "not a comma", 1},
      {"30%", "30% of a GPU is 0.3", 2},
      {"300M", "unknown unit \"M\"", 3},
      {"1 gpu", "unknown unit \"gpu\"", 2},
      {"1000000.001", "the largest share", 0},
      {"1000001", "the largest share", 0},
      {"1000000001m", "the largest share", 0},
      {"99999999999999999999999", "the largest share", 0},
  };
  for (const auto& refused : cases) expect_refused(refused, parse_share(refused.text));
}

TEST(PrintBytes, IsExact) {
  EXPECT_EQ(to_string(gib(10)), "10GiB");
  EXPECT_EQ(to_string(mib(1536)), "1536MiB");
  EXPECT_EQ(to_string(Bytes(1234)), "1234B");
  EXPECT_EQ(to_string(Bytes(0)), "0B");
  EXPECT_EQ(to_string(Bytes::max()), "18446744073709551615B");
  EXPECT_EQ(fmt::format("{:>8}", kib(4)), "    4KiB");
}

TEST(PrintBytes, RoundsForPeople) {
  EXPECT_EQ(humanize(Bytes(0)), "0 B");
  EXPECT_EQ(humanize(Bytes(1023)), "1023 B");
  EXPECT_EQ(humanize(kib(1)), "1.0 KiB");
  EXPECT_EQ(humanize(mib(143'156)), "139.8 GiB");
  EXPECT_EQ(humanize(gib(80)), "80.0 GiB");
  EXPECT_EQ(humanize(gib(1) - Bytes(1)), "1.0 GiB");
  EXPECT_EQ(humanize(Bytes::max()), "16.0 EiB");
}

TEST(PrintShare, IsExactAndShort) {
  EXPECT_EQ(to_string(Share(300)), "0.3");
  EXPECT_EQ(to_string(Share(2500)), "2.5");
  EXPECT_EQ(to_string(Share(4000)), "4");
  EXPECT_EQ(to_string(Share(0)), "0");
  EXPECT_EQ(to_string(Share(1)), "0.001");
  EXPECT_EQ(to_string(Share::max()), "1000000");
  EXPECT_EQ(fmt::format("{}", Share(1050)), "1.05");
}

TEST(Arithmetic, RefusesWhatDoesNotFit) {
  EXPECT_EQ(checked_add(Bytes::max(), Bytes(1)), std::nullopt);
  EXPECT_EQ(checked_sub(Bytes(1), Bytes(2)), std::nullopt);
  EXPECT_EQ(checked_mul(Bytes::max(), 2), std::nullopt);
  EXPECT_EQ(checked_mul(Bytes::max(), 0), Bytes(0));
  EXPECT_EQ(saturating_sub(Bytes(1), Bytes(2)), Bytes(0));
  EXPECT_EQ(checked_add(Share::max(), Share(1)), std::nullopt);
  EXPECT_EQ(checked_sub(Share(1), Share(2)), std::nullopt);
}

TEST(ArithmeticDeathTest, AbortsOnMistakesInCode) {
  EXPECT_DEATH((void)(Bytes(1) - Bytes(2)), "below zero");
  EXPECT_DEATH((void)(Bytes::max() + Bytes(1)), "does not fit");
  EXPECT_DEATH((void)(Share(1) - Share(2)), "below zero");
  EXPECT_DEATH((void)portion(gib(1), Share(1001)), "more than one GPU");
}

TEST(Portion, IsThePartOfTheMemoryRoundedDown) {
  EXPECT_EQ(portion(Bytes(1000), Share(300)), Bytes(300));
  EXPECT_EQ(portion(Bytes(999), Share(500)), Bytes(499));
  EXPECT_EQ(portion(Bytes::max(), Share(1000)), Bytes::max());
}

}  // namespace
}  // namespace divvy
