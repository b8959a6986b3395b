// What nearly every source includes, parsed once per target where DIVVY_PCH says so. Sources still
// include what they use: the builds without it refuse what only works by this.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tl/expected.hpp>
#include <variant>
#include <vector>
