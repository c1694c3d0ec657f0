// multipart/form-data: "BOUNDARY\n" and a body. However its bytes are split, the parts are the
// same.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/errors.h"
#include "fuzz/fuzzer.h"
#include "server/data_directory.h"
#include "server/multipart.h"

namespace barge::fuzz {
namespace {

struct Part {
  std::string name, filename, data;
  bool operator==(const Part&) const = default;
};

class Parts final : public FormSink {
 public:
  void begin_part(const std::string& name, const std::string& filename, bool) override {
    require(!open_, "parts don't overlap");
    open_ = true;
    all.push_back({name, filename, {}});
    const std::string shown = display_name(filename);
    require(shown.find_first_of("/\\") == std::string::npos && shown != ".." && !shown.empty(),
            "a name to show has no directories");
  }
  void part_data(std::string_view bytes) override {
    require(open_ && !bytes.empty(), "data stand in a part");
    all.back().data += bytes;
  }
  void end_part() override {
    require(open_, "a part ends once");
    open_ = false;
  }
  std::vector<Part> all;

 private:
  bool open_ = false;
};

// Nothing: the form was refused.
std::optional<std::vector<Part>> parse(std::string_view boundary, std::string_view body,
                                       std::size_t step) {
  Parts parts;
  try {
    MultipartParser parser(boundary, parts);
    for (std::size_t at = 0; at < body.size(); at += step) parser.push(body.substr(at, step));
    parser.finish();
  } catch (const RequestError&) {
    return std::nullopt;
  }
  return parts.all;
}

}  // namespace
}  // namespace barge::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge::fuzz;
  const std::string_view text = text_of(data, size);
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string boundary(text.substr(0, end));
  try {
    boundary = barge::MultipartParser::boundary_of("multipart/form-data; " + boundary);
  } catch (const barge::RequestError&) {
    boundary = "XX";
  }
  const std::string_view body = text.substr(std::min(end + 1, text.size()));
  const auto whole = parse(boundary, body, body.size() + 1);
  require(parse(boundary, body, 1) == whole, "the same byte by byte");
  require(parse(boundary, body, 7) == whole, "the same seven bytes at a time");
  return 0;
}
