#include "cli/kubectl_app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ostream>

#include "base/text.h"
#include "base/units.h"
#include "cli/answer.h"
#include "cli/exit_codes.h"
#include "cli/list_view.h"
#include "cli/output.h"

namespace divvy::cli {
namespace {

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                     OutputFormat::kYaml,  OutputFormat::kName, OutputFormat::kCsv};

constexpr const char* kFooter = R"(Examples:
  kubectl divvy inspect
  kubectl divvy queue -A
  kubectl divvy explain train-0 -n research)";

struct Options {
  KubeTarget target;
  std::string color = "auto";
  std::string format = "table";
  std::string sort_by;
  std::string pod;
  bool version = false;
};

std::string share_text(const Answer& thousandths) {
  const std::int64_t number = std::clamp<std::int64_t>(thousandths.number().value_or(0), 0,
                                                       std::int64_t{Share::kMaxThousandths});
  return to_string(Share(static_cast<std::uint32_t>(number)));
}

std::string memory_text(const Answer& bytes) {
  return humanize(
      Bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(bytes.number().value_or(0), 0))));
}

ListColumn share_column(std::string header, std::function<Answer(const Answer&)> of) {
  return {.header = std::move(header),
          .cell = [of](const Answer& item) { return Cell(share_text(of(item))); },
          .align = Align::kRight,
          .number = [of](const Answer& item) { return of(item).number(); }};
}

// "team-a/train 0.3, team-a/eval 0.2": who is on a GPU.
std::string tenants(const Answer& slices) {
  std::string text;
  for (const Answer& slice : slices.items()) {
    const std::string state = slice["state"].text();
    text += fmt::format("{}{}/{} {}{}", text.empty() ? "" : ", ", slice["namespace"].text(),
                        slice["pod"].text(), share_text(slice["shareThousandths"]),
                        state == "held" ? "" : " (" + state + ")");
  }
  return text;
}

Cell state_cell(const Answer& item) {
  const std::string state = item["state"].text();
  if (state == "ok") return {state, Color::kGreen};
  return {state, state == "lost" ? Color::kRed : Color::kYellow};
}

ListView gpus_view() {
  ListView view;
  view.name = "uuid";
  view.nothing = "no node has told of GPUs; is the node agent running? (kubectl get gpunodes)";
  view.columns = {
      text_column("NODE", "node"),
      number_column("GPU", "gpu"),
      text_column("MODEL", "model"),
      text_column("UUID", "uuid", true),
      {.header = "STATE", .cell = state_cell},
      share_column("HELD", [](const Answer& item) { return item["held"]["shareThousandths"]; }),
      {.header = "MEMORY",
       .cell =
           [](const Answer& item) {
             return Cell(fmt::format("{} of {}", memory_text(item["held"]["memoryBytes"]),
                                     memory_text(item["memoryBytes"])));
           },
       .align = Align::kRight,
       .number = [](const Answer& item) { return item["held"]["memoryBytes"].number(); }},
      text_column("HEARTBEAT", "heartbeat", true),
      {.header = "PODS", .cell = [](const Answer& item) { return Cell(tenants(item["slices"])); }}};
  return view;
}

ListView slices_view() {
  ListView view;
  view.name = "pod";
  view.nothing = "no pod holds a slice";
  view.columns = {
      text_column("NAMESPACE", "namespace"),
      text_column("POD", "pod"),
      text_column("CONTAINER", "container"),
      text_column("NODE", "node"),
      number_column("GPU", "gpu"),
      share_column("SHARE", [](const Answer& item) { return item["shareThousandths"]; }),
      {.header = "MEMORY",
       .cell = [](const Answer& item) { return Cell(memory_text(item["memoryBytes"])); },
       .align = Align::kRight,
       .number = [](const Answer& item) { return item["memoryBytes"].number(); }},
      text_column("CLASS", "class"),
      text_column("STATE", "state"),
      text_column("CLAIM", "claim", true)};
  return view;
}

// The rest goes through the GPUs one by one.
std::string first_line(const std::string& message) { return message.substr(0, message.find('\n')); }

ListView waiting_view() {
  ListView view;
  view.name = "pod";
  view.nothing = "no pod waits for GPUs";
  view.columns = {text_column("NAMESPACE", "namespace"),
                  text_column("POD", "pod"),
                  text_column("QUEUE", "queue"),
                  number_column("PRIORITY", "priority"),
                  text_column("ASKS", "asks"),
                  text_column("SINCE", "since"),
                  text_column("GANG", "gang", true),
                  text_column("DIALECT", "dialect", true),
                  {.header = "WHY", .cell = [](const Answer& item) {
                     return Cell(first_line(item["message"].text()));
                   }}};
  return view;
}

std::string explanation(const Answer& pod) {
  std::string text =
      fmt::format("{}/{}: {}\n", pod["namespace"].text(), pod["pod"].text(), pod["state"].text());
  if (pod["asks"].empty()) {
    if (pod["message"].empty()) {
      return text +
             "It asks for no GPU; write the annotation divvy.dev/gpu: \"0.3\", for example.\n";
    }
    return text + fmt::format("What it asks for cannot be read: {}\n", pod["message"].text());
  }
  text += fmt::format("  asks for  {} ({}), queue {}, class {}, priority {}\n", pod["asks"].text(),
                      pod["dialect"].text(), pod["queue"].text(), pod["class"].text(),
                      pod["priority"].text());
  if (!pod["gang"].empty()) text += fmt::format("  gang      {}\n", pod["gang"].text());
  for (const Answer& slice : pod["slices"].items()) {
    text += fmt::format("  slice     {} and {} of GPU {} on {} ({}, {})\n",
                        share_text(slice["shareThousandths"]), memory_text(slice["memoryBytes"]),
                        slice["gpu"].text(), slice["node"].text(), slice["container"].text(),
                        slice["state"].text());
  }
  if (!pod["message"].text().empty()) {
    const std::string message = pod["message"].text();
    text += fmt::format("  why       {} ({})\n", first_line(message), pod["reason"].text());
    for (std::size_t end = message.find('\n'); end != std::string::npos;) {
      const std::size_t begin = end + 1;
      end = message.find('\n', begin);
      const std::string line = message.substr(begin, end - begin);
      if (!line.empty()) text += fmt::format("            {}\n", line);
    }
  } else if (pod["state"].text() == "waiting") {
    text += "  why       Divvy's controller has not said anything yet; is it running?\n";
  }
  for (const Answer& event : pod["events"].items()) {
    text += fmt::format("  {}  {}  {}\n", event["time"].text(), event["reason"].text(),
                        event["message"].text());
  }
  return text;
}

// "pod a/x, pod a/y and 3 more"
std::string first_of(const Answer& names, std::int64_t all) {
  std::string text;
  std::int64_t shown = 0;
  for (const Answer& name : names.items()) {
    text += fmt::format("{}{}", shown++ == 0 ? "" : ", ", name.text());
  }
  if (all > shown) text += fmt::format(" and {} more", all - shown);
  return text;
}

std::string capacity_text(const Answer& status) {
  const Answer& free = status["free"];
  std::string text =
      fmt::format("free      {} GPU; {} whole ones on one node; {} stranded beside parts of pods\n",
                  free["gpus"].text(), free["largestGpus"].text(), free["stranded"].text());
  const Answer moves = status["moves"];
  const std::string mode = moves["mode"].text();
  if (moves["for"].empty()) {
    text += fmt::format("moves     none ({})\n", mode);
  } else {
    text += fmt::format("moves     for {}, which fits on {} then ({}{})\n", moves["for"].text(),
                        moves["node"].text(), mode, moves["underWay"].flag() ? ", under way" : "");
    for (const Answer& step : moves["steps"].items()) {
      text += fmt::format("            {} from {} to {}\n", step["pod"].text(), step["from"].text(),
                          step["to"].text());
    }
    text += fmt::format(
        "          {} whole GPUs on one node instead of {}, {} stranded instead of {}\n",
        moves["after"]["largestGpus"].text(), moves["before"]["largestGpus"].text(),
        moves["after"]["stranded"].text(), moves["before"]["stranded"].text());
  }
  if (status["wanted"].items().empty()) text += "nodes     none are waited for\n";
  for (const Answer& one : status["wanted"].items()) {
    text += fmt::format("nodes     {} more of {} ({} x {}) for {}\n", one["nodes"].text(),
                        one["kind"].text(), one["gpusPerNode"].text(), one["model"].text(),
                        first_of(one["for"], one["pods"].number().value_or(0)));
  }
  const Answer& others = status["notHelped"];
  if (others["pods"].number().value_or(0) > 0) {
    text += fmt::format("          no such node would help {}\n",
                        first_of(others["for"], *others["pods"].number()));
  }
  return text;
}

class KubectlLine {
 public:
  KubectlLine(const KubeDocuments& documents, std::ostream& out)
      : documents_(documents), out_(out) {
    app_.name("kubectl divvy");
    app_.footer(kFooter);
    app_.set_help_flag("-h,--help", "Print this text");
    app_.add_flag("--version", options_.version, "Print the version");
    app_.add_option("--kubeconfig", options_.target.kubeconfig, "Path of the kubeconfig")
        ->type_name("FILE");
    app_.add_option("--context", options_.target.context, "Context of the kubeconfig")
        ->type_name("NAME");
    app_.add_option("-n,--namespace", options_.target.space, "Only this namespace")
        ->type_name("NAME");
    app_.add_flag("-A,--all-namespaces", options_.target.all_spaces, "Of all namespaces");
    app_.add_option("--color", options_.color, "When to use colours: auto, always or never")
        ->type_name("WHEN");
    app_.fallthrough();
    app_.require_subcommand(0, 1);
    inspect_ = listing("inspect", "GPUs of all nodes, and the pods that have slices of them");
    top_ = listing("top", "Slices that pods hold, the largest first");
    queue_ = listing("queue", "Pods that wait for GPUs, and why");
    explain_ = app_.add_subcommand("explain", "Why a pod waits, or where it is");
    explain_->add_option("POD", options_.pod, "Its name, or pod/NAME")->required();
    add_format(*explain_);
    capacity_ = app_.add_subcommand(
        "capacity", "What is free, which pods would be moved, and which nodes the line waits for");
    add_format(*capacity_);
  }

  CLI::App& app() { return app_; }
  [[nodiscard]] const Options& options() const { return options_; }

  Result<int> run(const Style& style) {
    if (options_.version) {
      out_ << "kubectl-divvy " << documents_.version << '\n';
      return kExitOk;
    }
    DIVVY_TRY(format, parse_output_format(options_.format, kFormats));
    if (explain_->parsed()) return explain(format);
    if (capacity_->parsed()) return capacity(format);
    if (inspect_->parsed()) return show(gpus_view(), documents_.gpus, format, style);
    if (top_->parsed()) return show(slices_view(), documents_.slices, format, style);
    if (queue_->parsed()) return show(waiting_view(), documents_.waiting, format, style);
    out_ << app_.help();
    return kExitOk;
  }

 private:
  void add_format(CLI::App& command) {
    command.add_option("-o,--output", options_.format, "table, wide, json, yaml, name or csv")
        ->type_name("FORMAT");
  }

  CLI::App* listing(const std::string& name, const std::string& summary) {
    CLI::App* command = app_.add_subcommand(name, summary);
    add_format(*command);
    command->add_option("--sort-by", options_.sort_by, "A column; -COLUMN the other way round")
        ->type_name("COLUMN");
    return command;
  }

  Result<int> show(const ListView& view,
                   const std::function<Result<std::string>(const KubeTarget&)>& ask,
                   OutputFormat format, const Style& style) {
    DIVVY_TRY(document, ask(options_.target));
    DIVVY_TRY(text, show_list(view, document, format, options_.sort_by, style));
    out_ << text;
    return kExitOk;
  }

  Result<int> explain(OutputFormat format) {
    std::string name = options_.pod;
    if (name.starts_with("pod/")) name.erase(0, 4);
    DIVVY_TRY(document, documents_.pod(options_.target, name));
    if (format == OutputFormat::kJson || format == OutputFormat::kYaml) {
      out_ << write_document(document, format);
      return kExitOk;
    }
    DIVVY_TRY(pod, Answer::parse(document));
    out_ << explanation(pod);
    return kExitOk;
  }

  Result<int> capacity(OutputFormat format) {
    DIVVY_TRY(document, documents_.capacity(options_.target));
    if (format == OutputFormat::kJson || format == OutputFormat::kYaml) {
      out_ << write_document(document, format);
      return kExitOk;
    }
    DIVVY_TRY(status, Answer::parse(document));
    out_ << capacity_text(status);
    return kExitOk;
  }

  const KubeDocuments& documents_;
  std::ostream& out_;
  CLI::App app_{"GPUs that Divvy shares on this cluster."};
  Options options_;
  CLI::App* inspect_ = nullptr;
  CLI::App* top_ = nullptr;
  CLI::App* queue_ = nullptr;
  CLI::App* explain_ = nullptr;
  CLI::App* capacity_ = nullptr;
};

int exit_status(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return kExitUsage;
    case ErrorCode::kNotFound:
      return kExitNotFound;
    case ErrorCode::kPermissionDenied:
      return kExitDenied;
    default:
      return kExitError;
  }
}

}  // namespace

int run_kubectl(const std::vector<std::string>& arguments, const KubeDocuments& documents,
                const Terminal& terminal, std::ostream& out, std::ostream& err) {
  KubectlLine line(documents, out);
  try {
    // CLI11 takes the words from the back.
    line.app().parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    out << line.app().help();
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    err << "kubectl divvy: " << escape_for_terminal(error.what()) << '\n';
    return kExitUsage;
  }
  const auto color = parse_color_choice(line.options().color);
  const Result<int> status =
      color ? line.run(choose_style(terminal, *color)) : Result<int>(divvy::err(color.error()));
  if (status) return out.flush() ? *status : kExitError;
  err << "kubectl divvy: " << status.error().message << '\n';
  return exit_status(status.error());
}

}  // namespace divvy::cli
