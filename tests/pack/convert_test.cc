#include "pack/convert.h"

#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "core/bytes.h"
#include "core/dtype.h"
#include "core/errors.h"
#include "core/memory_budget.h"
#include "model/description.h"
#include "model/dummy_checkpoint.h"
#include "model/input_file.h"
#include "offload/free_space.h"
#include "quant/codec.h"
#include "tests/pack/pack_support.h"

namespace barge {

std::vector<std::byte> read_panel(const Pack& pack, const PackPanel& panel) {
  std::vector<std::byte> bytes(panel.stored_bytes());
  InputFile(pack.file(panel.file).path()).read(panel.offset, bytes);
  return bytes;
}

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Calls visit(tensor of the family, tensor of the pack) for each.
template <typename Visit>
void for_each_tensor(const Checkpoint& checkpoint, const Pack& pack, const Visit& visit) {
  for (const Part& part : make_family(checkpoint.config())->parts())
    for (const TensorSpec& spec : part.tensors)
      visit(spec, pack.tensors()[static_cast<std::size_t>(pack.find(spec.name))]);
}

std::vector<float> decode(const Pack& pack, const PackTensor& tensor) {
  std::vector<float> rows;
  for (const PackPanel& panel : tensor.panels) {
    const auto bytes = read_panel(pack, panel);
    pack.check(tensor, panel, bytes);
    EXPECT_EQ(rows.size(), static_cast<std::size_t>(panel.first_row * tensor.cols));
    for (std::int64_t r = 0; r < panel.layout.rows; ++r) {
      rows.resize(rows.size() + static_cast<std::size_t>(tensor.cols));
      decode_panel_row(panel.layout, std::span(bytes).first(panel.layout.bytes), r,
                       std::span(rows).last(static_cast<std::size_t>(tensor.cols)));
    }
  }
  return rows;
}

std::vector<float> rows_of(const Checkpoint& checkpoint, const TensorSpec& spec) {
  std::vector<float> rows(static_cast<std::size_t>(spec.rows * spec.cols));
  checkpoint.read_rows(spec, 0, spec.rows, rows);
  return rows;
}

TEST(Convert, KeepsWhatIsQuantisedAlreadyBitForBitAndQuantises16BitNumbers) {
  const TempDirectory dir;
  const auto checkpoint = open_checkpoint(golden_model("tiny-llama-mixed.gguf"));
  convert(*checkpoint, {}, dir / "pack");
  const Pack pack(dir / "pack");
  std::set<Encoding> stored_encodings;
  for_each_tensor(*checkpoint, pack, [&](const TensorSpec& spec, const PackTensor& tensor) {
    const WeightFormat stored = checkpoint->stored_format(spec);
    stored_encodings.insert(stored.encoding);
    if (stored.encoding == Encoding::kF16 || stored.encoding == Encoding::kBF16) {
      EXPECT_EQ(to_string(tensor.format), "q4:64:input") << spec.name;
      EXPECT_LT(relative_rms_error(rows_of(*checkpoint, spec), decode(pack, tensor)), 0.15)
          << spec.name;
    } else {
      EXPECT_EQ(tensor.format, stored) << spec.name;
      EXPECT_EQ(decode(pack, tensor), rows_of(*checkpoint, spec)) << spec.name;
    }
  });
  EXPECT_GE(stored_encodings.size(), 5u);  // the file has all of them
}

TEST(Convert, StoresEachFormatAsTheCodecWouldInOnePiece) {
  const TempDirectory dir;
  // 576 columns: pieces of 455 rows, panels of other sizes, groups that don't divide the rows.
  ModelConfig config = config_by_name("smollm2-135m@1");
  config.vocab = 3001;
  const auto checkpoint = make_dummy_checkpoint(config);
  const ConvertOptions all[] = {{4, 0, GroupAxis::kInput},   {4, 32, GroupAxis::kInput},
                                {4, 64, GroupAxis::kOutput}, {8, 32, GroupAxis::kOutput},
                                {8, 128, GroupAxis::kInput}, {16, 0, GroupAxis::kInput}};
  int number = 0;
  for (ConvertOptions options : all) {
    options.threads = 3;
    const fs::path at = dir / ("pack" + std::to_string(number++));
    convert(*checkpoint, options, at);
    const Pack pack(at);
    for (const TensorSpec& spec :
         {TensorSpec{"layers.0.gate", 1536, 576}, TensorSpec{"layers.0.down", 576, 1536},
          TensorSpec{"embed", 3001, 576, TensorSpec::Kind::kTable}}) {
      const PackTensor& tensor = pack.tensors()[static_cast<std::size_t>(pack.find(spec.name))];
      EXPECT_EQ(tensor.format, packed_format(*checkpoint, spec, options));
      if (spec.kind == TensorSpec::Kind::kTable) {
        EXPECT_TRUE(tensor.format.encoding == Encoding::kBF16 ||
                    tensor.format.axis == GroupAxis::kInput);
      }
      for (std::size_t p = 0; p < tensor.panels.size(); p += 1 + tensor.panels.size() / 9) {
        const PackPanel& panel = tensor.panels[p];
        std::vector<float> rows(static_cast<std::size_t>(panel.layout.rows * spec.cols));
        checkpoint->read_rows(spec, panel.first_row, panel.layout.rows, rows);
        std::vector<std::byte> wanted(panel.stored_bytes());
        if (checkpoint->stored_format(spec) == tensor.format)
          checkpoint->read_panel(spec, panel.first_row, panel.layout,
                                 std::span(wanted).first(panel.layout.bytes));
        else
          encode_panel(panel.layout, rows, std::span(wanted).first(panel.layout.bytes));
        EXPECT_EQ(read_panel(pack, panel), wanted)
            << to_string(tensor.format) << " " << spec.name << " panel " << p;
      }
    }
  }
}

TEST(Convert, ChoosesFormatsAsTheFlagsSay) {
  const auto format = [](const std::string& model, const char* tensor, TensorSpec::Kind kind,
                         ConvertOptions options) {
    const auto checkpoint = open_checkpoint(golden_model(model));
    TensorSpec spec{tensor, 0, 0, kind};
    for (const Part& part : make_family(checkpoint->config())->parts())
      for (const TensorSpec& t : part.tensors)
        if (t.name == tensor) spec = t;
    return to_string(packed_format(*checkpoint, spec, options));
  };
  constexpr auto kMatrix = TensorSpec::Kind::kMatrix;
  const char* q = "layers.0.q";
  EXPECT_EQ(format("tiny-opt", q, kMatrix, {}), "f32");
  EXPECT_EQ(format("tiny-opt", q, kMatrix, {.weight_bits = 16}), "bf16");
  EXPECT_EQ(format("tiny-opt", q, kMatrix, {.weight_bits = 4}), "q4:64:input");
  EXPECT_EQ(format("tiny-qwen2", q, kMatrix, {}), "q4:64:input");
  EXPECT_EQ(format("tiny-qwen2", q, kMatrix, {.weight_bits = 16}), "f16");
  EXPECT_EQ(format("tiny-qwen2", q, kMatrix, {.weight_bits = 32}), "f32");
  EXPECT_EQ(format("tiny-qwen2", q, kMatrix, {.group = 128}), "q4:128:input");
  EXPECT_EQ(format("tiny-qwen2.gguf", q, kMatrix, {}), "q4:32:input");
  EXPECT_EQ(format("tiny-qwen2.gguf", q, kMatrix, {.weight_bits = 4}), "q4:32:input");
  EXPECT_EQ(format("tiny-qwen2.gguf", q, kMatrix, {.weight_bits = 8}), "q8:64:input");
  EXPECT_EQ(format("tiny-qwen2.gguf", q, kMatrix, {.axis = GroupAxis::kOutput}), "q4:64:output");
  EXPECT_EQ(format("tiny-qwen2.gguf", "embed", TensorSpec::Kind::kTable, {}), "q8:32:input");
  EXPECT_EQ(format("tiny-qwen2.gguf", "embed", TensorSpec::Kind::kTable, {.weight_bits = 4}),
            "q4:64:input");
  EXPECT_EQ(format("tiny-qwen2.gguf", "output_norm", TensorSpec::Kind::kVector, {.weight_bits = 4}),
            "f32");
  for (const char* bad : {"auto", "5", "4 ", "fp8"})
    EXPECT_THROW(parse_weight_bits(bad), ConfigError);
  EXPECT_EQ(parse_weight_bits(""), 0);
  EXPECT_THROW(validate({.weight_bits = 7}), ConfigError);
  EXPECT_THROW(validate({.group = 63}), ConfigError);
}

TEST(Convert, MakesAWholeModelWithTiedTablesOnceAndItsTokenizer) {
  const TempDirectory dir;
  for (const char* model : {"tiny-opt", "tiny-smollm2", "tiny-llama3-rope-v2.gguf"}) {
    const auto checkpoint = open_checkpoint(golden_model(model));
    std::size_t last = 0, calls = 0;
    convert(*checkpoint, {}, dir / model, [&](std::size_t done, std::size_t total) {
      EXPECT_GE(done, last);
      EXPECT_LE(done, total);
      EXPECT_EQ(total, packed_bytes(*checkpoint, {}));
      last = done;
      ++calls;
    });
    EXPECT_EQ(last, packed_bytes(*checkpoint, {}));
    EXPECT_GT(calls, 10u);
    const Pack pack(dir / model);
    std::set<std::string> names;
    for (const PackTensor& tensor : pack.tensors())
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    for_each_tensor(*checkpoint, pack, [](const TensorSpec& spec, const PackTensor& tensor) {
      EXPECT_EQ(spec.rows, tensor.rows);
      EXPECT_EQ(spec.cols, tensor.cols);
      EXPECT_EQ(static_cast<int>(spec.kind), static_cast<int>(tensor.kind));
    });
    const ModelDescription description = description_from_json(pack.model(), model);
    EXPECT_EQ(config_to_json(description.config), config_to_json(checkpoint->config()));
    EXPECT_EQ(description.tokenizer.tokens, checkpoint->tokenizer().tokens);
    EXPECT_EQ(description.tokenizer.merges, checkpoint->tokenizer().merges);
    EXPECT_EQ(pack.fingerprint(), pack_fingerprint(*checkpoint, {}));
  }
}

// A dummy that has a number which the format can't hold.
TEST(Convert, NamesTheTensorWhoseNumbersCannotBeStoredAndLeavesNothing) {
  const TempDirectory dir;
  fs::copy(golden_model("tiny-mistral"), dir / "model");
  {
    const auto checkpoint = open_checkpoint((dir / "model").string());
    EXPECT_EQ(checkpoint->stored_format({"layers.1.up", 88, 48}).encoding, Encoding::kBF16);
  }
  // Every bf16 number of the file's end becomes infinite.
  const fs::path weights = dir / "model" / "model.safetensors";
  std::fstream file(weights, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-64, std::ios::end);
  for (int i = 0; i < 32; ++i) file.write("\x80\x7f", 2);
  file.close();
  const auto checkpoint = open_checkpoint((dir / "model").string());
  EXPECT_THAT([&] { convert(*checkpoint, {.weight_bits = 4}, dir / "pack"); },
              ThrowsMessage<FormatError>(AllOf(HasSubstr("tensor \""), HasSubstr("finite"))));
  EXPECT_THAT(dir.names(), testing::ElementsAre("model"));
}

TEST(Convert, LeavesNothingWhenTheSourceShrinksUnderIt) {
  const TempDirectory dir;
  fs::copy(golden_model("tiny-llama-mixed.gguf"), dir / "m.gguf");
  const auto checkpoint = open_checkpoint((dir / "m.gguf").string());
  fs::resize_file(dir / "m.gguf", fs::file_size(dir / "m.gguf") / 2);
  EXPECT_THAT([&] { convert(*checkpoint, {}, dir / "pack"); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("m.gguf"), HasSubstr("too early"))));
  EXPECT_THAT(dir.names(), testing::ElementsAre("m.gguf"));
}

TEST(Convert, SaysBytesWantedAndFreeBeforeItFillsADisk) {
  const TempDirectory dir;
  const auto checkpoint = open_checkpoint("dummy:opt-175b");
  if (free_space(dir / "pack") > packed_bytes(*checkpoint, {.weight_bits = 32}))
    GTEST_SKIP() << "this disk holds OPT-175B in f32";
  EXPECT_THAT([&] { convert(*checkpoint, {.weight_bits = 32}, dir / "pack"); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("wanted 6"), HasSubstr("GiB of disk, got"))));
  EXPECT_THAT(dir.names(), IsEmpty());
}

TEST(Convert, LeavesNothingWhenAWriteFails) {
  const TempDirectory dir;
  // A limit on the size of files fails a write as a full disk does, without needing one.
  const int status = status_of(start_process([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1_MiB, 1_MiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      convert(*open_checkpoint("dummy:smollm2-135m@1"), {}, dir / "pack");
    } catch (const IoError& e) {
      return std::strstr(e.what(), "cannot write") != nullptr ? 7 : 8;
    }
    return 9;
  }));
  EXPECT_EQ(status, 7);
  EXPECT_THAT(dir.names(), IsEmpty());
}

TEST(Convert, NeedsAFewMebibytesWhateverTheModelsSize) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory would be measured";
  const TempDirectory dir;
  constexpr std::size_t kAllowed = 32_MiB;  // 8 MiB, 3 a thread, 49,152 tokens as text and JSON
  const auto grown = [&](const std::string& model, int bits, std::size_t least_bytes) {
    return status_of(start_process([&] {
      const auto checkpoint = open_checkpoint(model);
      const ConvertOptions options{.weight_bits = bits, .threads = 2};
      if (packed_bytes(*checkpoint, options) < least_bytes) return 255;
      std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew
      const std::size_t before = resident_bytes();
      convert(*checkpoint, options, dir / concat("pack", bits));
      return static_cast<int>((peak_resident_bytes() - before) / 1_MiB);
    }));
  };
  const int kept = grown("dummy:rand1b@3", 4, 5 * kAllowed),
            encoded = grown("dummy:opt-125m@1", 16, 2 * kAllowed);
  RecordProperty("peak_mib_4_bits", kept);
  RecordProperty("peak_mib_16_bits", encoded);
  EXPECT_LE(kept, static_cast<int>(kAllowed / 1_MiB));
  EXPECT_LE(encoded, static_cast<int>(kAllowed / 1_MiB));
}

}  // namespace
}  // namespace barge
