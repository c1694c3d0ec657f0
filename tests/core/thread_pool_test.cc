#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "core/errors.h"

namespace barge {
namespace {

TEST(ThreadPool, GivesEachItemToOneThread) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      std::atomic<bool> in_range = true;
      pool.run(count, [&](std::int64_t i, int thread) {
        ++seen[static_cast<std::size_t>(i)];
        if (thread < 0 || thread >= threads) in_range = false;
      });
      for (const auto& s : seen) EXPECT_EQ(s, 1);
      EXPECT_TRUE(in_range);
    }
  }
}

TEST(ThreadPool, RethrowsAFailureAndWorksOnAfterwards) {
  ThreadPool pool(3);
  EXPECT_THROW(pool.run(100,
                        [](std::int64_t i, int) {
                          if (i == 13) throw IoError("13");
                        }),
               IoError);
  std::atomic<int> done = 0;
  pool.run(10, [&](std::int64_t, int) { ++done; });
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace barge
