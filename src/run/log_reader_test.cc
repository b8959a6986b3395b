#include "run/log_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>

#include "run/output_log.h"
#include "run/testing.h"

namespace divvy::run {
namespace {

using std::chrono::seconds;

const WallTime kStart = WallTime(seconds(1'800'000'000));

std::vector<std::string> texts(const std::vector<LogLine>& lines) {
  std::vector<std::string> result;
  result.reserve(lines.size());
  for (const LogLine& line : lines) result.push_back(line.text);
  return result;
}
using Texts = std::vector<std::string>;

class LogTest : public ::testing::Test {
 protected:
  OutputLog make_log(Bytes part = kib(64), std::uint32_t parts = 3) {
    fd_ = UniqueFd(::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return OutputLog(fd_.get(), part, parts);
  }
  LogReader reader(const LogWish& wish = {}) { return *LogReader::open(folder_.path(), wish); }
  // Numbered lines that fill several parts.
  static void write_lines(OutputLog& log, int from, int to) {
    for (int i = from; i < to; ++i) {
      log.write(LogStream::kStdout, fmt::format("{:0100}\n", i), kStart + seconds(i));
    }
  }
  std::size_t parts() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      count += log_part_number(entry.path().filename().string()) > 0 ? 1 : 0;
    }
    return count;
  }

  MembersFolder folder_;
  UniqueFd fd_;
};

TEST_F(LogTest, JoinsPiecesOfALineAndKeepsStreamsApart) {
  OutputLog log = make_log();
  log.write(LogStream::kStdout, "be", kStart);
  log.write(LogStream::kStderr, "other\n", kStart + seconds(1));
  log.write(LogStream::kStdout, "gin", kStart + seconds(2));
  log.write(LogStream::kStdout, "ning\n\nla", kStart + seconds(3));
  LogReader from = reader();
  const auto lines = from.read(100);
  ASSERT_EQ(texts(lines), (Texts{"other", "beginning", ""}));
  EXPECT_EQ(lines[0].stream, LogStream::kStderr);
  EXPECT_EQ(lines[1].at, kStart);
  EXPECT_TRUE(from.read(100).empty());
  log.write(LogStream::kStdout, "st", kStart + seconds(4));
  EXPECT_TRUE(from.read(100).empty());
  EXPECT_EQ(texts(from.rest()), Texts{"last"});
}

TEST_F(LogTest, KeepsAnyBytes) {
  OutputLog log = make_log();
  const std::string bytes("\0\r\x1b[31m\xff 2026-01-01T00:00:00.000000000Z stdout F ", 48);
  log.write(LogStream::kStdout, bytes + "\n", kStart);
  EXPECT_EQ(texts(reader().read(10)), Texts{bytes});
}

TEST_F(LogTest, IsBoundedByPartsAndGoesOnOverThem) {
  OutputLog log = make_log(kib(4), 3);
  LogReader follower = reader();
  Texts followed;
  for (int i = 0; i < 300; i += 10) {
    write_lines(log, i, i + 10);
    for (auto& text : texts(follower.read(1'000))) followed.push_back(text);
  }
  EXPECT_EQ(parts(), 3U);
  ASSERT_EQ(followed.size(), 300U);
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(followed[static_cast<std::size_t>(i)], fmt::format("{:0100}", i));
  // Who comes late finds the end of it, with no gap.
  const auto late = texts(reader().read(1'000));
  ASSERT_GT(late.size(), 50U);
  EXPECT_EQ(late.back(), followed.back());
  EXPECT_EQ(late, Texts(followed.end() - static_cast<std::ptrdiff_t>(late.size()), followed.end()));
}

TEST_F(LogTest, GivesTheLastLinesAlsoOverSeveralParts) {
  OutputLog log = make_log(kib(4), 5);
  write_lines(log, 0, 100);
  for (const std::uint64_t wanted : {0U, 1U, 7U, 40U, 77U, 100U, 1'000U}) {
    const auto found = texts(reader({.tail = wanted, .since = {}}).read(10'000));
    ASSERT_EQ(found.size(), std::min<std::size_t>(wanted, 100)) << wanted;
    if (found.empty()) continue;
    EXPECT_EQ(found.back(), fmt::format("{:0100}", 99));
  }
  LogReader follower = reader({.tail = 2, .since = {}});
  EXPECT_EQ(follower.read(100).size(), 2U);
  write_lines(log, 100, 103);
  EXPECT_EQ(follower.read(100).size(), 3U);
}

TEST_F(LogTest, GivesWhatIsNotOlder) {
  OutputLog log = make_log();
  write_lines(log, 0, 10);
  EXPECT_EQ(reader({.tail = {}, .since = kStart + seconds(7)}).read(100).size(), 3U);
  EXPECT_EQ(reader({.tail = {}, .since = kStart + seconds(70)}).read(100).size(), 0U);
}

TEST_F(LogTest, StepsOverWhatIsDamaged) {
  std::ofstream file(folder_.path() / "log.1", std::ios::binary);
  file << "2026-01-01T00:00:00.000000000Z stdout F one\n"
       << "nonsense\n\n2026-13-01T00:00:00.000000000Z stdout F month\n"
       << "2026-01-01T00:00:00.000000000Z stdout X tag\n"
       << "2026-01-01T00:00:01.000000000Z stderr F two\n2026-01-0";
  file.close();
  EXPECT_EQ(texts(reader().read(100)), (Texts{"one", "two"}));
  EXPECT_EQ(texts(reader({.tail = 1, .since = {}}).read(100)), Texts{"two"});
}

TEST_F(LogTest, WakesWhoeverFollows) {
  OutputLog log = make_log();
  LogReader follower = reader();
  ASSERT_GE(follower.watch_fd(), 0);
  follower.clear_watch();
  pollfd wait{follower.watch_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&wait, 1, 0), 0);
  log.write(LogStream::kStdout, "x\n", kStart);
  EXPECT_EQ(::poll(&wait, 1, 60'000), 1);
}

TEST_F(LogTest, OfAFolderThatIsNotThereIsNotFound) {
  EXPECT_EQ(LogReader::open(folder_.path() / "none", {}).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(reader().read(10).empty()) << "one that wrote nothing has no lines";
}

TEST(GangLog, PutsTheLinesOfAllMembersInTheOrderOfTheirTimes) {
  MembersFolder folders[2];
  GangLog gang;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const UniqueFd fd(::open(folders[rank].path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    OutputLog log(fd.get(), mib(1), 2);
    for (std::uint32_t i = 0; i < 3; ++i) {
      log.write(LogStream::kStdout, fmt::format("{}\n", 2 * i + rank),
                kStart + seconds(2 * i + rank));
    }
    gang.add(rank, *LogReader::open(folders[rank].path(), {}));
  }
  std::string text;
  for (const LogLine& line : gang.read())
    text += to_text(line, {.timestamps = false, .ranks = true});
  EXPECT_EQ(text, "[0] 0\n[1] 1\n[0] 2\n[1] 3\n[0] 4\n[1] 5\n");
  EXPECT_EQ(to_text({kStart, LogStream::kDivvy, "gone", 0}, {.timestamps = true, .ranks = false}),
            "2027-01-15T08:00:00.000000000Z divvy: gone\n");
}

TEST_F(LogTest, ThatCannotBeWrittenDropsAndSaysSo) {
  OutputLog log = make_log(kib(4), 2);
  write_lines(log, 0, 1);
  // As on a disk that is full, and then is not.
  const rlimit small{2'000, RLIM_INFINITY};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  write_lines(log, 1, 25);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, ignored);
  EXPECT_GT(log.dropped(), 0U);
  write_lines(log, 25, 26);
  EXPECT_EQ(log.dropped(), 0U);
  const auto lines = reader().read(1'000);
  ASSERT_GE(lines.size(), 3U);
  EXPECT_EQ(lines.back().text, fmt::format("{:0100}", 25));
  EXPECT_EQ(lines[lines.size() - 2].stream, LogStream::kDivvy);
  EXPECT_NE(lines[lines.size() - 2].text.find("bytes of output are missing here"),
            std::string::npos);
}

}  // namespace
}  // namespace divvy::run
