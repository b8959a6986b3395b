// driver_conformance: asks a CUDA driver and its NVML, case by case, for documented behaviour, so
// that the simulated driver can be held against a real one. The same program runs on both;
// README.md says how.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "runner.h"

namespace divvy::conformance {

// expected.txt and differences.md as they were when the program was built.
extern const char* const kBuiltInExpected;
extern const char* const kBuiltInDifferences;

namespace {

struct Options {
  bool list = false;
  bool verbose = false;
  std::string only;
  std::string json;
  std::string record;
  std::string expected;
  std::string differences;
  int timeout_s = 60;
};

constexpr const char* kUsage =
    "usage: driver_conformance [--list] [--only TEXT] [--json FILE] [--record FILE]\n"
    "                          [--expected FILE] [--differences FILE] [--timeout SECONDS]\n"
    "                          [--verbose]\n"
    "  --only TEXT     cases whose name contains TEXT\n"
    "  --json FILE     everything that was seen, to compare two machines\n"
    "  --record FILE   the recorded values in the form of expected.txt\n"
    "  --verbose       print every statement, not only failures\n";

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--list") {
      options.list = true;
      continue;
    }
    if (word == "--verbose") {
      options.verbose = true;
      continue;
    }
    std::string* target = word == "--only"          ? &options.only
                          : word == "--json"        ? &options.json
                          : word == "--record"      ? &options.record
                          : word == "--expected"    ? &options.expected
                          : word == "--differences" ? &options.differences
                                                    : nullptr;
    if ((target == nullptr && word != "--timeout") || i + 1 >= argc) return std::nullopt;
    ++i;
    if (target != nullptr) {
      *target = argv[i];
    } else {
      options.timeout_s = std::max(1, std::atoi(argv[i]));
    }
  }
  return options;
}

std::string escaped(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + "\"";
}

struct Tally {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  int known = 0;
};

class Session {
 public:
  Session(const Options& options, const std::string& expected, const std::string& differences)
      : options_(options),
        expected_(read_expected(expected)),
        differences_(read_differences(differences)) {}

  void run(const Case& one) {
    const Outcome outcome = run_case(one, options_.timeout_s);
    bool failed = false;
    bool skipped = false;
    for (const Statement& statement : outcome.statements) {
      failed |= !judge(one.name, statement);
      skipped |= statement.kind == 's';
    }
    if (!outcome.ended.empty()) {
      std::printf("FAIL %s: expected the process to end normally, got %s\n", one.name.c_str(),
                  outcome.ended.c_str());
      failed = true;
    }
    if (!failed) std::printf("%s %s\n", skipped ? "skip" : "ok", one.name.c_str());
    std::fflush(stdout);
    tally_.passed += !failed && !skipped;
    tally_.skipped += !failed && skipped;
    tally_.failed += failed;
    json_ += (json_.empty() ? "" : ",\n") + json_of(one, outcome);
  }

  [[nodiscard]] const Tally& tally() const { return tally_; }
  [[nodiscard]] std::string json() const { return "[\n" + json_ + "\n]\n"; }
  [[nodiscard]] const std::string& recorded() const { return recorded_; }

 private:
  // Prints what is worth printing; false when the statement is a failure.
  bool judge(const std::string& name, const Statement& statement) {
    const std::string key = name + "." + statement.name;
    switch (statement.kind) {
      case 'f':
        std::printf("FAIL %s: %s: expected %s, got %s\n", name.c_str(), statement.name.c_str(),
                    statement.expected.c_str(), statement.got.c_str());
        return false;
      case 'r':
        return compare(key, statement.got);
      case 'n':
      case 's':
        std::printf("note %s: %s=%s\n", name.c_str(), statement.name.c_str(),
                    statement.got.c_str());
        return true;
      default:
        if (options_.verbose) {
          std::printf("     %s: %s: %s\n", name.c_str(), statement.name.c_str(),
                      statement.got.c_str());
        }
        return true;
    }
  }

  bool compare(const std::string& key, const std::string& got) {
    recorded_ += key + " = " + got + "\n";
    const auto expected = expected_.find(key);
    if (expected == expected_.end()) {
      std::printf("note %s=%s (not in expected.txt)\n", key.c_str(), got.c_str());
      return true;
    }
    if (expected->second == got) {
      if (options_.verbose) std::printf("     %s: %s\n", key.c_str(), got.c_str());
      return true;
    }
    const auto reason = differences_.find(key);
    if (reason != differences_.end()) {
      std::printf("known %s: expected %s, got %s: %s\n", key.c_str(), expected->second.c_str(),
                  got.c_str(), reason->second.c_str());
      ++tally_.known;
      return true;
    }
    std::printf("FAIL %s: expected.txt has %s, got %s\n", key.c_str(), expected->second.c_str(),
                got.c_str());
    return false;
  }

  static std::string json_of(const Case& one, const Outcome& outcome) {
    std::string text = "  {\"case\": " + escaped(one.name) +
                       ", \"ended\": " + escaped(outcome.ended) + ", \"statements\": [";
    bool first = true;
    for (const Statement& statement : outcome.statements) {
      text += first ? "\n" : ",\n";
      first = false;
      text += "    {\"kind\": " + escaped(std::string(1, statement.kind)) +
              ", \"name\": " + escaped(statement.name) +
              ", \"expected\": " + escaped(statement.expected) +
              ", \"got\": " + escaped(statement.got) + "}";
    }
    return text + "]}";
  }

  const Options& options_;
  std::map<std::string, std::string> expected_;
  std::map<std::string, std::string> differences_;
  Tally tally_;
  std::string json_;
  std::string recorded_;
};

bool read_file(const std::string& path, const char* built_in, std::string& text) {
  if (path.empty()) {
    text = built_in;
    return true;
  }
  std::ifstream file(path);
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file) std::fprintf(stderr, "driver_conformance: cannot read %s\n", path.c_str());
  return static_cast<bool>(file);
}

bool write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return true;
  std::ofstream file(path);
  file << text;
  if (!file) std::fprintf(stderr, "driver_conformance: cannot write %s\n", path.c_str());
  return static_cast<bool>(file);
}

int start(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  std::string expected;
  std::string differences;
  if (!read_file(options->expected, kBuiltInExpected, expected) ||
      !read_file(options->differences, kBuiltInDifferences, differences)) {
    return 2;
  }
  Session session(*options, expected, differences);
  bool any = false;
  for (const Case& one : all_cases()) {
    if (one.name.find(options->only) == std::string::npos) continue;
    any = true;
    if (options->list) {
      std::printf("%s\n", one.name.c_str());
    } else {
      session.run(one);
    }
  }
  if (!any) {
    std::fprintf(stderr, "driver_conformance: no case has \"%s\" in its name; --list shows them\n",
                 options->only.c_str());
    return 2;
  }
  if (options->list) return 0;
  const Tally& tally = session.tally();
  std::printf("%d passed, %d failed, %d skipped, %d known differences\n", tally.passed,
              tally.failed, tally.skipped, tally.known);
  if (!write_file(options->json, session.json())) return 1;
  if (!write_file(options->record, session.recorded())) return 1;
  return tally.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace divvy::conformance

int main(int argc, char** argv) { return divvy::conformance::start(argc, argv); }
