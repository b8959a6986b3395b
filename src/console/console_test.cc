#include "console/console.h"

#include <gtest/gtest.h>

namespace divvy::console {
namespace {

constexpr Asset kFiles[] = {{"/index.html", "text/html; charset=utf-8", "a1", "page"},
                            {"/assets/main-1f.js", "text/javascript", "b2", "script"},
                            {"/icon.svg", "image/svg+xml", "c3", "icon"}};

net::HttpResponse get(const std::string& path, net::HttpHeaders headers = {}) {
  headers.try_emplace("accept-encoding", "gzip, deflate, br");
  return serve({.method = "GET", .path = path, .query = {}, .body = {}, .headers = headers},
               kFiles);
}

TEST(Console, EveryPageIsTheOneFile) {
  for (const char* const path : {"/", "/jobs", "/jobs/17", "/queues/research%2Fvision"}) {
    const auto page = get(path);
    EXPECT_EQ(page.status, 200) << path;
    EXPECT_EQ(page.body, "page") << path;
    EXPECT_EQ(page.headers.at("content-encoding"), "gzip");
    EXPECT_EQ(page.headers.at("cache-control"), "no-cache");
  }
}

TEST(Console, FilesWithAHashInTheirNameAreKeptForEver) {
  const auto script = get("/assets/main-1f.js");
  EXPECT_EQ(script.body, "script");
  EXPECT_EQ(script.content_type, "text/javascript");
  EXPECT_NE(script.headers.at("cache-control").find("immutable"), std::string::npos);
  EXPECT_EQ(get("/assets/main-old.js").status, 404);
  EXPECT_EQ(get("/assets/../index.html").status, 404);
}

TEST(Console, AnswersWhatTheBrowserHasAlreadyWithoutIt) {
  const auto known = get("/", {{"if-none-match", "\"a1\""}});
  EXPECT_EQ(known.status, 304);
  EXPECT_TRUE(known.body.empty());
  EXPECT_EQ(get("/", {{"if-none-match", "\"a0\""}}).status, 200);
}

TEST(Console, NoScriptFromElsewhereAndNoInlineScript) {
  for (const char* const path : {"/", "/assets/main-1f.js", "/nothing.txt"}) {
    const auto answer = get(path);
    const std::string& policy = answer.headers.at("content-security-policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self';")) << path;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << path;
    EXPECT_EQ(policy.find('*'), std::string::npos) << path;
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos) << path;
    EXPECT_EQ(answer.headers.at("x-content-type-options"), "nosniff") << path;
  }
}

TEST(Console, AnAnswerOfTheApiIsNeverAPage) {
  net::HttpResponse log{200, "text/plain", "<script>alert(1)</script>"};
  forbid_rendering(log);
  EXPECT_EQ(log.headers.at("x-content-type-options"), "nosniff");
  EXPECT_NE(log.headers.at("content-security-policy").find("sandbox"), std::string::npos);
  EXPECT_TRUE(is_for_api("/v1/jobs"));
  EXPECT_FALSE(is_for_api("/v1x"));
  EXPECT_FALSE(is_for_api("/jobs"));
}

TEST(Console, SaysSoWhereItWasNotBuiltIn) {
  const auto answer = serve({.method = "GET", .path = "/", .query = {}, .body = {}}, {});
  EXPECT_EQ(answer.status, 404);
  EXPECT_NE(answer.body.find("without its console"), std::string::npos);
}

TEST(Console, RefusesWhoCannotUnpackAndWhatIsNoLook) {
  EXPECT_EQ(get("/", {{"accept-encoding", "identity"}}).status, 406);
  const auto posted = serve({.method = "POST", .path = "/", .query = {}, .body = {}}, kFiles);
  EXPECT_EQ(posted.status, 405);
  EXPECT_EQ(posted.headers.at("allow"), "GET");
}

TEST(Console, TheFirstOfItsFilesIsThePage) {
  if (assets().empty()) GTEST_SKIP() << "built without npm";
  EXPECT_EQ(assets().front().path, "/index.html");
  for (const Asset& asset : assets()) {
    ASSERT_GT(asset.bytes.size(), 20U) << asset.path;
    EXPECT_TRUE(asset.bytes.starts_with("\x1f\x8b")) << asset.path << " is no gzip";
  }
}

}  // namespace
}  // namespace divvy::console
