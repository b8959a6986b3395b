// Members are named as everywhere (model/member_key.h).
#pragma once

#include "model/member_key.h"

namespace divvy::run {

using model::MemberKey;
using model::parse_member_key;

}  // namespace divvy::run
