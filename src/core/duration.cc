#include "core/duration.h"

#include <charconv>
#include <limits>

#include "core/errors.h"

namespace barge {
namespace {

std::int64_t seconds_of(std::string_view unit) {
  if (unit == "s") return 1;
  if (unit == "m") return 60;
  if (unit == "h") return 60 * 60;
  if (unit == "d") return 24 * 60 * 60;
  if (unit == "w") return 7 * 24 * 60 * 60;
  return 0;
}

}  // namespace

std::int64_t parse_duration(std::string_view text, std::string_view flag) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const std::int64_t unit = seconds_of(text.substr(static_cast<std::size_t>(end - text.data())));
  if (error != std::errc() || unit == 0 || count <= 0 ||
      count > std::numeric_limits<std::int32_t>::max() / unit)
    throw ConfigError(concat(flag, " wants a duration such as 90s, 30m, 24h or 7d, of 68 years ",
                             "at most, got '", text, "'"));
  return count * unit;
}

}  // namespace barge
