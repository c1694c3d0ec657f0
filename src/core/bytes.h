#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace barge {

constexpr std::size_t operator""_KiB(unsigned long long n) { return n << 10; }
constexpr std::size_t operator""_MiB(unsigned long long n) { return n << 20; }
constexpr std::size_t operator""_GiB(unsigned long long n) { return n << 30; }

/// What O_DIRECT asks of offsets, lengths and addresses; panels and pages are multiples of it.
constexpr std::size_t kSectorBytes = 4096;

constexpr std::size_t divide_up(std::size_t n, std::size_t by) { return (n + by - 1) / by; }
constexpr std::size_t round_up(std::size_t n, std::size_t to) { return divide_up(n, to) * to; }

/// "14GiB", "512MiB", "1.5GiB", "4096" (bytes), or "80%" of `whole`. Throws ConfigError, naming
/// `flag`, for anything else, and for a percentage where `whole` is 0.
std::size_t parse_bytes(std::string_view text, std::string_view flag, std::size_t whole = 0);

/// "96.0 MiB", "1.25 GiB", "512 B".
std::string format_bytes(std::size_t bytes);

}  // namespace barge
