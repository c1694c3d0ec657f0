#include "server/api_keys.h"
#include "server/sha256.h"
#include "tests/server/server_fixture.h"

namespace barge::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(ApiKeys, AreReadFromAFileLineByLine) {
  const TempDirectory directory;
  write_file(directory / "keys", "# ours\n\n  one \r\ntwo words\n");
  EXPECT_EQ(read_keys(directory / "keys"), (std::vector<std::string>{"one", "two words"}));
  write_file(directory / "none", "# nothing\n");
  EXPECT_THAT([&] { read_keys(directory / "none"); },
              ThrowsMessage<ConfigError>(HasSubstr("has no key")));
  EXPECT_THROW(read_keys(directory / "absent"), ConfigError);
}

TEST_F(ServerTest, ShowsEachKeyItsOwnFilesAndBatches) {
  options_.api_keys = {"anna", "bob"};
  start();
  const auto as = [&](const std::string& key, const std::string& method, const std::string& target,
                      const std::string& body = "", const std::string& headers = "") {
    return call(method, target, body, headers + "Authorization: Bearer " + key + "\r\n");
  };
  const std::string file = as("anna", "POST", "/v1/files", form(lines(3)), kFormType).json()["id"];
  const auto create = [&](const std::string& key) -> std::string {
    return as(key, "POST", "/v1/batches",
              json{{"input_file_id", file},
                   {"endpoint", "/v1/chat/completions"},
                   {"completion_window", "24h"}}
                  .dump())
        .json()["id"];
  };
  const std::string annas = create("anna"), bobs = create("bob");
  const auto ended = [&](const std::string& key, const std::string& id) {
    json batch;
    do batch = as(key, "GET", "/v1/batches/" + id).json();
    while (batch["status"] != "completed" && batch["status"] != "failed");
    return batch;
  };
  const json batch = ended("anna", annas);
  EXPECT_EQ(batch["status"], "completed");
  EXPECT_EQ(ended("bob", bobs)["errors"]["data"][0]["param"], "file_id");
  const std::string output = batch["output_file_id"];
  for (const std::string& target : {"/v1/files/" + file, "/v1/files/" + file + "/content",
                                    "/v1/files/" + output + "/content", "/v1/batches/" + annas}) {
    EXPECT_EQ(as("anna", "GET", target).status, 200) << target;
    EXPECT_EQ(as("bob", "GET", target).status, 404) << target;
  }
  EXPECT_EQ(as("bob", "POST", "/v1/batches/" + annas + "/cancel").status, 404);
  EXPECT_EQ(as("bob", "DELETE", "/v1/files/" + file).status, 404);
  EXPECT_EQ(as("anna", "GET", "/v1/files").json()["data"].size(), 2u);
  EXPECT_EQ(as("bob", "GET", "/v1/files").json()["data"].size(), 0u);
  EXPECT_EQ(as("bob", "GET", "/v1/batches").json()["data"].size(), 1u);
  server_.reset();
  options_.api_keys.clear();
  start();  // who asks for no key shows everything
  EXPECT_EQ(call("GET", "/v1/batches").json()["data"].size(), 2u);
  const std::string everybodys = upload("x");
  server_.reset();
  options_.api_keys = {"bob"};
  start();
  EXPECT_EQ(as("bob", "GET", "/v1/files/" + everybodys).status, 200);
}

TEST_F(ServerTest, AsksForAKeyWhereOthersCanReachIt) {
  options_.host = "0.0.0.0";
  EXPECT_THAT([&] { Server server(options_); },
              ThrowsMessage<ConfigError>(HasSubstr("--allow-anonymous")));
  options_.allow_anonymous = true;
  EXPECT_NO_THROW(Server{options_});
  options_.allow_anonymous = false;
  options_.api_keys = {"k"};
  EXPECT_NO_THROW(Server{options_});
}

}  // namespace
}  // namespace barge::test
