#include "offload/pack.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "core/bytes.h"
#include "core/errors.h"
#include "offload/pack_layout.h"
#include "tests/offload/small_pack.h"
#include "tests/support/temp_directory.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Kind = PackTensor::Kind;
namespace fs = std::filesystem;

constexpr WeightFormat kQ4{.encoding = Encoding::kQ4, .group = 64, .axis = GroupAxis::kInput};
constexpr WeightFormat kQ4Output{
    .encoding = Encoding::kQ4, .group = 32, .axis = GroupAxis::kOutput};
constexpr WeightFormat kF32{.encoding = Encoding::kF32};
constexpr WeightFormat kBF16{.encoding = Encoding::kBF16};

const std::vector<SmallTensor> kTensors{{"embed", Kind::kTable, 1003, 96, kQ4},
                                        {"norm", Kind::kVector, 1, 96, kF32},
                                        {"q", Kind::kMatrix, 300, 96, kQ4},
                                        {"k", Kind::kMatrix, 129, 97, kQ4Output},
                                        {"v", Kind::kMatrix, 65, 31, kBF16}};

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_file(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// pack.json with the first `from` replaced.
void edit_json(const fs::path& pack, const std::string& from, const std::string& to) {
  std::string text = read_file(pack / "pack.json");
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  write_file(pack / "pack.json", text.replace(at, from.size(), to));
}

class PackTest : public testing::Test {
 protected:
  PackTest() { write_small_pack(path_, kTensors); }

  std::vector<std::byte> stored(const PackPanel& panel) const {
    std::ifstream in(path_ / "data-0.bin", std::ios::binary);
    in.seekg(static_cast<std::streamoff>(panel.offset));
    std::vector<std::byte> bytes(panel.stored_bytes());
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }

  test::TempDirectory directory_;
  fs::path path_ = directory_.path() / "pack";
};

TEST_F(PackTest, ReadsBackWhatWasWritten) {
  const Pack pack(path_);
  EXPECT_EQ(pack.model(), R"({"name": "small"})");
  EXPECT_EQ(pack.fingerprint(), "fingerprint of a small pack");
  ASSERT_EQ(pack.tensors().size(), kTensors.size());
  EXPECT_EQ(pack.bytes(), fs::file_size(path_ / "data-0.bin"));
  std::uint64_t offset = 0;
  for (std::size_t t = 0; t < kTensors.size(); ++t) {
    const PackTensor& tensor = pack.tensors()[t];
    EXPECT_EQ(tensor.name, kTensors[t].name);
    EXPECT_EQ(pack.find(tensor.name), static_cast<int>(t));
    EXPECT_EQ(tensor.kind, kTensors[t].kind);
    EXPECT_EQ(tensor.format, kTensors[t].format);
    std::int64_t row = 0;
    for (const PackPanel& panel : tensor.panels) {
      EXPECT_EQ(panel.first_row, row);
      EXPECT_EQ(panel.offset, offset);  // sweep order, nothing between
      row += panel.layout.rows;
      offset += panel.stored_bytes();
      std::vector<std::byte> bytes = stored(panel);
      pack.check(tensor, panel, bytes);
      bytes.resize(panel.layout.bytes);
      EXPECT_EQ(bytes, panel_bytes(t, panel));
    }
    EXPECT_EQ(row, tensor.rows);
  }
  EXPECT_EQ(offset, pack.bytes());
}

TEST_F(PackTest, NamesTensorPanelAndFileWhenAByteIsFlipped) {
  const Pack pack(path_);
  const PackTensor& tensor = pack.tensors()[2];
  std::vector<std::byte> bytes = stored(tensor.panels[1]);
  bytes.back() ^= std::byte{1};  // of the padding, even
  EXPECT_THAT([&] { pack.check(tensor, tensor.panels[1], bytes); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("panel 1 of 'q'"), HasSubstr("data-0.bin"),
                                               HasSubstr("damaged"))));
}

TEST_F(PackTest, RefusesATruncatedDataFile) {
  const auto bytes = fs::file_size(path_ / "data-0.bin");
  fs::resize_file(path_ / "data-0.bin", bytes - 4096);
  EXPECT_THAT([&] { Pack pack(path_); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr(concat("has ", bytes - 4096, " bytes")),
                                               HasSubstr(concat(bytes)))));
}

TEST_F(PackTest, RefusesALyingPackJson) {
  const std::string good = read_file(path_ / "pack.json");
  const std::pair<const char*, const char*> lies[] = {
      {"\"version\": 1", "\"version\": 2"},
      {"\"version\": 1", "\"version\": \"1\""},
      {"\"file_bytes\"", "\"other\""},
      {"\"tensors\"", "\"other\""},
      {"\"offset\": 0", "\"offset\": 1"},
      {"\"offset\": 0", "\"offset\": 9223372036854775807"},
      {"\"offset\": 0", "\"offset\": 9223372036854771712"},
      {"\"offset\": 0", "\"offset\": -4096"},
      {"\"offset\": 0", "\"offset\": 1e300"},
      {"\"rows\": 1003", "\"rows\": 0"},
      {"\"rows\": 1003", "\"rows\": 1000003"},
      {"\"rows\": 1003", "\"rows\": 9223372036854775807"},
      {"\"rows\": 1003", "\"rows\": 18446744073709551615"},
      {"\"cols\": 96", "\"cols\": 0"},
      {"\"cols\": 96", "\"cols\": 1073741824"},
      {"\"cols\": 96", "\"cols\": 9223372036854775807"},
      {"\"cols\": 96", "\"cols\": 97000"},
      {"\"panel_rows\": ", "\"panel_rows\": 0"},
      {"\"panel_rows\": ", "\"panel_rows\": -"},
      {"\"file\": 0", "\"file\": 1"},
      {"\"kind\": \"table\"", "\"kind\": \"chair\""},
      {"\"format\": \"q4:64:input\"", "\"format\": \"q5:64:input\""},
      {"\"name\": \"norm\"", "\"name\": \"embed\""},
      {"\"checksums\": [\n    \"", "\"checksums\": [\n    \"g"},
      {"\"checksums\": [", "\"checksums\": [7, "},
      {"\"format\": \"q4:32:output\"", "\"format\": \"q4:96:output\""},
  };
  for (const auto& [from, to] : lies) {
    write_file(path_ / "pack.json", good);
    edit_json(path_, from, to);
    EXPECT_THAT([&] { Pack pack(path_); }, ThrowsMessage<FormatError>(HasSubstr("pack.json")))
        << from << " -> " << to;
  }
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, good.size() / 2}) {
    write_file(path_ / "pack.json", good.substr(0, bytes));
    EXPECT_THAT([&] { Pack pack(path_); }, ThrowsMessage<FormatError>(HasSubstr("pack.json")));
  }
}

TEST_F(PackTest, IsRecognisedByItsPackJson) {
  EXPECT_TRUE(is_pack(path_));
  EXPECT_FALSE(is_pack(directory_.path()));
  EXPECT_FALSE(is_pack(path_ / "pack.json"));
  EXPECT_THROW(Pack{directory_.path()}, IoError);
}

TEST_F(PackTest, RefusesToOverwriteAndNamesMissingTensors) {
  EXPECT_THAT([&] { PackWriter writer(path_); },
              ThrowsMessage<IoError>(HasSubstr("exists already")));
  EXPECT_THAT([&] { PackWriter writer(directory_.path() / "no" / "where"); },
              ThrowsMessage<IoError>(HasSubstr("where.partial")));
  EXPECT_THAT([&] { Pack(path_).find("o"); }, ThrowsMessage<FormatError>(HasSubstr("'o'")));
}

TEST(PackWriter, LeavesNothingWhenItIsNotFinished) {
  const test::TempDirectory directory;
  {
    PackWriter writer(directory.path() / "pack");
    const auto& panels = writer.begin("q", Kind::kMatrix, 64, 64, kQ4);
    writer.write(std::vector<std::byte>(panels[0].layout.bytes));
    EXPECT_FALSE(fs::is_empty(directory.path()));
    EXPECT_FALSE(fs::exists(directory.path() / "pack"));
  }
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(PackWriter, RefusesToFinishATensorThatLacksPanels) {
  const test::TempDirectory directory;
  PackWriter writer(directory.path() / "pack");
  const auto& panels = writer.begin("q", Kind::kMatrix, 2048, 2048, kQ4);
  ASSERT_GT(panels.size(), 1u);
  writer.write(std::vector<std::byte>(panels[0].layout.bytes));
  EXPECT_THROW(writer.finish("", ""), Error);
  EXPECT_THROW(writer.begin("k", Kind::kMatrix, 64, 64, kQ4), Error);
  EXPECT_THROW(writer.write(std::vector<std::byte>(3)), Error);
}

struct Shape {
  Kind kind;
  std::int64_t rows, cols;
  WeightFormat format;
};

double padding_of(const std::vector<PackPanel>& panels) {
  double stored = 0, used = 0;
  for (const PackPanel& panel : panels) {
    stored += static_cast<double>(panel.stored_bytes());
    used += static_cast<double>(panel.layout.bytes);
  }
  return 1 - used / stored;
}

std::vector<PackPanel> cut(const Shape& shape) {
  const PackTensor tensor{.name = "t",
                          .kind = shape.kind,
                          .rows = shape.rows,
                          .cols = shape.cols,
                          .format = shape.format};
  return cut_panels(tensor, panel_rows(shape.kind, shape.rows, shape.cols, shape.format));
}

TEST(PackLayout, CutsMatricesIntoTilesOfAtMostFourMebibytes) {
  for (const std::int64_t rows : {1, 63, 64, 65, 576, 1536, 5632, 50272})
    for (const std::int64_t cols : {1, 63, 576, 2048, 12288, 49152})
      for (const WeightFormat& format : {kQ4, kQ4Output, kF32, kBF16}) {
        const auto panels = cut({Kind::kMatrix, rows, cols, format});
        SCOPED_TRACE(concat(rows, " x ", cols, " ", to_string(format)));
        const std::int64_t tile = panel_layout(format, 64, cols).bytes <= kMaxPanelBytes ? 64 : 1;
        for (const PackPanel& panel : panels) {
          EXPECT_LE(panel.stored_bytes(), kMaxPanelBytes);
          EXPECT_EQ(panel.first_row % tile, 0);
        }
      }
}

TEST(PackLayout, GivesSmallModelsSeveralPanelsAMatrixWithLittlePadding) {
  for (const auto& [rows, cols] : {std::pair{576, 576}, {1536, 576}, {576, 1536}}) {
    const auto panels = cut({Kind::kMatrix, rows, cols, kQ4});
    EXPECT_GE(panels.size(), 2u) << rows << " x " << cols;
    EXPECT_LE(padding_of(panels), 0.04) << rows << " x " << cols;
  }
  EXPECT_EQ(cut({Kind::kMatrix, 2048, 2048, kQ4}).size(), 4u);
}

TEST(PackLayout, CutsTablesIntoFewSectorsWithLittlePadding) {
  for (const std::int64_t cols : {576, 768, 2048, 4096, 12288})
    for (const WeightFormat& format : {kQ4, kF32, kBF16}) {
      const auto panels = cut({Kind::kTable, 49152, cols, format});
      SCOPED_TRACE(concat(cols, " ", to_string(format)));
      EXPECT_LE(panels[0].stored_bytes(), 64_KiB);
      EXPECT_LE(padding_of(panels), 0.032);  // 3 % and the last panel
    }
}

TEST(PackLayout, NamesShapesThatCannotBeCut) {
  EXPECT_THAT(
      [&] {
        cut({Kind::kMatrix, 4, 2'000'000, kF32});
      },
      ThrowsMessage<FormatError>(HasSubstr("2000000 numbers")));
  EXPECT_THROW(cut({Kind::kMatrix, 0, 5, kF32}), FormatError);
  EXPECT_THROW(cut({Kind::kVector, 2, 5, kF32}), FormatError);
  EXPECT_THROW(cut({Kind::kVector, 1, 64, kQ4}), FormatError);
}

}  // namespace
}  // namespace barge
