#include "core/pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <stdexcept>

#include "core/bytes.h"

namespace barge {
namespace {

// Whether the system can read a byte there, asked without dying of it.
bool is_readable(const std::byte* at) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  const bool readable = write(ends[1], at, 1) == 1;
  if (!readable) {
    EXPECT_EQ(errno, EFAULT);
  }
  close(ends[0]);
  close(ends[1]);
  return readable;
}

TEST(Pages, AreZeroedAndUsableToTheLastByteAndFollowedByOneThatIsNot) {
  for (const std::size_t bytes : {std::size_t{4096}, 2_MiB - 4096, 2_MiB, 5_MiB + 4096}) {
    std::byte* const data = map_pages(bytes, "test");
    EXPECT_EQ(data[0], std::byte{0});
    EXPECT_EQ(data[bytes - 1], std::byte{0});
    data[0] = data[bytes - 1] = std::byte{1};
    EXPECT_FALSE(is_readable(data + bytes)) << bytes;
    unmap_pages(data, bytes);
    EXPECT_FALSE(is_readable(data)) << bytes;
    EXPECT_FALSE(is_readable(data + bytes - 1)) << bytes;
  }
}

TEST(Pages, BeginLargePiecesWhereAHugePageCan) {
  std::array<std::byte*, 3> pieces{};
  for (std::byte*& piece : pieces) piece = map_pages(2_MiB + 4096, "test");
  for (std::byte* piece : pieces) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 2_MiB, 0u);
    unmap_pages(piece, 2_MiB + 4096);
  }
}

}  // namespace
}  // namespace barge
