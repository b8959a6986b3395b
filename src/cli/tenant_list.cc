#include "cli/tenant_list.h"

#include <boost/json.hpp>
#include <chrono>
#include <ostream>
#include <set>
#include <thread>

#include "base/text.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/exit_codes.h"
#include "cli/list_view.h"
#include "cli/session.h"
#include "cli/table.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

std::string percent(std::uint64_t thousandths) {
  return fmt::format("{}.{}%", thousandths / 10, thousandths % 10);
}

// What the daemon sends is its own, but a daemon of another version may lack a field: the accessors
// throw, and the caller says that the answer was not understood.
std::uint64_t number(const json::object& from, std::string_view name) {
  return from.at(name).to_number<std::uint64_t>();
}

std::string text(const json::object& from, std::string_view name) {
  return escape_for_terminal(std::string_view(from.at(name).as_string()));
}

// A dash where nobody can tell.
std::string used(const json::object& slice, const Style& style) {
  if (slice.at("usedShareThousandths").is_null()) return std::string(style.unknown());
  return percent(number(slice, "usedShareThousandths"));
}

Color color_of(const std::string& state) {
  if (state == "running") return Color::kGreen;
  if (state == "waiting") return Color::kYellow;
  if (state == "failing") return Color::kRed;
  return Color::kDim;
}

std::string duration(std::uint64_t nanoseconds) {
  const std::uint64_t seconds = nanoseconds / 1'000'000'000;
  if (seconds < 60) return fmt::format("{:.1f} s", static_cast<double>(nanoseconds) / 1e9);
  if (seconds < 3600) return fmt::format("{}m {:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h {:02}m", seconds / 3600, seconds / 60 % 60);
}

// The fields are escaped by the daemon already; a backslash in them would be doubled here.
std::string once_escaped(const json::object& from, std::string_view name) {
  const std::string_view value = from.at(name).as_string();
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return escape_for_terminal(value);
  }
  return std::string(value);
}

void add_rows(Table& table, const json::object& tenant, const Style& style, bool wide) {
  bool first = true;
  for (const json::value& item : tenant.at("slices").as_array()) {
    const json::object& slice = item.as_object();
    const json::object& gpu = slice.at("gpu").as_object();
    const std::string state = text(tenant, "state");
    std::string share =
        to_string(Share(static_cast<std::uint32_t>(number(slice, "shareThousandths"))));
    if (slice.at("capped").as_bool()) share += " cap";
    std::vector<Cell> row;
    row.emplace_back(first ? fmt::format("{}", number(tenant, "id")) : "");
    row.emplace_back(first ? text(tenant, "name") : "");
    row.emplace_back(first ? text(tenant, "user") : "");
    row.emplace_back(fmt::format("{}", number(gpu, "index")));
    row.emplace_back(share);
    row.emplace_back(used(slice, style));
    row.emplace_back(humanize(Bytes(number(slice, "memoryUsedBytes"))));
    row.emplace_back(humanize(Bytes(number(slice, "memoryLimitBytes"))));
    row.emplace_back(humanize(Bytes(number(slice, "memoryPeakBytes"))));
    row.emplace_back(percent(number(slice, "waitedShareThousandths")));
    row.emplace_back(text(tenant, "class"));
    row.emplace_back(first ? state : "", color_of(state));
    if (wide) {
      row.emplace_back(text(tenant, "mode"));
      row.emplace_back(duration(number(slice, "usedNanoseconds")));
      row.emplace_back(duration(number(slice, "waitedNanoseconds")));
      row.emplace_back(fmt::format("{}", number(slice, "allocationsRefused")));
      row.emplace_back(fmt::format("{}", tenant.at("processes").as_array().size()));
      row.emplace_back(tenant.at("pid").is_null() ? std::string(style.unknown())
                                                  : fmt::format("{}", number(tenant, "pid")));
    }
    const std::string command = first ? once_escaped(tenant, "command") : "";
    row.emplace_back(wide ? command : shorten(command, 40, style));
    table.add_row(std::move(row));
    first = false;
  }
}

// "GPU 0 is quarantined: XID 79 ...", once for each GPU that somebody here is on. A daemon of an
// older version says nothing about it.
std::set<std::string> notes_on_gpus(const json::array& tenants) {
  std::set<std::string> notes;
  for (const json::value& tenant : tenants) {
    for (const json::value& slice : tenant.at("slices").as_array()) {
      const json::value* resting = slice.as_object().if_contains("gpuResting");
      if (resting == nullptr || !resting->is_string()) continue;
      notes.insert(fmt::format("GPU {} {}", number(slice.at("gpu").as_object(), "index"),
                               std::string_view(resting->as_string())));
    }
  }
  return notes;
}

}  // namespace

Result<std::string> tenant_table(const std::string& document, const Style& style, bool wide) {
  try {
    const json::value value = json::parse(document);
    const json::object& list = value.as_object();
    const json::array& items = list.at("items").as_array();
    if (items.empty()) return "nobody holds a slice\n";
    Table table;
    table.add_column("ID", Align::kRight);
    table.add_column("TENANT");
    table.add_column("USER");
    table.add_column("GPU", Align::kRight);
    table.add_column("SHARE");
    table.add_column("USED", Align::kRight);
    table.add_column("MEMORY", Align::kRight);
    table.add_column("LIMIT", Align::kRight);
    table.add_column("PEAK", Align::kRight);
    table.add_column("WAITING", Align::kRight);
    table.add_column("CLASS");
    table.add_column("STATE");
    if (wide) {
      table.add_column("MODE");
      table.add_column("GPU TIME", Align::kRight);
      table.add_column("WAITED", Align::kRight);
      table.add_column("REFUSED", Align::kRight);
      table.add_column("PROCS", Align::kRight);
      table.add_column("PID", Align::kRight);
    }
    table.add_column("COMMAND");
    for (const json::value& item : items) add_rows(table, item.as_object(), style, wide);
    std::string result = table.render(style);
    for (const std::string& note : notes_on_gpus(items)) result += note + "\n";
    if (const auto waiting = number(list, "waiting"); waiting > 0) {
      result += fmt::format("{} more {} for a place\n", waiting, waiting == 1 ? "waits" : "wait");
    }
    return result;
  } catch (const std::exception& error) {
    return err(not_understood(error.what()));
  }
}

int list_tenants(const Daemon& daemon, const PsOptions& options, const Style& style,
                 std::ostream& out, std::ostream& err) {
  for (;;) {
    const auto reply = daemon.ask("GET", "/v1/tenants");
    if (!reply) {
      err << "divvy: " << reply.error().message << "\n";
      return kExitError;
    }
    if (!reply->ok()) {
      err << "divvy: " << problem_text(*reply) << "\n";
      return problem_exit(*reply);
    }
    const bool document =
        options.format == OutputFormat::kJson || options.format == OutputFormat::kYaml;
    auto shown = document ? Result<std::string>(write_document(reply->body, options.format))
                 : options.format == OutputFormat::kName
                     ? item_names(reply->body, "name")
                     : tenant_table(reply->body, style, options.format == OutputFormat::kWide);
    if (!shown) {
      err << "divvy: " << shown.error().message << "\n";
      return kExitError;
    }
    // On a terminal each picture replaces the last; elsewhere they follow each other.
    if (options.watch && style.decoration) out << "\x1b[H\x1b[2J";
    out << *shown << std::flush;
    if (!out) return kExitError;
    if (!options.watch) return kExitOk;
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
}

std::string change_text(const Answer& before, const Answer& after, const Style& style) {
  std::string changes;
  const auto compare = [&](std::string_view what, const std::string& was, const std::string& is) {
    if (was == is) return;
    changes +=
        fmt::format("{}{} {}{}", changes.empty() ? "" : ", ", what,
                    was.empty() ? "" : fmt::format("{} {} ", was, style.pick("→", "->")), is);
  };
  const auto slice = [](const Answer& tenant) {
    const auto slices = tenant["slices"].items();
    return slices.empty() ? Answer() : slices.front();
  };
  const auto share = [](const Answer& part) {
    const auto thousandths = part["shareThousandths"].number();
    return thousandths ? to_string(Share(static_cast<std::uint32_t>(*thousandths))) : "";
  };
  const auto memory = [](const Answer& part) {
    const auto bytes = part["memoryLimitBytes"].number();
    return bytes ? humanize(Bytes(static_cast<std::uint64_t>(*bytes))) : "";
  };
  const auto cap = [](const Answer& part) -> std::string {
    if (part["capped"].empty()) return "";
    return part["capped"].flag() ? "on" : "off";
  };
  const Answer was = slice(before);
  const Answer is = slice(after);
  compare("share", share(was), share(is));
  compare("memory limit", memory(was), memory(is));
  compare("cap", cap(was), cap(is));
  compare("class", before["class"].text(), after["class"].text());
  return fmt::format("tenant {} ({}): {}\n", after["id"].text(), after["name"].text(),
                     changes.empty() ? "nothing changed, it was so already" : changes);
}

int change_tenant(const Daemon& daemon, const SetOptions& options, const Style& style,
                  std::ostream& out, std::ostream& err) {
  const std::string path = "/v1/tenants/" + escape_for_url(options.tenant);
  // Only to say what it was; whether it may be changed is for the second question to tell.
  const auto old = daemon.ask("GET", path);
  const auto before = old && old->ok() ? Answer::parse(old->body) : Result<Answer>(Answer());
  json::object body;
  if (options.gpu) body["gpu"] = *options.gpu;
  if (options.memory) body["memory"] = *options.memory;
  if (options.cap) body["cap"] = *options.cap;
  if (options.tenant_class) body["class"] = *options.tenant_class;
  const auto reply = daemon.ask("PATCH", path, json::serialize(body));
  if (!reply) {
    err << "divvy: " << reply.error().message << "\n";
    return kExitError;
  }
  if (!reply->ok()) {
    err << "divvy: " << problem_text(*reply) << "\n";
    return problem_exit(*reply);
  }
  const auto after = Answer::parse(reply->body);
  if (after) out << change_text(before ? *before : Answer(), *after, style) << std::flush;
  return out ? kExitOk : kExitError;
}

}  // namespace divvy::cli
