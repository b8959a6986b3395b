// `divvy templates`: the job files with gaps that `divvy submit --template` fills in.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "base/text.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/job_help_texts.h"
#include "cli/job_template.h"
#include "cli/list_view.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

std::string templates_document(const JobTemplates& templates) {
  json::array items;
  for (const auto& [name, one] : templates.by_name) {
    json::object values;
    for (const auto& [key, value] : one.values) {
      values[key] = value ? json::value(*value) : json::value(nullptr);
    }
    items.push_back(json::object{{"name", name},
                                 {"summary", one.summary},
                                 {"values", std::move(values)},
                                 {"file", one.file}});
  }
  return json::serialize(json::object{
      {"apiVersion", "divvy/v1"}, {"kind", "TemplateList"}, {"items", std::move(items)}});
}

// "data=, epochs=3"
std::string values_text(const Answer& values) {
  std::string text;
  for (const std::string& key : values.names()) {
    text += (text.empty() ? "" : ", ") + key + "=" + values[key].text();
  }
  return text;
}

ListView templates_view() {
  return {.columns = {text_column("NAME", "name"),
                      text_column("WHAT IT IS", "summary"),
                      {.header = "VALUES",
                       .cell = [](const Answer& one) { return Cell(values_text(one["values"])); }},
                      text_column("FILE", "file", true)},
          .name = "name",
          .nothing =
              "there are no templates; they lie in ~/.config/divvy/templates and "
              "/etc/divvy/templates"};
}

Result<int> show_templates(const Session& session, const std::string& typed_format) {
  DIVVY_TRY(format, parse_output_format(typed_format, kListFormats));
  const JobTemplates templates =
      find_templates(template_folders(session.terminal.environment, "templates"));
  for (const std::string& trouble : templates.troubles) session.say(escape_for_terminal(trouble));
  DIVVY_TRY(text,
            show_list(templates_view(), templates_document(templates), format, "", session.style));
  return session.print(text);
}

}  // namespace

void add_templates_command(CommandTree& tree) {
  auto format = std::make_shared<std::string>("table");
  CLI::App* command =
      tree.add(heading::kJobs, "templates", "The job files with gaps for `divvy submit --template`",
               kTemplatesFooter,
               [format](const Session& session) { return show_templates(session, *format); });
  add_output(*command, *format, kListFormats);
}

}  // namespace divvy::cli
