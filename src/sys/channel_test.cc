#include "sys/channel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace divvy::sys {
namespace {

constexpr std::size_t kWindow = 4096;

std::string take_outgoing(Channel& channel, std::size_t most) {
  std::string bytes;
  for (const iovec& piece : channel.outgoing()) {
    const std::size_t now = std::min(most - bytes.size(), piece.iov_len);
    bytes.append(static_cast<const char*>(piece.iov_base), now);
  }
  channel.sent(bytes.size());
  return bytes;
}

std::size_t write(Channel& channel, std::string_view text) {
  std::size_t wrote = 0;
  for (const iovec& piece : channel.space()) {
    const std::size_t now = std::min(text.size(), piece.iov_len);
    std::copy_n(text.data(), now, static_cast<char*>(piece.iov_base));
    text.remove_prefix(now);
    wrote += now;
  }
  channel.wrote(wrote);
  return wrote;
}

std::string read(Channel& channel, std::size_t most = ~std::size_t{0}) {
  std::string text;
  for (const iovec& piece : channel.incoming()) {
    text.append(static_cast<const char*>(piece.iov_base),
                std::min(most - text.size(), piece.iov_len));
  }
  channel.handed_on(text.size());
  return text;
}

// Both ends with a connection whose bytes the test moves.
struct Both {
  explicit Both(std::size_t window = kWindow) : one(window), other(window) {
    one.connect();
    other.connect();
  }
  // Everything that is due, both ways.
  void move() {
    for (bool any = true; any;) {
      any = false;
      for (const auto& [from, to] : {std::pair(&one, &other), std::pair(&other, &one)}) {
        const std::string bytes = take_outgoing(*from, 1U << 20U);
        any = any || !bytes.empty();
        if (!bytes.empty()) (void)to->receive(bytes);
      }
    }
  }
  void cut() {
    one.connect();
    other.connect();
  }
  Channel one;
  Channel other;
};

TEST(Channel, BytesAndEndsGoBothWays) {
  Both both;
  write(both.one, "question");
  both.one.end();
  both.move();
  EXPECT_EQ(read(both.other), "question");
  ASSERT_TRUE(both.other.at_end());
  both.other.handed_on_end();
  write(both.other, "answer");
  both.other.end();
  both.move();
  EXPECT_FALSE(both.one.is_finished());
  EXPECT_EQ(read(both.one), "answer");
  both.one.handed_on_end();
  both.move();
  EXPECT_TRUE(both.one.is_finished());
  EXPECT_TRUE(both.other.is_finished());
}

TEST(Channel, WritersWaitWhenTheWindowIsFull) {
  Both both;
  const std::string all(3 * kWindow, 'x');
  std::size_t wrote = 0;
  for (std::size_t now = 0; (now = write(both.one, std::string_view(all).substr(wrote))) > 0;) {
    wrote += now;
    both.move();
  }
  EXPECT_EQ(wrote, kWindow);
  EXPECT_EQ(read(both.other, kWindow / 4).size(), kWindow / 4);
  both.move();
  EXPECT_EQ(size_of(both.one.space()), kWindow / 4);
}

// The promise: whatever is cut wherever, everything arrives once and in order.
TEST(Channel, NothingIsLostOrDoubledWhereverConnectionsAreCut) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t bound) {
      return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
    };
    Channel ends[2] = {Channel(kWindow), Channel(kWindow)};
    std::string said[2];
    std::string heard[2];
    std::string wire[2];  // on the way to that end
    for (std::string& text : said) {
      text.resize(below(6 * kWindow));
      for (char& c : text) c = static_cast<char>(random());
    }
    std::size_t wrote[2] = {0, 0};
    const std::size_t cut_every = 20 + below(400);
    std::size_t steps = 0;
    const auto connect = [&] {
      for (int i = 0; i < 2; ++i) {
        // What is on the way is lost, or a part of it still comes.
        if (below(2) == 0) {
          ASSERT_TRUE(ends[i].receive(wire[i].substr(0, below(wire[i].size() + 1))));
        }
        wire[i].clear();
      }
      for (Channel& end : ends) end.connect();
    };
    connect();
    while (!ends[0].is_finished() || !ends[1].is_finished()) {
      ASSERT_LT(++steps, 1'000'000U) << "seed " << seed;
      if (below(cut_every) == 0) connect();
      const std::size_t me = below(2);
      switch (below(4)) {
        case 0: {
          const std::string_view left = std::string_view(said[me]).substr(wrote[me]);
          if (!left.empty()) wrote[me] += write(ends[me], left.substr(0, 1 + below(left.size())));
          if (wrote[me] == said[me].size()) ends[me].end();
          break;
        }
        case 1:
          wire[1 - me] += take_outgoing(ends[me], 1 + below(3000));
          break;
        case 2: {
          const std::size_t now = below(wire[me].size() + 1);
          ASSERT_TRUE(ends[me].receive(wire[me].substr(0, now))) << "seed " << seed;
          wire[me].erase(0, now);
          break;
        }
        default:
          heard[me] += read(ends[me], 1 + below(3000));
          if (ends[me].at_end()) ends[me].handed_on_end();
          break;
      }
    }
    EXPECT_TRUE(heard[0] == said[1]) << "seed " << seed;
    EXPECT_TRUE(heard[1] == said[0]) << "seed " << seed;
  }
}

TEST(Channel, AFailureIsToldAlsoOverTheNextConnection) {
  Both both;
  both.move();
  both.one.fail("nothing listens there");
  both.cut();
  both.move();
  EXPECT_EQ(both.other.failure(), "nothing listens there");
  both.other.say_goodbye();
  both.move();
  EXPECT_TRUE(both.other.said_goodbye());
  EXPECT_TRUE(both.one.heard_goodbye());
}

TEST(Channel, AnEndThatWantsBytesWhichAreNotKeptIsRefused) {
  Both both;
  const std::string text(kWindow / 2, 'x');
  write(both.one, text);
  both.move();
  (void)read(both.other);
  both.move();
  // Another program in the place of the other end, which has nothing.
  both.other.~Channel();
  new (&both.other) Channel(kWindow);
  both.cut();
  both.move();
  ASSERT_TRUE(both.one.failure());
  EXPECT_NE(both.one.failure()->find("only those from 2048 on are kept"), std::string::npos)
      << *both.one.failure();
  EXPECT_EQ(both.other.failure(), both.one.failure());
}

}  // namespace
}  // namespace divvy::sys
