#include "core/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/errors.h"

namespace barge {

std::size_t parse_bytes(std::string_view text, std::string_view flag, std::size_t whole) {
  const auto refuse = [&](std::string_view why) -> ConfigError {
    return ConfigError(
        concat(flag, " wants a size such as 14GiB, 512MiB or 80%, got '", text, "'", why));
  };
  double number = 0;
  const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc{} || !std::isfinite(number) || number < 0) throw refuse("");
  std::string unit(rest, text.data() + text.size());
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (unit == "%") {
    if (whole == 0) throw refuse(": a share of what is not known here");
    if (number > 100) throw refuse(": more than 100 %");
    return static_cast<std::size_t>(number / 100 * static_cast<double>(whole));
  }
  constexpr std::array<std::pair<std::string_view, int>, 12> kUnits{{{"", 0},
                                                                     {"b", 0},
                                                                     {"k", 10},
                                                                     {"kib", 10},
                                                                     {"m", 20},
                                                                     {"mib", 20},
                                                                     {"g", 30},
                                                                     {"gib", 30},
                                                                     {"t", 40},
                                                                     {"tib", 40},
                                                                     {"p", 50},
                                                                     {"pib", 50}}};
  for (const auto& [name, shift] : kUnits) {
    if (unit != name) continue;
    const double bytes = std::ldexp(number, shift);
    if (bytes >= 0x1p63) throw refuse(": too large");
    return static_cast<std::size_t>(bytes);
  }
  throw refuse("");
}

std::string format_bytes(std::size_t bytes) {
  if (bytes < 1024) return concat(bytes, " B");
  constexpr std::array kNames{"KiB", "MiB", "GiB", "TiB", "PiB"};
  double n = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (n /= 1024; n >= 1024 && unit + 1 < kNames.size(); ++unit) n /= 1024;
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), n < 10 ? "%.2f %s" : "%.1f %s", n, kNames[unit]);
  return text.data();
}

}  // namespace barge
