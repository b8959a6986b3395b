#include "net/tcp_address.h"

#include <gtest/gtest.h>

namespace divvy::net {
namespace {

TEST(TcpAddress, IsReadAndWrittenAsPeopleWriteIt) {
  EXPECT_EQ(TcpAddress::parse(":9400").value(), (TcpAddress{"", 9400}));
  EXPECT_EQ(TcpAddress::parse("127.0.0.1:0").value(), (TcpAddress{"127.0.0.1", 0}));
  EXPECT_EQ(TcpAddress::parse("[::1]:65535").value(), (TcpAddress{"::1", 65535}));
  EXPECT_EQ(TcpAddress::parse("node-a.example:80").value(), (TcpAddress{"node-a.example", 80}));
  for (const char* text : {":9400", "127.0.0.1:0", "[::1]:65535", "node-a.example:80"}) {
    EXPECT_EQ(to_string(TcpAddress::parse(text).value()), text);
  }
}

TEST(TcpAddress, RefusesWhatIsNoneAndShowsOne) {
  for (const char* text : {"", "9400", "localhost", "::1:9400", "[::1]9400", "[]:1", "a:65536",
                           "a:-1", "a:1x", "a b:1", "a:", "http://a:1", "a\n:1"}) {
    const auto address = TcpAddress::parse(text);
    ASSERT_FALSE(address.has_value()) << text;
    EXPECT_EQ(address.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(address.error().message.find(":9400"), std::string::npos) << address.error().message;
    EXPECT_EQ(address.error().message.find('\n'), std::string::npos);
  }
}

TEST(TcpAddress, ResolvesNumbersAndSaysWhatItDoesNotKnow) {
  EXPECT_EQ(resolve({"127.0.0.1", 80})->size(), 1U);
  EXPECT_FALSE(resolve({"", 80})->empty());
  const auto unknown = resolve({"does not exist", 80});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace divvy::net
