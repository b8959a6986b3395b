#include "kube/watch_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "kube/api_error.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kEvents = R"({"type":"ADDED","object":{"metadata":{"name":"a"}}}
{"type":"MODIFIED","object":{"metadata":{"name":"b"}}}

{"type":"DELETED","object":{"metadata":{"name":"c"}}}
{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}
)";

class WatchLinesTest : public ::testing::Test {
 protected:
  Status read(std::string_view piece) {
    return lines_.read(piece, [this](const WatchEvent& event) {
      seen_.push_back(std::to_string(static_cast<int>(event.kind)) +
                      std::string(text_at(event.object, "metadata.name")));
      return seen_.size() < most_;
    });
  }
  WatchLines lines_;
  std::vector<std::string> seen_;
  std::size_t most_ = 100;
};

TEST_F(WatchLinesTest, ReadsEventsInPiecesOfAnySize) {
  for (std::size_t size : {1U, 7U, 1000U}) {
    seen_.clear();
    for (std::size_t at = 0; at < kEvents.size(); at += size) {
      ASSERT_TRUE(read(kEvents.substr(at, size)));
    }
    EXPECT_THAT(seen_, ElementsAre("0a", "1b", "2c", "3"));
  }
}

TEST_F(WatchLinesTest, StopsWhenNoMoreIsWanted) {
  most_ = 2;
  ASSERT_TRUE(read(kEvents));
  EXPECT_FALSE(lines_.wanted());
  EXPECT_EQ(seen_.size(), 2U);
}

TEST_F(WatchLinesTest, AnErrorOfTheServerHasItsCode) {
  const Status gone = read(
      R"({"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}})"
      "\n");
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kOutOfRange);
  EXPECT_THAT(gone.error().message, HasSubstr("too old resource version"));
  EXPECT_EQ(read("{\"type\":\"ERROR\",\"object\":{}}\n").error().code, ErrorCode::kUnavailable);
}

TEST_F(WatchLinesTest, RefusesWhatIsNoEvent) {
  for (const char* line : {"{", "[]", "{}", R"({"type":"ADDED"})", R"({"type":"ADDED","object":1})",
                           R"({"type":"MOVED","object":{}})", R"({"type":1,"object":{}})"}) {
    WatchLines lines;
    const Status status =
        lines.read(std::string(line) + "\n", [](const WatchEvent&) { return true; });
    ASSERT_FALSE(status) << line;
    EXPECT_EQ(status.error().code, ErrorCode::kDataLoss) << line;
  }
}

TEST_F(WatchLinesTest, ALineWithoutEndIsGivenUp) {
  const std::string piece(1U << 20U, ' ');
  Status status;
  for (int i = 0; i < 20 && status; ++i) status = read(piece);
  EXPECT_FALSE(status);
}

TEST(ParseDocument, TakesDeepDocumentsUpToABound) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "{\"a\":";
    text += "1";
    return text + std::string(static_cast<std::size_t>(depth), '}');
  };
  EXPECT_TRUE(parse_document(nested(100)).has_value());
  EXPECT_FALSE(parse_document(nested(100'000)).has_value());
}

TEST(ApiError, SaysWhatTheServerSaid) {
  const Error missing = error_of_answer(
      404, R"({"kind":"Status","message":"pods \"x\" not found","reason":"NotFound","code":404})",
      "GET /api/v1/pods/x");
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.message,
            "GET /api/v1/pods/x: the API server answered 404: pods \"x\" not found");
}

TEST(ApiError, CodesByStatusAndReason) {
  const auto code = [](int status, const std::string& reason = {}) {
    return error_of_answer(status, R"({"kind":"Status","reason":")" + reason + "\"}", "x").code;
  };
  EXPECT_EQ(code(409, "AlreadyExists"), ErrorCode::kAlreadyExists);
  EXPECT_EQ(code(409, "Conflict"), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code(410), ErrorCode::kOutOfRange);
  EXPECT_EQ(code(400), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(422), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(401), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code(403), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code(429), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code(500), ErrorCode::kUnavailable);
  EXPECT_EQ(code(503), ErrorCode::kUnavailable);
  EXPECT_EQ(code(302), ErrorCode::kInternal);
}

TEST(ApiError, AnswersThatAreNoStatusAreQuotedWithinABound) {
  EXPECT_THAT(error_of_answer(502, " Bad\x1b[1m gateway\n", "x").message,
              HasSubstr("Bad\\x1b[1m gateway"));
  EXPECT_LT(error_of_answer(502, std::string(100'000, 'x'), "x").message.size(), 1000U);
  EXPECT_THAT(error_of_answer(502, "", "x").message, HasSubstr("no reason"));
}

}  // namespace
}  // namespace divvy::kube
