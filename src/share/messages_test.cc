#include "share/messages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace divvy::share {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T& message) {
  return std::as_bytes(std::span(&message, 1));
}

wire::Hello hello() {
  wire::Hello message{};
  message.header = {static_cast<std::uint32_t>(wire::Kind::kHello), sizeof message};
  message.version = wire::kWireVersion;
  message.pid = 42;
  std::memset(message.program, 'x', sizeof message.program);  // No zero at the end
  return message;
}

TEST(Messages, ReadsAHello) {
  const auto message = parse_message(bytes_of(hello()));
  ASSERT_TRUE(message.has_value());
  const auto& read = std::get<HelloMessage>(*message);
  EXPECT_EQ(read.pid_inside, 42);
  EXPECT_EQ(read.program, std::string(32, 'x'));
}

TEST(Messages, ReadsAHelloOfEveryVersionThatIsStillSpoken) {
  wire::Hello message = hello();
  std::strcpy(message.release, "0.9.1");
  auto read = parse_message(bytes_of(message));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(std::get<HelloMessage>(*read).release, "0.9.1");

  message.version = 1;
  message.header.bytes = wire::kHelloBytesOfVersion1;
  read = parse_message(bytes_of(message).first(wire::kHelloBytesOfVersion1));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(std::get<HelloMessage>(*read).pid_inside, 42);
  EXPECT_EQ(std::get<HelloMessage>(*read).release, "");
  // The length has to be that of its version.
  message.version = 2;
  EXPECT_FALSE(parse_message(bytes_of(message).first(wire::kHelloBytesOfVersion1)).has_value());
}

TEST(Messages, PassesOnAHelloOfAnotherVersionWhateverItsLength) {
  wire::Hello message = hello();
  message.version = 9;
  message.header.bytes = 12;
  const auto read = parse_message(bytes_of(message).first(12));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(std::get<HelloMessage>(*read).version, 9U);
}

TEST(Messages, RefusesWhatIsCutShortOrTooLong) {
  const wire::Hello message = hello();
  for (std::size_t size = 0; size < sizeof message; ++size) {
    EXPECT_FALSE(parse_message(bytes_of(message).first(size)).has_value());
  }
  std::vector<std::byte> longer(sizeof message + 1);
  std::memcpy(longer.data(), &message, sizeof message);
  EXPECT_FALSE(parse_message(longer).has_value());
}

TEST(Messages, RefusesNumbersOutOfRange) {
  wire::Measure measure{};
  measure.header = {static_cast<std::uint32_t>(wire::Kind::kMeasure), sizeof measure};
  measure.gpu = wire::kMaxGpus;
  EXPECT_FALSE(parse_message(bytes_of(measure)).has_value());
  wire::Hello returning = hello();
  returning.generation = 1;
  returning.slot = wire::kMaxProcesses;
  EXPECT_FALSE(parse_message(bytes_of(returning)).has_value());
}

TEST(Messages, RefusesWhatOnlyTheDaemonSays) {
  EXPECT_FALSE(parse_message(bytes_of(welcome(wire::kWireVersion, 0, 1))).has_value());
  wire::Header odd{77, sizeof(wire::Header)};
  EXPECT_FALSE(parse_message(bytes_of(odd)).has_value());
}

TEST(Messages, ShortensALongReason) {
  const wire::Welcome message = refusal(wire::Refusal::kMalformed, std::string(1000, 'r'));
  EXPECT_EQ(strnlen(message.reason, sizeof message.reason), sizeof message.reason - 1);
}

}  // namespace
}  // namespace divvy::share
