#include <boost/json.hpp>

#include "api/answers.h"
#include "api/handlers.h"

namespace divvy::api {

Answer list_settings(const Call& call) {
  boost::json::array items;
  if (call.parts.settings) {
    for (const SettingLine& line : call.parts.settings()) {
      items.push_back(boost::json::object{{"name", line.name},
                                          {"value", line.value},
                                          {"meaning", line.meaning},
                                          {"reloads", line.reloads}});
    }
  }
  return answer(200, listed("SettingList", std::move(items)));
}

}  // namespace divvy::api
