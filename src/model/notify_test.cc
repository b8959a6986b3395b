#include "model/notify.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace divvy::model {
namespace {

TEST(WebhookUrl, IsTakenApart) {
  const auto url = WebhookUrl::parse("https://ada:a%3Ab@Hooks.Example:8443/a/b?key=1&x=/");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_TRUE(url->secure);
  EXPECT_EQ(url->user_info, "ada:a:b");
  EXPECT_EQ(url->host, "hooks.example");
  EXPECT_EQ(url->port, 8443);
  EXPECT_EQ(url->path, "/a/b");
  EXPECT_EQ(url->query, "key=1&x=/");
  EXPECT_EQ(url->origin(), "https://hooks.example:8443");
}

TEST(WebhookUrl, WhatGoesWithoutSayingIsFilledIn) {
  const auto plain = WebhookUrl::parse("http://10.0.0.7?x");
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_FALSE(plain->secure);
  EXPECT_EQ(plain->port, 80);
  EXPECT_EQ(plain->path, "/");
  EXPECT_EQ(plain->query, "x");
  EXPECT_EQ(plain->authority(), "10.0.0.7");
  const auto number = WebhookUrl::parse("https://[::1]:444/");
  ASSERT_TRUE(number) << number.error().message;
  EXPECT_EQ(number->host, "::1");
  EXPECT_EQ(number->origin(), "https://[::1]:444");
  EXPECT_EQ(WebhookUrl::parse("https://a")->authority(), "a");
}

TEST(WebhookUrl, WhatIsNoneIsRefusedAndNotShown) {
  for (const char* const text : {"",
                                 "hooks.example",
                                 "ftp://a",
                                 "HTTP//a",
                                 "http://",
                                 "http:///x",
                                 "http://a b/",
                                 "http://a/\r\nHost: b",
                                 "http://a/#x",
                                 "http://a:0/",
                                 "http://a:65536/",
                                 "http://a:1x/",
                                 "http://a:/",
                                 "http://[::1/",
                                 "http://[]/",
                                 "http://[::1]x/",
                                 "http://a%2fb/",
                                 "http://s%0gret@a/",
                                 "http://s\"cret@a/",
                                 "http://a\\b/",
                                 "http://a/\x7f",
                                 "unix:///x"}) {
    const auto url = WebhookUrl::parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().message.find("cret"), std::string::npos) << url.error().message;
  }
  EXPECT_TRUE(WebhookUrl::parse("http://a/" + std::string(WebhookUrl::kLongest - 9, 'x')));
  EXPECT_FALSE(WebhookUrl::parse("http://a/" + std::string(WebhookUrl::kLongest - 8, 'x')));
}

TEST(WebhookUrl, WhateverIsTakenCannotEndALineOfARequest) {
  const bool holds = rc::check("no control character and no space gets through", [] {
    const auto rest = *rc::gen::container<std::string>(
        rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::elementOf(std::string("a:@/?#[]%0"))));
    const auto url = WebhookUrl::parse("http://" + rest);
    if (!url) return;
    RC_ASSERT(!url->host.empty() && url->port != 0 && url->path.starts_with('/'));
    for (const std::string& part : {url->authority(), url->path, url->query}) {
      for (const char c : part) RC_ASSERT(c > ' ' && c < '\x7f');
    }
  });
  EXPECT_TRUE(holds);
}

TEST(Notify, NamesWhatIsWrong) {
  EXPECT_TRUE(check(Notify{.url = "https://hooks.example"}));
  EXPECT_TRUE(check(Notify{.url = "x"}).error().message.starts_with("notify.url: "));
  const Notify nothing{.url = "http://a", .on = {}};
  EXPECT_TRUE(check(nothing).error().message.starts_with("notify.on: "));
  for (const JobEnd end : {JobEnd::kSucceeded, JobEnd::kFailed, JobEnd::kCancelled}) {
    EXPECT_EQ(parse_job_end(to_string(end)), end);
  }
  EXPECT_FALSE(parse_job_end("ended"));
}

}  // namespace
}  // namespace divvy::model
