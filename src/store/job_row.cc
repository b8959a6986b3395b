#include "store/job_row.h"

#include "model/json_fields.h"

namespace divvy::store {

namespace json = boost::json;

std::string slices_text(const std::vector<model::Slice>& slices) {
  json::array list;
  for (const model::Slice& slice : slices) list.push_back(model::slice_object(slice));
  return json::serialize(list);
}

Result<std::vector<model::Slice>> read_slices(std::string_view text) {
  const auto lost = [](std::string_view why) {
    return err(ErrorCode::kDataLoss, "stored slices cannot be read: {}", why);
  };
  const auto document = model::parse_json(text);
  if (!document) return lost(document.error().message);
  const json::array* const items = document->if_array();
  if (items == nullptr) return lost("this has to be a list");
  std::vector<model::Slice> slices;
  for (const json::value& item : *items) {
    auto slice = model::read_slice(item);
    if (!slice) return lost(slice.error().message);
    slices.push_back(*std::move(slice));
  }
  return slices;
}

}  // namespace divvy::store
