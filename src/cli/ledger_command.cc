#include "cli/ledger_command.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <ctime>
#include <ostream>

#include "base/counted.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/exit_codes.h"
#include "cli/help_texts.h"
#include "cli/output.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kJson,
                                     OutputFormat::kYaml};

std::uint64_t number(const json::object& from, std::string_view name) {
  return from.at(name).to_number<std::uint64_t>();
}

std::string text(const json::object& from, std::string_view name) {
  return escape_for_terminal(std::string_view(from.at(name).as_string()));
}

// "2026-01-31 12:00:00", in UTC as in the log.
std::string moment(const json::object& from, std::string_view name) {
  const auto seconds = static_cast<std::time_t>(from.at(name).to_number<std::int64_t>());
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds);
  char buffer[32];
  const std::size_t size = std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &parts);
  return {buffer, size};
}

std::string damage_text(const json::object& document) {
  const json::object& damage = document.at("damage").as_object();
  return fmt::format("DAMAGED at byte {}: {}\n", number(damage, "offset"), text(damage, "reason"));
}

void add_rows(Table& table, const json::object& tenant, const Style& style) {
  for (const json::value& item : tenant.at("slices").as_array()) {
    const json::object& slice = item.as_object();
    std::string share =
        to_string(Share(static_cast<std::uint32_t>(number(slice, "shareThousandths"))));
    if (slice.at("capped").as_bool()) share += " cap";
    table.add_row({fmt::format("{}", number(tenant, "id")), text(tenant, "name"),
                   text(tenant, "user"), text(slice, "gpu"), share,
                   humanize(Bytes(number(slice, "memoryBytes"))), text(tenant, "class"),
                   text(tenant, "mode"),
                   tenant.at("pid").is_null() ? std::string(style.unknown())
                                              : fmt::format("{}", number(tenant, "pid")),
                   moment(tenant, "sinceUnix"), shorten(text(tenant, "command"), 40, style)});
  }
}

std::string tenants_table(const json::array& tenants, const Style& style) {
  if (tenants.empty()) return "nobody holds a slice\n";
  Table table;
  table.add_column("ID", Align::kRight);
  table.add_column("TENANT");
  table.add_column("USER");
  table.add_column("GPU");
  table.add_column("SHARE");
  table.add_column("LIMIT", Align::kRight);
  table.add_column("CLASS");
  table.add_column("MODE");
  table.add_column("PID", Align::kRight);
  table.add_column("SINCE (UTC)");
  table.add_column("COMMAND");
  for (const json::value& item : tenants) add_rows(table, item.as_object(), style);
  return table.render(style);
}

std::string cordons_table(const json::array& cordons, const Style& style) {
  if (cordons.empty()) return {};
  Table table;
  table.add_column("CORDONED GPU");
  table.add_column("DRAINING");
  table.add_column("SINCE (UTC)");
  table.add_column("REASON");
  for (const json::value& item : cordons) {
    const json::object& cordon = item.as_object();
    table.add_row({text(cordon, "gpu"), cordon.at("draining").as_bool() ? "yes" : "no",
                   moment(cordon, "sinceUnix"), text(cordon, "reason")});
  }
  return "\n" + table.render(style);
}

// The accessors throw where the document is not as this version knows it.
template <typename Read>
auto guarded(const std::string& document, Read&& read)
    -> Result<decltype(read(std::declval<const json::object&>()))> {
  try {
    const json::value value = json::parse(document);
    return read(value.as_object());
  } catch (const std::exception& error) {
    return err(ErrorCode::kInternal, "the ledger's description was not understood ({})",
               error.what());
  }
}

}  // namespace

CLI::App* add_ledger(CLI::App& app, LedgerArguments& arguments) {
  CLI::App* ledger = app.add_subcommand("ledger", "Read what divvyd has written down");
  ledger->group("Commands");
  ledger->footer(kLedgerFooter);
  CLI::App* show = ledger->add_subcommand("show", "List who holds which slice, as on the disk");
  CLI::App* verify = ledger->add_subcommand("verify", "Check that all of it can be read");
  for (CLI::App* command : {show, verify}) {
    command->group("Commands");
    command->add_option("-o,--output", arguments.format, "Output format: table, json or yaml")
        ->type_name("FORMAT");
    command
        ->add_option("--state-dir", arguments.state_folder,
                     "Folder of the ledger (DIVVY_STATE_DIR)")
        ->type_name("FOLDER");
  }
  return ledger;
}

Result<std::string> ledger_table(const std::string& document, const Style& style) {
  return guarded(document, [&style](const json::object& ledger) {
    std::string shown = tenants_table(ledger.at("tenants").as_array(), style) +
                        cordons_table(ledger.at("cordons").as_array(), style);
    if (!ledger.at("currentBoot").as_bool()) {
      shown +=
          "\nThis is from before the last boot: divvyd forgets tenants with a process when it "
          "starts.\n";
    }
    if (!ledger.at("damage").is_null()) shown += "\n" + damage_text(ledger);
    return shown;
  });
}

Result<LedgerVerdict> ledger_verdict(const std::string& document) {
  return guarded(document, [](const json::object& ledger) {
    LedgerVerdict verdict;
    const std::uint64_t records = number(ledger, "records");
    const std::uint64_t snapshot = std::min(records, number(ledger, "snapshotRecords"));
    verdict.text =
        fmt::format("{}: {}\n{} in the snapshot, {} appended, the last is number {}\n{}, {}\n",
                    text(ledger, "file"), humanize(Bytes(number(ledger, "bytes"))),
                    counted(snapshot, "record"), records - snapshot, number(ledger, "lastSequence"),
                    counted(ledger.at("tenants").as_array().size(), "tenant"),
                    counted(ledger.at("cordons").as_array().size(), "cordoned GPU"));
    if (const std::uint64_t torn = number(ledger, "tornBytes"); torn > 0) {
      verdict.text += fmt::format(
          "{} at the end, from byte {}, belong to a record that was never acknowledged; divvyd "
          "leaves them out when it starts\n",
          counted(torn, "byte"), number(ledger, "tornOffset"));
    }
    verdict.damaged = !ledger.at("damage").is_null();
    verdict.text += verdict.damaged
                        ? damage_text(ledger) +
                              "What is counted above stands before that place. End the programs "
                              "that use GPUs, move the file away\nand start divvyd again: it then "
                              "begins with no tenants.\n"
                        : "clean\n";
    return verdict;
  });
}

Result<int> run_ledger(const CLI::App& ledger, const LedgerArguments& arguments,
                       const LedgerReader& reader, const Style& style, std::ostream& out,
                       std::ostream& err) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kFormats));
  const auto document = reader(arguments.state_folder);
  if (!document) {
    err << "divvy: " << document.error().message << "\n";
    if (document.error().code == ErrorCode::kNotFound) return kExitNotFound;
    return document.error().code == ErrorCode::kPermissionDenied ? kExitDenied : kExitError;
  }
  const auto verdict = ledger_verdict(*document);
  Result<std::string> shown;
  if (format != OutputFormat::kTable) {
    shown = write_document(*document, format);
  } else if (ledger.got_subcommand("show")) {
    shown = ledger_table(*document, style);
  } else {
    shown = verdict.map([](const LedgerVerdict& one) { return one.text; });
  }
  if (!shown || !verdict) {
    err << "divvy: " << (shown ? verdict.error() : shown.error()).message << "\n";
    return kExitError;
  }
  out << *shown << std::flush;
  return verdict->damaged || !out ? kExitError : kExitOk;
}

}  // namespace divvy::cli
