#include "model/safetensors.h"

#include <gmock/gmock.h>

#include <random>

#include "model/checkpoint.h"
#include "tests/model/checkpoint_support.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace fs = std::filesystem;
const fs::path kModels = fs::path(BARGE_TEST_DATA) / "goldens/models";

std::string file(const std::string& json, std::size_t data_bytes = 0) {
  return Bytes()
      .put<std::uint64_t>(json.size())
      .raw(json)
      .raw(std::string(data_bytes, '\x11'))
      .text();
}

void copy_model(const std::string& name, const TempDirectory& to) {
  fs::copy(kModels / name, to.path(),
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

TEST(SafeTensors, FindsTensorsBehindTheHeader) {
  const TempDirectory dir;
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},
          "s":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},
          "e":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},
          "n":{"dtype":"F4_NEW","shape":[9],"data_offsets":[0,4]}})";
  spill(dir / "x.safetensors", file(json, 28));
  const SafeTensors tensors(dir / "x.safetensors");
  EXPECT_EQ(tensors.tensors().size(), 4u);
  EXPECT_EQ(tensors.tensors().at("a").offset, 8 + json.size() + 4);
  EXPECT_EQ(tensors.tensors().at("a").bytes, 24u);
}

TEST(SafeTensors, DoesNotTrustLengthsOffsetsOrShapes) {
  const TempDirectory dir;
  const auto tensor = [](const std::string& fields) {
    return file("{\"a\":{" + fields + "}}", 24);
  };
  const std::string bad[] = {
      "",
      "1234567",
      Bytes().put<std::uint64_t>(~0ull).text(),
      Bytes().put<std::uint64_t>(1).text(),
      Bytes().put<std::uint64_t>(200'000'000).raw(std::string(1000, ' ')).text(),
      file("[]"),
      file("{"),
      file("\xff\xfe"),
      file("{\"a\":7}"),
      file(std::string(100'000, '[')),
      file("{\"a\":" + std::string(50'000, '[') + std::string(50'000, ']') + "}"),
      tensor(R"("dtype":"F32","shape":[2,3])"),
      tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,25]})"),
      tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[1,25])"),
      tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[24,0])"),
      tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[0])"),
      tensor(R"("dtype":"F32","shape":[2,3],"data_offsets":[0,18446744073709551615])"),
      tensor(R"("dtype":"F32","shape":[2,4],"data_offsets":[0,24])"),
      tensor(R"("dtype":"F32","shape":[4294967296,4294967296,6],"data_offsets":[0,24])"),
      tensor(R"("dtype":"F32","shape":[9223372036854775808,2],"data_offsets":[0,0])"),
      tensor(R"("dtype":"F32","shape":[-2,-3],"data_offsets":[0,24])"),
      tensor(R"("dtype":"F32","shape":[2.0,3],"data_offsets":[0,24])"),
      tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,6],"data_offsets":[0,24])"),
      tensor(R"("dtype":4,"shape":[6],"data_offsets":[0,24])"),
      tensor(R"("shape":[6],"data_offsets":[0,24])"),
  };
  for (const std::string& content : bad) {
    spill(dir / "x.safetensors", content);
    EXPECT_THAT([&] { SafeTensors(dir / "x.safetensors"); },
                ThrowsMessage<FormatError>(HasSubstr("x.safetensors")))
        << content.substr(0, 120);
  }
}

TEST(HfCheckpoint, NamesTheTensorThatIsMissingOrOfAnotherShapeOrType) {
  const TempDirectory dir;
  copy_model("tiny-llama", dir);
  const std::string weights = slurp(dir / "model.safetensors");
  const auto check = [&](const std::string& from, const std::string& to, const char* wanted) {
    std::string content = weights;
    const std::size_t at = content.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    content.replace(at, from.size(), to);
    spill(dir / "model.safetensors", content);
    EXPECT_THAT([&] { read_everything(dir.path().string()); },
                ThrowsMessage<FormatError>(HasSubstr(wanted)));
  };
  check("layers.0.mlp.up_proj", "layers.0.mlp.up_prxj", "up_proj.weight\" is missing");
  std::string config = slurp(dir / "config.json");
  config.replace(config.find("\"intermediate_size\": "), 21, "\"intermediate_size\": 1");
  spill(dir / "config.json", config);
  spill(dir / "model.safetensors", weights);
  EXPECT_THAT([&] { read_everything(dir.path().string()); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("gate"), HasSubstr("wanted"))));
}

TEST(HfCheckpoint, SaysWhatADirectoryLacks) {
  const TempDirectory dir;
  EXPECT_THAT([&] { open_checkpoint(dir.path().string()); },
              ThrowsMessage<IoError>(HasSubstr("config.json")));
  copy_model("tiny-llama", dir);
  fs::remove(dir / "model.safetensors");
  EXPECT_THAT([&] { open_checkpoint(dir.path().string()); },
              ThrowsMessage<FormatError>(HasSubstr("safetensors only")));
  for (const char* name : {"../x.safetensors", "/etc/passwd", "..", ""}) {
    spill(dir / "model.safetensors.index.json",
          std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    EXPECT_THAT([&] { open_checkpoint(dir.path().string()); },
                ThrowsMessage<FormatError>(HasSubstr("same directory")));
  }
  EXPECT_THAT([] { open_checkpoint("no/such/model"); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("no/such/model"), HasSubstr("dummy:"))));
}

TEST(HfCheckpoint, FingerprintChangesWithContentAndNotWithThePlace) {
  const TempDirectory one, two;
  copy_model("tiny-opt", one);
  copy_model("tiny-opt", two);
  for (const auto& entry : fs::directory_iterator(one.path()))
    fs::last_write_time(two.path() / entry.path().filename(), fs::last_write_time(entry));
  const auto print = [](const TempDirectory& d) {
    return open_checkpoint(d.path().string())->fingerprint();
  };
  EXPECT_EQ(print(one), print(two));
  const auto before = print(one);
  fs::last_write_time(one / "model.safetensors", fs::file_time_type::clock::now());
  EXPECT_NE(print(one), before);
  const auto touched = print(one);
  spill(one / "tokenizer_config.json", "{}");
  EXPECT_NE(print(one), touched);
}

TEST(HfCheckpoint, SurvivesTruncationAndFlippedBytesOfItsFiles) {
  const TempDirectory dir;
  copy_model("tiny-llama3-rope", dir);
  const std::string model = dir.path().string();
  ASSERT_TRUE(reads_whole(model));
  std::mt19937_64 random(5);
  const std::pair<const char*, std::size_t> files[] = {{"config.json", 1 << 20},
                                                       {"model-00001-of-00003.safetensors", 1500},
                                                       {"model.safetensors.index.json", 1 << 20}};
  for (const auto& [name, most] : files) {
    const std::string whole = slurp(dir / name);
    const std::size_t head = std::min(whole.size(), most);
    for (std::size_t at = 0; at + 2 < head; at += 1 + at / 15) {
      spill(dir / name, whole.substr(0, at));
      EXPECT_FALSE(reads_whole(model)) << name << " cut at " << at;
    }
    int refused = 0;
    for (int round = 0; round < 200; ++round) {
      std::string content = whole;
      char& at = content[random() % head];
      at = static_cast<char>(round % 2 == 0 ? at ^ (1 << random() % 8) : random());
      spill(dir / name, content);
      refused += !reads_whole(model);
    }
    EXPECT_GT(refused, 20) << name;
    spill(dir / name, whole);
  }
  EXPECT_TRUE(reads_whole(model));
}

}  // namespace
}  // namespace barge
