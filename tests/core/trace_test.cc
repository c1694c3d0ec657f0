#include "core/trace.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/errors.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::ElementsAre;

// A clock that a test moves.
class TestClock final : public Clock {
 public:
  Seconds now() const override { return Seconds(seconds); }
  std::atomic<double> seconds = 5;
};

nlohmann::json events_of(Trace& trace) {
  const test::TempDirectory directory;
  trace.write(directory.path() / "trace.json");
  return nlohmann::json::parse(std::ifstream(directory.path() / "trace.json")).at("traceEvents");
}

// "lane: name from to", in milliseconds since the trace began.
std::vector<std::string> spans_of(Trace& trace) {
  std::map<int, std::string> lanes;
  std::vector<std::string> spans;
  for (const auto& event : events_of(trace))
    if (event["name"] == "thread_name")
      lanes[event["tid"]] = event["args"]["name"];
    else if (event["ph"] == "X")
      spans.push_back(concat(lanes.at(event["tid"]), ": ", event["name"].get<std::string>(), " ",
                             event["ts"].get<double>() / 1e3, " ",
                             (event["ts"].get<double>() + event["dur"].get<double>()) / 1e3));
  return spans;
}

// And leaves the lane's thread time to see it: it takes the time at which it looks.
void succeed_at(TestClock& clock, Completion& completion, double seconds) {
  clock.seconds = seconds;
  completion.succeed();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

TEST(Trace, TellsWhenEventsOfALaneWereDone) {
  TestClock clock;
  Trace trace(clock);
  Completion begin, end, last;
  trace.span(Trace::Lane::kLoad, {.name = "first"}, begin.event(), end.event());
  trace.span(Trace::Lane::kLoad, {.name = "second"}, end.event(), last.event());
  succeed_at(clock, begin, 5.25);
  succeed_at(clock, end, 5.5);
  succeed_at(clock, last, 6);
  EXPECT_THAT(spans_of(trace), ElementsAre("load: first 250 500", "load: second 500 1000"));
}

TEST(Trace, ShowsASweepFromItsFirstWorkToItsLast) {
  TestClock clock;
  Trace trace(clock);
  Completion begin, end, last;
  trace.span(Trace::Lane::kCompute, {.name = "first", .sweep = 7}, begin.event(), end.event());
  trace.span(Trace::Lane::kCompute, {.name = "last", .sweep = 7}, end.event(), last.event());
  succeed_at(clock, begin, 5.25);
  succeed_at(clock, end, 5.5);
  succeed_at(clock, last, 6);
  EXPECT_THAT(spans_of(trace), testing::Contains("sweep: sweep 7 250 1000"));
}

TEST(Trace, TakesWorkThatIsOver) {
  TestClock clock;
  Trace trace(clock);
  trace.span(Trace::Lane::kWeightRead, {.name = "4.0 MiB"}, Seconds(5.5), Seconds(5.75));
  EXPECT_THAT(spans_of(trace), ElementsAre("disk read: weights: 4.0 MiB 500 750"));
}

TEST(Trace, NamesWaitsAndLeavesOutThoseThatHeldNobodyUp) {
  TestClock clock;
  Trace trace(clock);
  trace.span(Trace::Lane::kEngine, {.name = "weights", .wait = true}, Seconds(5), Seconds(5.25));
  trace.span(Trace::Lane::kEngine, {.name = "weights", .wait = true}, Seconds(6), Seconds(6.00001));
  EXPECT_THAT(spans_of(trace), ElementsAre("engine: wait for weights 0 250"));
}

TEST(Trace, TellsProgramsBytesAndKinds) {
  TestClock clock;
  Trace trace(clock);
  trace.span(Trace::Lane::kKvRead, {.name = "4.0 MiB", .bytes = 4 << 20}, Seconds(5), Seconds(6));
  trace.span(Trace::Lane::kCompute, {.name = "KV", .wait = true}, Seconds(5), Seconds(6));
  const nlohmann::json events = events_of(trace);
  const auto& read = events[events.size() - 2];
  EXPECT_EQ(read["cat"], "disk");
  EXPECT_EQ(read["args"]["bytes"], 4 << 20);
  EXPECT_EQ(events.back()["cat"], "wait");
}

TEST(Trace, LeavesOutWorkThatFailed) {
  TestClock clock;
  Trace trace(clock);
  Completion fails;
  trace.span(Trace::Lane::kCompute, {.name = "fails"}, Event(), fails.event());
  fails.fail(std::make_exception_ptr(IoError("disk on fire")));
  trace.span(Trace::Lane::kCompute, {.name = "goes on"}, Event(), Event());
  EXPECT_THAT(spans_of(trace), ElementsAre("compute: goes on 0 0"));
}

TEST(Trace, SaysWhichFileCouldNotBeWritten) {
  TestClock clock;
  Trace trace(clock);
  EXPECT_THAT([&] { trace.write("/nowhere/trace.json"); },
              testing::ThrowsMessage<IoError>(testing::HasSubstr("/nowhere/trace.json")));
}

}  // namespace
}  // namespace barge
