
#include "server/api.h"
#include "server/web_page.h"
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::UnorderedElementsAreArray;

json document() { return json::parse(*web_page("openapi.json", "").text); }

// "GET /v1/files/*/content" of each operation.
std::vector<std::string> described() {
  std::vector<std::string> names;
  const json paths = document()["paths"];
  for (const auto& [path, item] : paths.items()) {
    std::string pattern;
    for (std::size_t at = 0; at < path.size(); ++at) {
      if (path[at] == '{') at = path.find('}', at);
      pattern += path[at] == '}' ? '*' : path[at];
    }
    for (const auto& [method, operation] : item.items()) {
      if (method == "parameters") continue;
      std::string name = method;
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
      names.push_back(name + ' ' + pattern);
    }
  }
  return names;
}

// Of a "$ref": the name of the component that it means.
void collect_references(const json& value, std::set<std::string>& names) {
  if (value.is_object() && value.contains("$ref")) names.insert(value["$ref"].get<std::string>());
  if (value.is_structured())
    for (const json& one : value) collect_references(one, names);
}

TEST(OpenApi, DescribesEachRouteAndNoOther) {
  const TempDirectory directory;
  const ServerOptions options{.data_dir = directory / "data", .served_model_name = "m/x"};
  const DataDirectory data(options.data_dir);
  JobStore store(data.store());
  DataQuota quota(options.data_limit_bytes, store);
  BatchWorker worker(options, data, store);
  const ModelSlot models;
  const Metrics metrics;
  const Api api(options, data, store, quota, worker, models, metrics);
  EXPECT_THAT(described(), UnorderedElementsAreArray(api.routes()));
}

TEST(OpenApi, RefersToWhatItHasAndHasWhatItRefersTo) {
  const json all = document();
  std::set<std::string> wanted, there;
  collect_references(all, wanted);
  for (const auto& [kind, components] : all["components"].items())
    if (kind != "securitySchemes")
      for (const auto& [name, component] : components.items())
        there.insert("#/components/" + kind + '/' + name);
  // Lines of files belong to no operation: they are there for readers.
  wanted.insert({"#/components/schemas/BatchLine", "#/components/schemas/AnswerLine"});
  EXPECT_EQ(wanted, there);
}

TEST_F(ServerTest, GivesItsDescriptionToAll) {
  options_.api_keys = {"secret"};
  start();
  const HttpReply reply = call("GET", "/openapi.json");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("content-type"), "application/json");
  EXPECT_EQ(reply.body, web_page("openapi.json", "").text);
  EXPECT_EQ(reply.json()["openapi"], "3.1.0");
}

}  // namespace
}  // namespace barge::test
