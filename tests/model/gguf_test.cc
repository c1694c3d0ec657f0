#include "model/gguf.h"

#include <gmock/gmock.h>

#include <random>

#include "core/dtype.h"
#include "model/checkpoint.h"
#include "model/gguf_checkpoint.h"
#include "quant/codec.h"
#include "tests/model/checkpoint_support.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::uint32_t kU32 = 4, kF32 = 6, kString = 8, kArray = 9, kU64 = 10;

// Metadata and tensors of a file that are put together when it is written.
class Builder {
 public:
  std::uint32_t version = 3;

  Builder& number(const std::string& key, std::uint32_t value) {
    return pair(key, kU32, Bytes().put(value));
  }
  Builder& real(const std::string& key, float value) { return pair(key, kF32, Bytes().put(value)); }
  Builder& text(const std::string& key, const std::string& value) {
    return pair(key, kString, Bytes().string(value));
  }
  Builder& texts(const std::string& key, const std::vector<std::string>& values) {
    Bytes bytes;
    bytes.put(kString).put<std::uint64_t>(values.size());
    for (const auto& v : values) bytes.string(v);
    return pair(key, kArray, bytes);
  }
  Builder& pair(const std::string& key, std::uint32_t type, const Bytes& value) {
    pairs_.string(key).put(type).raw(value.text());
    ++num_pairs_;
    return *this;
  }
  Builder& tensor(const std::string& name, const std::vector<std::uint64_t>& dims,
                  std::uint32_t type, const std::string& data) {
    data_.pad_to(32);
    tensors_.string(name).put(static_cast<std::uint32_t>(dims.size()));
    for (const auto d : dims) tensors_.put(d);
    tensors_.put(type).put<std::uint64_t>(data_.text().size());
    data_.raw(data);
    ++num_tensors_;
    return *this;
  }
  std::string build() const {
    Bytes file;
    file.raw("GGUF").put(version).put(num_tensors_).put(num_pairs_);
    file.raw(pairs_.text()).raw(tensors_.text());
    return file.pad_to(32).raw(data_.text()).text();
  }

 private:
  std::uint64_t num_tensors_ = 0, num_pairs_ = 0;
  Bytes pairs_, tensors_, data_;
};

Builder vocabulary_only() {
  Builder b;
  b.text("general.architecture", "llama").text("tokenizer.ggml.model", "gpt2");
  b.text("tokenizer.ggml.pre", "smollm").texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<e>"});
  b.pair("tokenizer.ggml.token_type", kArray,
         Bytes().put(std::uint32_t{5}).put<std::uint64_t>(4).put(1).put(1).put(1).put(3));
  return b.texts("tokenizer.ggml.merges", {"a b"}).number("tokenizer.ggml.eos_token_id", 3);
}

Builder with_shape(Builder b) {
  b.number("llama.embedding_length", 32).number("llama.block_count", 1);
  b.number("llama.attention.head_count", 2).number("llama.feed_forward_length", 32);
  b.number("llama.context_length", 64).real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  return b;
}

// All of a file's text but one tensor's bytes are given; the embedding is the only tensor.
std::string with_embedding(std::uint32_t type, const std::string& data, std::uint64_t rows = 4) {
  return with_shape(vocabulary_only()).tensor("token_embd.weight", {32, rows}, type, data).build();
}

const TensorSpec kEmbed{"embed", 4, 32, TensorSpec::Kind::kTable};

TEST(Gguf, ReadsTheTokenizerOfAVocabularyOnlyFile) {
  const TempDirectory dir;
  for (const std::uint32_t version : {2u, 3u}) {
    Builder b = vocabulary_only();
    b.version = version;
    spill(dir / "v.gguf", b.build());
    const TokenizerSpec spec = read_tokenizer(dir / "v.gguf");
    EXPECT_THAT(spec.tokens, ElementsAre("a", "b", "ab", "<e>"));
    EXPECT_THAT(spec.merges, ElementsAre("a b"));
    EXPECT_THAT(spec.eos, ElementsAre(3));
    EXPECT_EQ(spec.types[3], TokenizerSpec::TokenType::kControl);
    EXPECT_EQ(spec.types[2], TokenizerSpec::TokenType::kNormal);
    EXPECT_EQ(spec.pre_tokenizer, "smollm");
    EXPECT_THAT([&] { open_checkpoint(dir / "v.gguf"); },
                ThrowsMessage<FormatError>(HasSubstr("vocabulary only")));
  }
}

// Rows of 32 numbers in each quantised type, with the value that ggml gives them.
TEST(Gguf, KeepsQuantisedRowsBitForBit) {
  const TempDirectory dir;
  std::mt19937 random(7);
  const auto half = [](float x) { return to_f16(x).bits; };
  for (const std::uint32_t type : {2u, 3u, 8u}) {
    Bytes data;
    std::vector<float> wanted;
    for (int row = 0; row < 4; ++row) {
      const float d = (row % 2 == 0 ? 0.37f : -0.011f) * static_cast<float>(row + 1);
      const float scale = to_f32(to_f16(d)), min = to_f32(to_f16(0.3f - d));
      data.put(half(d));
      if (type == 3) data.put(half(0.3f - d));
      std::vector<std::uint8_t> bytes(type == 8 ? 32 : 16);
      for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
      for (const auto b : bytes) data.put(b);
      for (std::size_t i = 0; i < 32; ++i) {
        const int code = type == 8 ? static_cast<std::int8_t>(bytes[i])
                         : i < 16  ? bytes[i] & 15
                                   : bytes[i - 16] >> 4;
        wanted.push_back(type == 2   ? scale * static_cast<float>(code - 8)
                         : type == 3 ? scale * static_cast<float>(code) + min
                                     : scale * static_cast<float>(code));
      }
    }
    spill(dir / "t.gguf", with_embedding(type, data.text()));
    const auto checkpoint = open_checkpoint(dir / "t.gguf");
    std::vector<float> rows(128);
    checkpoint->read_rows(kEmbed, 0, 4, rows);
    EXPECT_EQ(rows, wanted) << type;

    const PanelLayout layout = panel_layout(checkpoint->stored_format(kEmbed), 3, 32);
    std::vector<std::byte> panel(layout.bytes);
    checkpoint->read_panel(kEmbed, 1, layout, panel);
    for (std::int64_t r = 0; r < 3; ++r) {
      std::vector<float> row(32);
      decode_panel_row(layout, panel, r, row);
      EXPECT_EQ(row,
                std::vector<float>(wanted.begin() + (r + 1) * 32, wanted.begin() + (r + 2) * 32))
          << "type " << type << " row " << r;
    }
  }
}

TEST(Gguf, RefusesScalesThatAreNotNumbers) {
  const TempDirectory dir;
  for (const std::uint16_t bad : {0x7c00, 0xfc00, 0x7e00}) {
    Bytes data;
    data.raw(std::string(3 * 34, '\0')).put(bad).raw(std::string(32, '\1'));
    spill(dir / "t.gguf", with_embedding(8, data.text()));
    std::vector<float> out(32);
    const auto checkpoint = open_checkpoint(dir / "t.gguf");
    EXPECT_NO_THROW(checkpoint->read_rows(kEmbed, 2, 1, out));
    EXPECT_THAT([&] { checkpoint->read_rows(kEmbed, 3, 1, out); },
                ThrowsMessage<FormatError>(AllOf(HasSubstr("t.gguf"), HasSubstr("finite"))));
  }
}

TEST(Gguf, NamesWhatItDoesNotRead) {
  const TempDirectory dir;
  const auto message = [&](const std::string& file) {
    spill(dir / "x.gguf", file);
    try {
      (void)open_checkpoint(dir / "x.gguf")->stored_format(kEmbed);
    } catch (const FormatError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(with_embedding(14, std::string(512, '\0'))), HasSubstr("Q6_K"));
  EXPECT_THAT(message(with_embedding(0, std::string(511, '\0'))), HasSubstr("wanted 512 bytes"));
  EXPECT_THAT(message(with_embedding(0, std::string(640, '\0'), 5)),
              HasSubstr("wanted 4 x 32 numbers, got 5 x 32"));
  EXPECT_THAT(message("GGML" + std::string(100, '\0')), HasSubstr("magic"));
  EXPECT_THAT(message(Bytes().raw("GGUF").put(0x03000000).raw(std::string(64, '\0')).text()),
              HasSubstr("big-endian"));
  Builder old = vocabulary_only();
  old.version = 1;
  EXPECT_THAT(message(old.build()), HasSubstr("version 2 or 3, got 1"));
  EXPECT_THAT(message(Builder().text("general.architecture", "bert").build()), HasSubstr("bert"));
  EXPECT_THAT(message(with_shape(vocabulary_only()).number("llama.expert_count", 8).build()),
              HasSubstr("mixture of experts"));
  EXPECT_THAT(message(vocabulary_only().number("general.alignment", 24).build()),
              HasSubstr("power of two"));
  EXPECT_THAT(message(vocabulary_only().text("general.architecture", "opt").build()),
              HasSubstr("there twice"));
}

// Each of these would make a reader that trusts the header read or allocate out of bounds.
TEST(Gguf, DoesNotTrustCountsLengthsOrDepths) {
  const TempDirectory dir;
  const std::uint64_t huge[] = {~0ull, 1ull << 63, 1ull << 61, 1ull << 40, 1000};
  const auto refused = [&](const std::string& file, const char* what) {
    spill(dir / "x.gguf", file);
    EXPECT_THROW(Gguf(dir / "x.gguf"), FormatError) << what;
  };
  for (const std::uint64_t n : huge) {
    refused(Bytes().raw("GGUF").put(3).put(n).put<std::uint64_t>(0).text(), "tensors");
    refused(Bytes().raw("GGUF").put(3).put<std::uint64_t>(0).put(n).text(), "pairs");
    refused(Builder().pair("k", kString, Bytes().put(n)).build(), "string");
    for (const std::uint32_t type : {0u, 7u, kString, kArray, kU64})
      refused(Builder().pair("k", kArray, Bytes().put(type).put(n)).build(), "array");
  }
  Bytes nested;
  for (int depth = 0; depth < 50; ++depth) nested.put(kArray).put<std::uint64_t>(1);
  refused(Builder().pair("k", kArray, nested).build(), "depth");
  refused(Builder().pair("k", 13, Bytes().put<std::uint64_t>(0)).build(), "type of value");
  refused(Builder().tensor("t", {}, 0, "").build(), "no dimensions");
  refused(Builder().tensor("t", {1, 1, 1, 1, 1}, 0, "").build(), "many dimensions");
  spill(dir / "x.gguf",
        with_shape(vocabulary_only()).tensor("token_embd.weight", {1ull << 62, 4}, 0, "").build());
  EXPECT_THAT([&] { open_checkpoint(dir / "x.gguf")->stored_format(kEmbed); },
              ThrowsMessage<FormatError>(HasSubstr("2^56")));
}

TEST(Gguf, SurvivesTruncationAtEveryByteOfTheHeader) {
  const TempDirectory dir;
  const std::string whole = slurp(BARGE_TEST_DATA "/goldens/models/tiny-qwen2.gguf");
  ASSERT_TRUE(reads_whole(BARGE_TEST_DATA "/goldens/models/tiny-qwen2.gguf"));
  const std::size_t header = Gguf(BARGE_TEST_DATA "/goldens/models/tiny-qwen2.gguf").header_bytes();
  const std::string path = dir / "t.gguf";
  spill(path, whole);
  // From the end on, so that one file can be cut again and again.
  std::vector<std::size_t> cuts{whole.size() - 1, whole.size() - 33, header + 4000, header + 1};
  for (std::size_t at = header + 1; at-- > 0;)
    if (at < 600 || at % 7 == 0) cuts.push_back(at);
  for (const std::size_t cut : cuts) {
    std::filesystem::resize_file(path, cut);
    EXPECT_FALSE(reads_whole(path)) << "cut at " << cut;
  }
}

TEST(Gguf, SurvivesFlippedBitsAndBytesOfTheHeader) {
  const TempDirectory dir;
  for (const char* name : {"tiny-llama-mixed.gguf", "tiny-llama3-rope-v2.gguf"}) {
    const std::filesystem::path source =
        std::filesystem::path(BARGE_TEST_DATA) / "goldens/models" / name;
    std::string content = slurp(source);
    const std::size_t header = Gguf(source).header_bytes();
    std::mt19937_64 random(11);
    const std::string path = dir / "t.gguf";
    spill(path, content);
    int refused = 0;
    for (int round = 0; round < 1500; ++round) {
      const std::size_t at = random() % header;
      const char original = content[at];
      const char flipped = static_cast<char>(round % 3 == 0   ? original ^ (1 << random() % 8)
                                             : round % 3 == 1 ? 0xff
                                                              : random());
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(at)).put(flipped).flush();
      refused += !reads_whole(path);
      file.seekp(static_cast<std::streamoff>(at)).put(original).flush();
    }
    EXPECT_GT(refused, 50) << name;
    EXPECT_TRUE(reads_whole(path)) << name;
  }
}

}  // namespace
}  // namespace barge
