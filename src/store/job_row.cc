#include "store/job_row.h"

#include <boost/json.hpp>

namespace divvy::store {

namespace json = boost::json;

std::string slices_text(const std::vector<model::Slice>& slices) {
  json::array list;
  for (const model::Slice& slice : slices) {
    list.push_back(json::object{{"gpu", slice.gpu().str()},
                                {"memory", slice.memory().count()},
                                {"share", slice.share().thousandths()},
                                {"cap", slice.kind() == model::ShareKind::kCap}});
  }
  return json::serialize(list);
}

Result<std::vector<model::Slice>> read_slices(std::string_view text) {
  try {
    std::vector<model::Slice> slices;
    const json::value document = json::parse(text);
    for (const json::value& item : document.as_array()) {
      const json::object& fields = item.as_object();
      DIVVY_TRY(gpu, model::GpuUuid::parse(std::string(fields.at("gpu").as_string())));
      const auto share = fields.at("share").to_number<std::uint32_t>();
      if (share > Share::kWhole) return err(ErrorCode::kDataLoss, "a slice of {} is stored", share);
      DIVVY_TRY(
          slice,
          model::Slice::create(
              std::move(gpu), Bytes(fields.at("memory").to_number<std::uint64_t>()), Share(share),
              fields.at("cap").as_bool() ? model::ShareKind::kCap : model::ShareKind::kGuarantee));
      slices.push_back(std::move(slice));
    }
    return slices;
  } catch (const std::exception& error) {
    return err(ErrorCode::kDataLoss, "stored slices cannot be read: {}", error.what());
  }
}

}  // namespace divvy::store
