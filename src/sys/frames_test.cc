#include "sys/frames.h"

#include <gtest/gtest.h>

#include <vector>

namespace divvy::sys {
namespace {

const std::vector<Frame>& all_kinds() {
  static const std::vector<Frame> kAll = {
      InputFrame{std::string("a\0b", 3)},
      InputEndFrame{},
      SignalFrame{15},
      WindowFrame{50, 65535},
      OutputFrame{"out"},
      ErrorFrame{""},
      LineFrame{WallTime(std::chrono::nanoseconds(-5)), LineStream::kDivvy, false, "a line"},
      CaughtUpFrame{},
      StartedFrame{true},
      StartedFrame{false},
      EndFrame{-1, 9, "was ended"},
      RefusedFrame{{ErrorCode::kNotFound, "no such command"}}};
  return kAll;
}

TEST(Frames, ReadsWhatItWroteInPiecesOfAnySize) {
  std::string bytes;
  for (const Frame& frame : all_kinds()) bytes += to_bytes(frame);
  for (const std::size_t size : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    FrameReader reader;
    std::vector<Frame> read;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      reader.add(std::string_view(bytes).substr(at, size));
      for (;;) {
        const auto frame = reader.next();
        ASSERT_TRUE(frame) << frame.error().message;
        if (!*frame) break;
        read.push_back(**frame);
      }
    }
    EXPECT_EQ(read, all_kinds()) << size;
  }
}

TEST(Frames, LongBytesAndLinesAreSplit) {
  const std::string longer(kMaxFrame * 2 + 1, 'x');
  FrameReader reader;
  reader.add(to_bytes(OutputFrame{longer}));
  reader.add(to_bytes(LineFrame{.text = longer}));
  std::string output;
  std::string line;
  int ends = 0;
  for (auto frame = reader.next(); frame && *frame; frame = reader.next()) {
    if (const auto* const out = std::get_if<OutputFrame>(&**frame)) output += out->bytes;
    if (const auto* const part = std::get_if<LineFrame>(&**frame)) {
      line += part->text;
      ends += part->whole ? 1 : 0;
    }
  }
  EXPECT_EQ(output, longer);
  EXPECT_EQ(line, longer);
  EXPECT_EQ(ends, 1);
}

TEST(Frames, RefusesWhatIsTooLongOrUnknown) {
  for (const std::string& bytes :
       {std::string("\x10\xff\xff\xff\x7f", 5), std::string("\x63\0\0\0\0", 5),
        std::string("\x03\1\0\0\0x", 6), std::string("\x14\1\0\0\0\2", 6)}) {
    FrameReader reader;
    reader.add(bytes);
    const auto frame = reader.next();
    ASSERT_FALSE(frame);
    EXPECT_EQ(frame.error().code, ErrorCode::kDataLoss);
  }
}

}  // namespace
}  // namespace divvy::sys
