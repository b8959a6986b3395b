#include "jobs/shapes.h"

#include <fmt/format.h>

namespace divvy::jobs {
namespace {

std::string key_of(const model::Job& job, bool whose_matters) {
  const model::JobSpec& spec = job.spec;
  const model::Request& request = spec.request;
  std::string key =
      fmt::format("{}/{}/{}/{}/{}/{}/{}/{}", request.share(), request.memory().value_or(Bytes(0)),
                  request.gang_size(), spec.least(), static_cast<int>(request.topology()),
                  static_cast<int>(request.kind()), spec.limits.cpu_milli.value_or(0),
                  spec.limits.ram.value_or(Bytes(0)));
  const model::Where& where = spec.where;
  for (const model::Near& near : {where.gpus_near, where.members_near}) {
    key += fmt::format("/{}{}", to_string(near.closeness), near.required ? "!" : "");
  }
  if (where.spread)
    key += fmt::format("/{}{}", to_string(where.spread->domain), where.spread->most);
  // Each name with its length, so that no two lists look the same.
  const auto add = [&key](const std::vector<std::string>& names) {
    key += fmt::format("|{}", names.size());
    for (const std::string& name : names) key += fmt::format("/{}:{}", name.size(), name);
  };
  add(request.allowed_models());
  add(request.denied_models());
  add(spec.devices);
  add(where.nodes);
  add(where.nodes_denied);
  add(where.tolerations);
  for (const auto& [name, value] : where.node_labels) add({name, value});
  if (spec.mode) add({std::string(to_string(*spec.mode))});
  if (whose_matters) add({job.owner});
  return key;
}

}  // namespace

ShapeId Shapes::of(const model::Job& job) {
  const auto [found, is_new] = ids_.try_emplace(key_of(job, fleet_.excludes(job.owner)),
                                                static_cast<ShapeId>(shapes_.size()));
  if (is_new) {
    model::JobSpec same(job.spec.request);
    same.least_members = job.spec.least_members;
    same.limits.cpu_milli = job.spec.limits.cpu_milli;
    same.limits.ram = job.spec.limits.ram;
    same.devices = job.spec.devices;
    same.where = job.spec.where;
    same.mode = job.spec.mode;
    shapes_.push_back(make(std::move(same)));
  }
  return found->second;
}

Shape Shapes::make(model::JobSpec spec) const {
  place::Request request = fleet_.request_of(spec);
  const Held member{fleet_.least_share(spec.request).thousandths(),
                    fleet_.least_memory(spec.request).count(), 1};
  return {std::move(spec), std::move(request), member};
}

void Shapes::translate() {
  for (Shape& shape : shapes_) shape = make(std::move(shape.spec));
}

void Shapes::prepare() {
  std::vector<place::Request> requests;
  requests.reserve(shapes_.size());
  for (const Shape& shape : shapes_) requests.push_back(shape.request);
  fleet_.prepare(requests);
  prepared_for_ = shapes_.size();
}

void Shapes::prepare_for_new() {
  if (shapes_.size() >= 2 * prepared_for_ + 4) prepare();
}

void Shapes::clear() {
  shapes_.clear();
  ids_.clear();
}

}  // namespace divvy::jobs
