// Runs cases in processes of their own and collects what they say. Called by main alone.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "check.h"

namespace divvy::conformance {

struct Case {
  std::string name;
  CaseFunction run;
};
std::vector<Case>& all_cases();

struct Statement {
  char kind = 'n';  // o: as promised, f: not, r: recorded, n: note, s: skipped
  std::string name;
  std::string expected;
  std::string got;
};

struct Outcome {
  std::vector<Statement> statements;
  std::string ended;  // empty: normally; otherwise how the process ended
};

// Forks, loads the driver there, runs the case. The parent must not have touched the driver.
Outcome run_case(const Case& one, int timeout_s);

// expected.txt: "case.key = value" lines, # begins a comment.
std::map<std::string, std::string> read_expected(const std::string& text);
// differences.md: rows "| case.key | reason |" of a table.
std::map<std::string, std::string> read_differences(const std::string& text);

}  // namespace divvy::conformance
