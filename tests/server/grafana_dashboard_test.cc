#include <fstream>
#include <regex>

#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

std::set<std::string> label_names(const std::string& text) {
  static const std::regex kLabel(R"re(([a-z_]+)=~?")re");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), kLabel), end; at != end; ++at)
    names.insert((*at)[1]);
  return names;
}

// The labels of all samples, by the samples' names.
std::map<std::string, std::set<std::string>> samples_of(const std::string& metrics) {
  static const std::regex kSample(R"re((barge:[a-z0-9_]+)\{(.*)\} [^ ]+)re");
  std::map<std::string, std::set<std::string>> found;
  std::istringstream text(metrics);
  std::smatch sample;
  for (std::string one; std::getline(text, one);)
    if (std::regex_match(one, sample, kSample)) found[sample[1]].merge(label_names(sample[2]));
  return found;
}

TEST_F(ServerTest, ExportsEachMetricOfTheGrafanaDashboardWithItsLabels) {
  generator_.pause_after(2);  // a batch is under way, and its time left is known
  start(/*ready=*/false);
  EngineNumbers numbers;
  numbers.stats.compute_waits["weights"] = numbers.stats.engine_waits["KV"] = 1;
  server_->serve(
      {.generator = &generator_, .identity = identity_, .numbers = [=] { return numbers; }});
  create(upload(lines(5)));
  std::map<std::string, std::set<std::string>> samples;
  const auto begin = std::chrono::steady_clock::now();
  while (!samples.contains("barge:batch_seconds_left")) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    samples = samples_of(call("GET", "/metrics").body);
  }
  generator_.resume();
  const std::string body = json{{"prompt", "x"}, {"max_tokens", 3}}.dump();
  ASSERT_EQ(call("POST", "/v1/completions", body).status, 200);
  samples.merge(samples_of(call("GET", "/metrics").body));

  std::ifstream file(BARGE_TEST_DATA "/../../examples/grafana-dashboard.json");
  const json dashboard = json::parse(file);
  static const std::regex kUse(R"re((barge:[a-z0-9_]+)\{([^}]*)\})re");
  std::set<std::string> used;
  for (const json& panel : dashboard["panels"])
    for (const json& target : panel["targets"]) {
      const std::string expr = target["expr"];
      const auto uses = std::sregex_iterator(expr.begin(), expr.end(), kUse);
      EXPECT_NE(uses, std::sregex_iterator()) << panel["title"];
      for (auto at = uses; at != std::sregex_iterator(); ++at) {
        const std::string name = (*at)[1];
        used.insert(name);
        ASSERT_TRUE(samples.contains(name)) << panel["title"] << " asks for " << name;
        for (const std::string& label : label_names((*at)[2]))
          EXPECT_TRUE(samples[name].contains(label)) << name << " has no label " << label;
      }
    }
  EXPECT_GT(used.size(), 15u);
}

}  // namespace
}  // namespace barge::test
