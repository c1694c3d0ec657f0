#pragma once

#include <string>

namespace barge::log {

enum class Level { kDebug, kInfo, kWarning, kError, kOff };

/// "debug", "info", "warning", "error", "off"; throws ConfigError for another word.
Level parse_level(const std::string& word);

/// Everything goes to standard error, one line a message; standard output is the user's.
void set_level(Level level);

void debug(const std::string& message);
void info(const std::string& message);
void warning(const std::string& message);
void error(const std::string& message);

}  // namespace barge::log
