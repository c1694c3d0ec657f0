#include "server/prometheus_text.h"

#include <gmock/gmock.h>

namespace barge {
namespace {

using testing::HasSubstr;

TEST(PrometheusText, PrintsFamiliesWithEscapedLabels) {
  PrometheusText out({{"model_name", "a\"b\\c\nd"}});
  out.family("things_total", "counter", "Of all kinds.");
  out.number(3);
  out.number(1e15, {{"kind", "x"}});
  EXPECT_EQ(out.text(),
            "# HELP barge:things_total Of all kinds.\n"
            "# TYPE barge:things_total counter\n"
            "barge:things_total{model_name=\"a\\\"b\\\\c\\nd\"} 3\n"
            "barge:things_total{model_name=\"a\\\"b\\\\c\\nd\",kind=\"x\"} 1e+15\n");
}

TEST(LatencyHistogram, CountsEachTimeInAllBucketsThatReachSoFar) {
  LatencyHistogram histogram;
  for (const double seconds : {0.3, 0.31, 9000.}) histogram.add(seconds);
  PrometheusText out({});
  out.family("took", "histogram", "Time.");
  histogram.print(out);
  EXPECT_THAT(out.text(), HasSubstr("barge:took_bucket{le=\"0.3\"} 1\n"));
  EXPECT_THAT(out.text(), HasSubstr("barge:took_bucket{le=\"0.5\"} 2\n"));
  EXPECT_THAT(out.text(), HasSubstr("barge:took_bucket{le=\"7680\"} 2\n"));
  EXPECT_THAT(out.text(), HasSubstr("barge:took_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(out.text(), HasSubstr("barge:took_count{} 3\n"));
}

}  // namespace
}  // namespace barge
