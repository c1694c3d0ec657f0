#include "pack/cache.h"

#include <fstream>

#include "core/errors.h"
#include "pack/verify.h"
#include "tests/pack/pack_support.h"

namespace barge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace fs = std::filesystem;

void flip_byte(const fs::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(at)).put(byte);
}

TEST(PackCache, MakesAPackOnceAndFindsItAgain) {
  const TempDirectory dir;
  int calls = 0;
  const auto count = [&](std::size_t, std::size_t) { ++calls; };
  const std::string model = golden_model("tiny-qwen2.gguf");
  const fs::path made = find_or_convert(model, {}, dir / "packs", count);
  EXPECT_GT(calls, 0);
  calls = 0;
  EXPECT_EQ(find_or_convert(model, {}, dir / "packs", count), made);
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(find_or_convert(made.string(), {}, dir / "elsewhere", count), made);  // a pack itself
  EXPECT_EQ(calls, 0);
  EXPECT_NE(find_or_convert(model, {.weight_bits = 8}, dir / "packs"), made);
  EXPECT_NE(find_or_convert(model, {.group = 64}, dir / "packs"), made);
  EXPECT_NE(find_or_convert(model, {.axis = GroupAxis::kOutput}, dir / "packs"), made);
  EXPECT_THAT(dir.names(), ElementsAre("packs"));
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(dir / "packs")) {
    EXPECT_TRUE(is_pack(entry.path())) << entry.path();  // neither locks nor leftovers
    ++entries;
  }
  EXPECT_EQ(entries, 4);
}

TEST(PackCache, MakesAnotherPackWhenTheSourceHasChanged) {
  const TempDirectory dir;
  fs::copy(golden_model("tiny-opt"), dir / "model");
  const std::string model = (dir / "model").string();
  const fs::path before = find_or_convert(model, {}, dir / "packs");
  fs::last_write_time(dir / "model" / "model.safetensors", fs::file_time_type::clock::now());
  EXPECT_NE(find_or_convert(model, {}, dir / "packs"), before);
}

TEST(PackCache, LetsOneOfSeveralProcessesMakeThePack) {
  const TempDirectory dir;
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i)
    children.push_back(start_process([&] {
      int calls = 0;
      const fs::path pack = find_or_convert("dummy:smollm2-135m@2", {}, dir / "packs",
                                            [&](std::size_t, std::size_t) { ++calls; });
      verify_pack(pack);
      return calls > 0 ? 1 : 0;
    }));
  int made = 0;
  for (const pid_t child : children) {
    const int status = status_of(child);
    EXPECT_LE(status, 1);
    made += status == 1;
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "packs"), {}), 1);
}

TEST(PackCache, RemovesWhatAKilledProcessLeft) {
  const TempDirectory dir;
  const std::string model = golden_model("tiny-mistral");
  const fs::path pack = find_or_convert(model, {}, dir / "packs");
  fs::remove_all(pack);
  fs::create_directories(pack.string() + ".partial-1");
  std::ofstream(pack.string() + ".partial-1/data-0.bin") << "half";
  std::ofstream(pack.string() + ".lock") << "";
  EXPECT_EQ(find_or_convert(model, {}, dir / "packs"), pack);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir / "packs"), {}), 1);
}

TEST(PackCache, FollowsTheUsersCacheDirectories) {
  const auto with = [](const char* own, const char* xdg, const char* home) {
    const auto set = [](const char* name, const char* value) {
      value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
    };
    set("BARGE_CACHE_DIR", own);
    set("XDG_CACHE_HOME", xdg);
    set("HOME", home);
    return default_cache_directory().string();
  };
  const auto saved = [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
  const std::string own = saved("BARGE_CACHE_DIR"), xdg = saved("XDG_CACHE_HOME"),
                    home = saved("HOME");
  EXPECT_EQ(with("/a", "/b", "/c"), "/a");
  EXPECT_EQ(with(nullptr, "/b", "/c"), "/b/barge");
  EXPECT_EQ(with(nullptr, nullptr, "/c"), "/c/.cache/barge");
  EXPECT_EQ(with("", "", "/c"), "/c/.cache/barge");
  (void)with(own.empty() ? nullptr : own.c_str(), xdg.empty() ? nullptr : xdg.c_str(),
             home.empty() ? nullptr : home.c_str());
}

TEST(PackVerify, NamesThePanelThatIsWrong) {
  const TempDirectory dir;
  const fs::path at = find_or_convert("dummy:smollm2-135m@1", {}, dir / "packs");
  std::size_t last = 0;
  EXPECT_NO_THROW(verify_pack(at, [&](std::size_t done, std::size_t total) {
    EXPECT_GT(done, last);
    last = done;
    EXPECT_LE(done, total);
  }));
  const Pack pack(at);
  EXPECT_EQ(last, pack.bytes());
  const PackTensor& up = pack.tensors()[static_cast<std::size_t>(pack.find("layers.0.up"))];
  ASSERT_GE(up.panels.size(), 2u);
  for (const std::uint64_t into :
       {std::uint64_t{0}, std::uint64_t{up.panels[1].stored_bytes() - 1}}) {
    flip_byte(at / "data-0.bin", up.panels[1].offset + into);
    EXPECT_THAT([&] { verify_pack(at); },
                ThrowsMessage<FormatError>(AllOf(HasSubstr("layers.0.up"), HasSubstr("panel 1"),
                                                 HasSubstr("data-0.bin"))));
    flip_byte(at / "data-0.bin", up.panels[1].offset + into);
  }
  EXPECT_NO_THROW(verify_pack(at));
  fs::resize_file(at / "data-0.bin", fs::file_size(at / "data-0.bin") - 4096);
  EXPECT_THAT([&] { verify_pack(at); }, ThrowsMessage<FormatError>(HasSubstr("data-0.bin")));
}

}  // namespace
}  // namespace barge
