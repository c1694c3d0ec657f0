// A batch's input file: each line is there once, and what is good of it becomes a request.
#include <optional>
#include <vector>

#include "core/errors.h"
#include "fuzz/fuzzer.h"
#include "jobs/batch_line.h"
#include "jobs/completion_request.h"
#include "jobs/validation.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace barge;
  using namespace barge::fuzz;
  constexpr std::size_t kMaxBytes = 300;  // of a line: so that some are too long
  const std::string_view text = text_of(data, size);
  const MemoryFile file(text);
  LineReader reader(file.path(), kMaxBytes), again(file.path(), kMaxBytes);
  LineChecker checker({}), same({});
  LineReader::Line line, line_again;
  std::size_t last = 0;
  while (reader.next(line)) {
    require(again.next(line_again) && line.number == line_again.number, "the same lines");
    require(line.number > last, "lines are numbered upwards");
    require(line.text.size() <= kMaxBytes && line.text.find('\n') == std::string_view::npos,
            "a line is one line");
    last = line.number;
    const BatchLine checked = checker.check(line);
    const BatchLine repeated = same.check(line_again);
    require(checked.problem.has_value() == repeated.problem.has_value(), "the same problems");
    if (checked.problem) {
      problems_json({*checked.problem})
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      continue;
    }
    require(checked.custom_id.has_value(), "a good line has an id");
    try {
      parse_completion(checked.endpoint, checked.body, 1);
    } catch (const RequestError&) {
    }
  }
  require(!again.next(line_again), "the same number of lines");
  return 0;
}
