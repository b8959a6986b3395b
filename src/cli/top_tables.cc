#include "cli/top_tables.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/stable_order.h"
#include "base/units.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

// What slices hold and use, together.
struct Use {
  std::int64_t share = 0;  // thousandths, likewise below
  std::int64_t memory_limit = 0;
  std::int64_t memory_used = 0;
  std::optional<std::int64_t> used;  // nothing: of none of them anybody can tell
  std::int64_t waited = 0;           // of the one that waited most

  void add(const Answer& slice) {
    share += slice["shareThousandths"].number().value_or(0);
    memory_limit += slice["memoryLimitBytes"].number().value_or(0);
    memory_used += slice["memoryUsedBytes"].number().value_or(0);
    if (const auto part = slice["usedShareThousandths"].number()) used = used.value_or(0) + *part;
    waited = std::max(waited, slice["waitedShareThousandths"].number().value_or(0));
  }
  void put_into(json::object& document) const {
    document["shareThousandths"] = share;
    document["usedShareThousandths"] = used ? json::value(*used) : json::value(nullptr);
    document["memoryLimitBytes"] = memory_limit;
    document["memoryUsedBytes"] = memory_used;
    document["waitedShareThousandths"] = waited;
  }
};

struct NodeUse {
  std::int64_t gpus = 0;
  std::int64_t memory = 0;
  Use use;
  std::map<std::string, std::int64_t> waiting;  // names of tenants, and how much they waited
};

struct JobUse {
  json::value job;  // null: it is a tenant without one
  std::string name;
  std::string user;
  std::string job_class;
  std::set<std::string> nodes;
  std::int64_t members = 0;
  Use use;
};

// UUIDs of GPUs and the nodes that they are on.
std::map<std::string, std::string> nodes_of_gpus(const Answer& stats) {
  std::map<std::string, std::string> nodes;
  for (const Answer& gpu : stats["gpus"].items()) nodes[gpu["uuid"].raw()] = gpu["node"].raw();
  return nodes;
}

using Names = std::map<std::int64_t, std::string>;
Names names_of_jobs(const Answer& jobs) {
  Names names;
  for (const Answer& job : jobs["items"].items()) {
    if (const auto id = job["id"].number()) names[*id] = job["name"].raw();
  }
  return names;
}

std::string name_of(const Answer& tenant, const Names& names) {
  const auto found = names.find(tenant["job"].number().value_or(0));
  return found == names.end() ? tenant["name"].raw() : found->second;
}

std::string list_document(std::string_view kind, std::vector<json::object> rows) {
  sort_stably(rows, [](const json::object& row) {
    const json::value& used = row.at("usedShareThousandths");
    return used.is_null() ? std::int64_t{1} : -used.to_number<std::int64_t>();
  });
  json::array items;
  for (json::object& row : rows) items.push_back(std::move(row));
  return json::serialize(
      json::object{{"apiVersion", "divvy/v1"}, {"kind", kind}, {"items", std::move(items)}});
}

// Those that waited most at first.
json::array names_of(const std::map<std::string, std::int64_t>& waiting) {
  std::vector<std::pair<std::int64_t, std::string>> order;
  order.reserve(waiting.size());
  for (const auto& [name, waited] : waiting) order.emplace_back(-waited, name);
  std::ranges::sort(order);
  json::array names;
  names.reserve(order.size());
  for (const auto& [waited, name] : order) names.emplace_back(name);
  return names;
}

std::string share_text(std::optional<std::int64_t> thousandths) {
  return thousandths ? to_string(Share(static_cast<std::uint32_t>(*thousandths))) : "";
}

ListColumn share_column(std::string header, std::string field) {
  return {.header = std::move(header),
          .cell = [field](const Answer& row) { return Cell(share_text(row[field].number())); },
          .align = Align::kRight,
          .number = [field](const Answer& row) { return row[field].number(); }};
}

ListColumn bytes_column(std::string header, std::string field, bool wide = false) {
  return {.header = std::move(header),
          .cell =
              [field](const Answer& row) {
                const auto bytes = row[field].number().value_or(0);
                return Cell(humanize(Bytes(static_cast<std::uint64_t>(bytes))));
              },
          .align = Align::kRight,
          .wide = wide,
          .number = [field](const Answer& row) { return row[field].number(); }};
}

ListColumn waiting_column() {
  return {.header = "WAITING",
          .cell =
              [](const Answer& row) {
                const auto thousandths = row["waitedShareThousandths"].number().value_or(0);
                return Cell(fmt::format("{}.{}%", thousandths / 10, thousandths % 10));
              },
          .align = Align::kRight,
          .number = [](const Answer& row) { return row["waitedShareThousandths"].number(); }};
}

// "train, serve", of a list of texts.
ListColumn words_column(std::string header, std::string field, std::size_t most,
                        bool wide = false) {
  return {.header = std::move(header),
          .cell =
              [field, most](const Answer& row) {
                const auto words = row[field].items();
                std::string text;
                for (std::size_t i = 0; i < std::min(words.size(), most); ++i) {
                  text += (i == 0 ? "" : ", ") + words[i].text();
                }
                if (words.size() > most) text += fmt::format(" and {} more", words.size() - most);
                return Cell(text);
              },
          .wide = wide};
}

}  // namespace

std::string node_use_document(const Answer& stats, const Answer& jobs) {
  const auto names = names_of_jobs(jobs);
  const auto node_of = nodes_of_gpus(stats);
  std::map<std::string, NodeUse> nodes;
  for (const Answer& gpu : stats["gpus"].items()) {
    NodeUse& node = nodes[gpu["node"].raw()];
    ++node.gpus;
    node.memory += gpu["memoryBytes"].number().value_or(0);
  }
  for (const Answer& tenant : stats["tenants"].items()) {
    for (const Answer& slice : tenant["slices"].items()) {
      const auto found = node_of.find(slice["gpu"]["uuid"].raw());
      if (found == node_of.end()) continue;
      NodeUse& node = nodes[found->second];
      node.use.add(slice);
      const auto waited = slice["waitedShareThousandths"].number().value_or(0);
      if (waited > 0) {
        std::int64_t& most = node.waiting[name_of(tenant, names)];
        most = std::max(most, waited);
      }
    }
  }
  std::vector<json::object> rows;
  for (const auto& [name, node] : nodes) {
    json::object row{{"name", name}, {"gpus", node.gpus}, {"memoryBytes", node.memory}};
    node.use.put_into(row);
    row["waiting"] = names_of(node.waiting);
    rows.push_back(std::move(row));
  }
  return list_document("NodeUseList", std::move(rows));
}

std::string job_use_document(const Answer& stats, const Answer& named) {
  const auto names = names_of_jobs(named);
  const auto node_of = nodes_of_gpus(stats);
  // By job, and tenants without one by themselves.
  std::map<std::pair<std::int64_t, std::int64_t>, JobUse> jobs;
  for (const Answer& tenant : stats["tenants"].items()) {
    const auto job = tenant["job"].number();
    const auto id = tenant["id"].number().value_or(0);
    JobUse& one = jobs[{job.value_or(0), job ? 0 : id}];
    if (job) one.job = *job;
    if (one.members++ == 0) {
      one.name = name_of(tenant, names);
      one.user = tenant["user"].raw();
      one.job_class = tenant["class"].raw();
    }
    for (const Answer& slice : tenant["slices"].items()) {
      one.use.add(slice);
      const auto node = node_of.find(slice["gpu"]["uuid"].raw());
      if (node != node_of.end()) one.nodes.insert(node->second);
    }
  }
  std::vector<json::object> rows;
  for (const auto& [key, job] : jobs) {
    json::array nodes;
    for (const std::string& node : job.nodes) nodes.emplace_back(node);
    json::object row{{"job", job.job},         {"name", job.name},
                     {"user", job.user},       {"class", job.job_class},
                     {"members", job.members}, {"nodes", std::move(nodes)}};
    job.use.put_into(row);
    rows.push_back(std::move(row));
  }
  return list_document("JobUseList", std::move(rows));
}

ListView node_use_view() {
  ListView view;
  view.name = "name";
  view.nothing = "there is no node with GPUs";
  view.columns = {text_column("NODE", "name"),
                  number_column("GPUS", "gpus"),
                  share_column("HELD", "shareThousandths"),
                  share_column("USED", "usedShareThousandths"),
                  bytes_column("MEMORY HELD", "memoryLimitBytes"),
                  bytes_column("MEMORY USED", "memoryUsedBytes"),
                  bytes_column("MEMORY", "memoryBytes"),
                  words_column("WHO WAITS", "waiting", 3)};
  return view;
}

ListView job_use_view() {
  ListView view;
  view.name = "job";
  view.nothing = "nobody holds a slice";
  view.columns = {text_column("JOB", "job"),
                  text_column("NAME", "name"),
                  text_column("USER", "user"),
                  share_column("HELD", "shareThousandths"),
                  share_column("USED", "usedShareThousandths"),
                  bytes_column("MEMORY USED", "memoryUsedBytes"),
                  bytes_column("LIMIT", "memoryLimitBytes"),
                  waiting_column(),
                  text_column("CLASS", "class", true),
                  number_column("MEMBERS", "members", true),
                  words_column("NODES", "nodes", 3, true)};
  return view;
}

}  // namespace divvy::cli
