#include "sim/csv.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace divvy::sim {
namespace {

// A folder of its own for every test, gone afterwards.
class CsvFile : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string write_gz(const std::string& name, std::string_view text) {
    const std::string path = folder_ / name;
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return path;
  }

  TemporaryFolder folder_;
};

Result<CsvTable> parse(std::string_view text, TextLimits limits = {}) {
  return CsvTable::parse(text, "t.csv", limits);
}
std::string refusal(std::string_view text, TextLimits limits = {}) {
  const auto table = parse(text, limits);
  return table ? "accepted" : table.error().message;
}

TEST(Csv, GivesFieldsByColumnName) {
  const auto table = parse("b,a\n1,2\n3,4\n");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->size(), 2U);
  EXPECT_EQ(table->row(1).text(*table->column("a")), "4");
  EXPECT_EQ(table->row(1).line(), 3U);
}

TEST(Csv, UnderstandsQuotesLineEndsAndAByteOrderMark) {
  const auto table = parse("\xef\xbb\xbf\"a\",b\r\n\"x,\"\"y\"\"\",\"two\nlines\"\r\n\r\n,last");
  ASSERT_TRUE(table.has_value()) << table.error().message;
  EXPECT_EQ(table->columns(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(table->row(0).text(0), "x,\"y\"");
  EXPECT_EQ(table->row(0).text(1), "two\nlines");
  EXPECT_EQ(table->row(1).text(0), "");
  EXPECT_EQ(table->row(1).text(1), "last");
  EXPECT_EQ(table->row(1).line(), 5U);
}

TEST(Csv, NamesAMissingColumnAndListsThoseThereAre) {
  const auto table = parse("num_gpus,time\n");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->column("num_gpu").error().message,
            "t.csv:1: there is no column \"num_gpu\" (did you mean \"num_gpus\"?); the columns are "
            "num_gpus, time");
}

TEST(Csv, RefusesWhatIsNoTable) {
  EXPECT_EQ(refusal(""), "t.csv:1: there is no line that names the columns; is the file empty?");
  EXPECT_EQ(refusal("a,b,a\n"), "t.csv:1: two columns are called \"a\"; rename or remove one");
  EXPECT_EQ(refusal("a,,b\n"), "t.csv:1: column 2 has no name; name it or remove it");
  EXPECT_EQ(refusal("a,b\n1,2\n3\n"),
            "t.csv:3: 1 fields where the first line names 2 columns; is the line cut off?");
  EXPECT_EQ(refusal("a,b\n1,2,3\n"),
            "t.csv:2: 3 fields where the first line names 2 columns; put a field with a comma in "
            "quotes");
  EXPECT_EQ(refusal("a\n\"open\n"),
            "t.csv:2: a field opens with a quote that is never closed; close it");
  EXPECT_EQ(refusal("a\nx\"y\n"),
            "t.csv:2: a quote in the middle of a field; put the whole field in quotes");
  EXPECT_EQ(refusal("a\n\"x\"y\n"),
            "t.csv:2: text after a closing quote; write a quote inside a field twice");
  EXPECT_EQ(refusal("a\nx\ry\n"), "t.csv:2: a carriage return inside a line; remove it");
  EXPECT_EQ(refusal(std::string_view("a\nx\0y\n", 6)),
            "t.csv:2: a NUL byte, so this is binary data and no text");
  EXPECT_EQ(refusal("a\n" + std::string(2000, 'x'), {.line_bytes = 1024}),
            "t.csv:2: a line of more than 1 KiB; is this really a CSV file?");
}

TEST(Csv, ReadsWholeNumbersWithinBounds) {
  const auto table = parse("n\n12\n-1\n18446744073709551616\n1.5\n\"\"\n007\n");
  ASSERT_TRUE(table.has_value());
  const auto count = [&](std::size_t row) { return table->row(row).count(0, 2, 100); };
  EXPECT_EQ(count(0), 12U);
  EXPECT_EQ(count(1).error().message,
            "t.csv:3: n is \"-1\"; it has to be a whole number that is not negative");
  EXPECT_EQ(count(2).error().message,
            "t.csv:4: n is \"18446744073709551616\"; it has to be at most 100");
  EXPECT_FALSE(count(3).has_value());
  EXPECT_EQ(count(4).error().message,
            "t.csv:6: n is empty; it has to be a whole number that is not negative");
  EXPECT_EQ(count(5), 7U);
  EXPECT_EQ(table->row(0).count(0, 13).error().message,
            "t.csv:2: n is \"12\"; it has to be at least 13");
}

TEST(Csv, ReadsNumbersThatAreFiniteAndNotNegative) {
  const auto table = parse("x\n0.5\n1e3\n-0.1\nnan\ninf\n1e400\n1x\n");
  ASSERT_TRUE(table.has_value());
  EXPECT_EQ(table->row(0).number(0), 0.5);
  EXPECT_EQ(table->row(1).number(0), 1000.0);
  for (std::size_t row = 2; row < table->size(); ++row)
    EXPECT_FALSE(table->row(row).number(0).has_value()) << table->row(row).text(0);
  EXPECT_EQ(table->row(1).number(0, 10).error().message,
            "t.csv:3: x is \"1e3\"; it has to be at most 10");
}

TEST_F(CsvFile, ReadsPlainAndCompressedFiles) {
  for (const auto& path : {write("a.csv", "a,b\n1,2\n"), write_gz("a.csv.gz", "a,b\n1,2\n")}) {
    const auto table = CsvTable::read(path);
    ASSERT_TRUE(table.has_value()) << table.error().message;
    EXPECT_EQ(table->row(0).text(1), "2");
  }
}

TEST_F(CsvFile, RefusesAFileThatIsTooLargeWithoutReadingIt) {
  const std::string path = write("large.csv", "a\n");
  // No blocks are written: this takes no room and could not be read in the time of a test.
  std::filesystem::resize_file(path, std::uintmax_t{1} << 42);
  EXPECT_EQ(CsvTable::read(path).error().message,
            path + ": larger than 1 GiB, the most that is read; cut the trace into parts");
}

TEST_F(CsvFile, RefusesCompressedTextThatGrowsBeyondTheLimit) {
  std::string text = "a\n";
  for (int i = 0; i < 100'000; ++i) text += "0\n";
  const auto table = CsvTable::read(write_gz("bomb.gz", text), {.file_bytes = 100'000});
  ASSERT_FALSE(table.has_value());
  EXPECT_NE(table.error().message.find("larger than 100000 bytes"), std::string::npos)
      << table.error().message;
}

TEST_F(CsvFile, RefusesBinaryDamagedAndMissingFilesAndFolders) {
  const auto message = [](const std::string& path) {
    const auto table = CsvTable::read(path);
    return table ? "accepted" : table.error().message.substr(path.size());
  };
  EXPECT_EQ(message(write("binary", std::string_view("a\nb\0", 4))),
            ":2: a NUL byte, so this is binary data and no text; name a text file, plain or "
            "compressed with gzip");
  const std::string gz = write_gz("cut.gz", std::string(1000, 'a') + "\n" + std::string(1000, 'b'));
  std::filesystem::resize_file(gz, 20);
  EXPECT_EQ(message(gz),
            ":1: the compressed data is damaged (it ends too early); fetch or compress it again");
  EXPECT_EQ(message(folder_ / "none.csv"),
            ": cannot open it: No such file or directory; check the path");
  EXPECT_EQ(message(folder_.string()), ": this is a folder; name a file inside it");
}

}  // namespace
}  // namespace divvy::sim
