#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <iterator>
#include <ostream>

#include "base/counted.h"
#include "base/text.h"
#include "cli/exit_codes.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

std::ptrdiff_t count(const Findings& findings, Verdict verdict) {
  return std::ranges::count(findings, verdict, &Finding::verdict);
}

Color color_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return Color::kGreen;
    case Verdict::kNote:
      return Color::kCyan;
    case Verdict::kWarning:
      return Color::kYellow;
    case Verdict::kError:
      return Color::kRed;
  }
  return Color::kPlain;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kNote:
      return "note";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kError:
      return "error";
  }
  return "unknown";
}

Findings examine(const DoctorInput& input) {
  Findings all;
  for (const auto& look : {examine_driver, examine_daemon, examine_system}) {
    std::ranges::move(look(input), std::back_inserter(all));
  }
  return all;
}

std::string doctor_document(const Findings& findings) {
  json::array items;
  for (const Finding& finding : findings) {
    items.push_back(json::object{
        {"check", finding.check},
        {"verdict", to_string(finding.verdict)},
        {"message", to_valid_utf8(finding.text)},
        {"fix",
         finding.fix.empty() ? json::value(nullptr) : json::value(to_valid_utf8(finding.fix))},
    });
  }
  return json::serialize(json::object{{"apiVersion", "divvy/v1"},
                                      {"kind", "Examination"},
                                      {"errors", count(findings, Verdict::kError)},
                                      {"warnings", count(findings, Verdict::kWarning)},
                                      {"findings", std::move(items)}});
}

std::string doctor_text(const Findings& findings, const Style& style) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string word = fmt::format("{:<7}", to_string(finding.verdict));
    text += fmt::format("{}  {}\n", style.paint(color_of(finding.verdict), word),
                        escape_for_terminal(finding.text));
    if (finding.fix.empty()) continue;
    for (const std::string_view line : split(finding.fix, '\n')) {
      text += fmt::format("         {} {}\n", style.pick("→", "->"), escape_for_terminal(line));
    }
  }
  const auto errors = count(findings, Verdict::kError);
  const auto warnings = count(findings, Verdict::kWarning);
  text += fmt::format("\n{}, {}, {}\n", counted(errors, "error"), counted(warnings, "warning"),
                      counted(findings.size(), "check"));
  return text;
}

int run_doctor(const DoctorInput& input, OutputFormat format, const Style& style,
               std::ostream& out) {
  const Findings findings = examine(input);
  out << (format == OutputFormat::kTable ? doctor_text(findings, style)
                                         : write_document(doctor_document(findings), format))
      << std::flush;
  return count(findings, Verdict::kError) == 0 ? kExitOk : kExitError;
}

}  // namespace divvy::cli
