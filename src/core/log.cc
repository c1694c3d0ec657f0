#include "core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "core/errors.h"

namespace barge::log {
namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>(
        "barge", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    return made;
  }();
  return *instance;
}

}  // namespace

Level parse_level(const std::string& word) {
  if (word == "debug") return Level::kDebug;
  if (word == "info") return Level::kInfo;
  if (word == "warning") return Level::kWarning;
  if (word == "error") return Level::kError;
  if (word == "off") return Level::kOff;
  throw ConfigError(
      concat("--log-level wants debug, info, warning, error or off, got '", word, "'"));
}

void set_level(Level level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err,
                                                   spdlog::level::off};
  logger().set_level(kLevels[static_cast<int>(level)]);
}

// The "{}" keeps braces in a message from being read as a format.
void debug(const std::string& message) { logger().debug("{}", message); }
void info(const std::string& message) { logger().info("{}", message); }
void warning(const std::string& message) { logger().warn("{}", message); }
void error(const std::string& message) { logger().error("{}", message); }

}  // namespace barge::log
