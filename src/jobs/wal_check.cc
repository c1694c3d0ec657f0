#include "jobs/wal_check.h"

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <vector>

#include "core/errors.h"

namespace barge {
namespace {

// As sqlite.org/fileformat2.html describes the log: a header, then frames, each with a header and
// a page; all numbers are big-endian.
constexpr std::size_t kHeaderBytes = 32, kFrameHeaderBytes = 24;
constexpr std::uint32_t kMagic = 0x377f0682;  // its lowest bit: checksums read big-endian words

using Sums = std::array<std::uint32_t, 2>;

std::uint32_t big_endian(const std::uint8_t* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
         at[3];
}
std::uint32_t little_endian(const std::uint8_t* at) {
  return std::uint32_t{at[3]} << 24 | std::uint32_t{at[2]} << 16 | std::uint32_t{at[1]} << 8 |
         at[0];
}

Sums sums_at(const std::uint8_t* at) { return {big_endian(at), big_endian(at + 4)}; }

// Goes on from `sums` over whole pairs of words.
Sums checksum(std::span<const std::uint8_t> bytes, bool big, Sums sums) {
  const auto word = big ? big_endian : little_endian;
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    sums[0] += word(&bytes[i]) + sums[1];
    sums[1] += word(&bytes[i + 4]) + sums[0];
  }
  return sums;
}

class Log {
 public:
  explicit Log(std::ifstream& in) : in_(in) {}

  bool has_header() {
    in_.read(reinterpret_cast<char*>(header_.data()), kHeaderBytes);
    return in_.gcount() == kHeaderBytes;
  }
  bool header_is_whole() {
    const std::uint32_t magic = big_endian(header_.data());
    big_ = (magic & 1) != 0;
    sums_ = checksum(std::span(header_).first(24), big_, {});
    const std::uint32_t page_bytes = big_endian(&header_[8]);
    frame_.resize(kFrameHeaderBytes + page_bytes % 65537);
    return (magic & ~1u) == kMagic && sums_ == sums_at(&header_[24]) && page_bytes >= 512 &&
           page_bytes <= 65536;
  }

  struct Frame {
    bool valid = false;   // if the one before is
    bool commit = false;  // the last of its transaction
  };
  // None: the log is over.
  std::optional<Frame> next() {
    in_.read(reinterpret_cast<char*>(frame_.data()), static_cast<std::streamsize>(frame_.size()));
    if (in_.gcount() != static_cast<std::streamsize>(frame_.size())) return std::nullopt;
    const std::span<const std::uint8_t> bytes(frame_);
    const Sums sums =
        checksum(bytes.subspan(kFrameHeaderBytes), big_, checksum(bytes.first(8), big_, sums_));
    sums_ = sums_at(&frame_[16]);  // as stored: so that the next one can be checked by itself
    const bool same_salts = sums_at(&frame_[8]) == sums_at(&header_[16]);
    return Frame{same_salts && sums == sums_, same_salts && big_endian(&frame_[4]) != 0};
  }

 private:
  std::ifstream& in_;
  std::array<std::uint8_t, kHeaderBytes> header_{};
  std::vector<std::uint8_t> frame_;
  bool big_ = false;
  Sums sums_{};
};

// Of frames from `first`, which isn't valid, that belong together: commits among them that SQLite
// wouldn't see. What commits that failed left behind is shorter: no two of them follow one another.
int commits_cut_off(Log& log, const Log::Frame& first) {
  int commits = 0;
  auto frame = log.next();
  if (frame && frame->valid) {
    commits += first.commit;  // its page is damaged, its header isn't
  } else if (frame) {
    const bool commit = frame->commit;
    frame = log.next();  // a damaged header makes the frame behind it look invalid, too
    if (frame && frame->valid) commits += commit;
  }
  for (; frame && frame->valid; frame = log.next()) commits += frame->commit;
  return commits;
}

}  // namespace

void check_wal(const std::filesystem::path& wal) {
  std::ifstream in(wal, std::ios::binary);
  if (!in) return;
  const auto refuse = [&](const std::string& what) {
    throw IoError(concat("the log of the job store, ", wal.string(), ", is damaged: ", what,
                         ". Restore it, or move it away to go on without what it holds"));
  };
  Log log(in);
  if (!log.has_header()) return;  // the first commit was never finished
  if (!log.header_is_whole()) {
    std::error_code error;
    if (std::filesystem::file_size(wal, error) > kHeaderBytes) refuse("its header is not SQLite's");
    return;
  }
  int frames = 0;
  for (auto frame = log.next(); frame; frame = log.next()) {
    ++frames;
    if (frame->valid) continue;
    if (const int lost = commits_cut_off(log, *frame); lost > 1)
      refuse(concat("frame ", frames, " is not what was written, and ", lost,
                    " commits from there on would be lost"));
    return;
  }
}

}  // namespace barge
