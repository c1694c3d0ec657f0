#include "cli/bench_job.h"

#include <chrono>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "core/errors.h"
#include "core/progress.h"

namespace barge {

void SweepMeter::begin() {
  const std::scoped_lock lock(mutex_);
  sweeps_.clear();
  begin_ = clock_.now();
}

void SweepMeter::add(const SweepRecord& record) {
  const Seconds now = clock_.now();
  const std::size_t resident = resident_bytes();
  const std::scoped_lock lock(mutex_);
  sweeps_.push_back({(now - begin_).count(), resident, record});
}

std::vector<SweepMeter::Sweep> SweepMeter::sweeps() const {
  const std::scoped_lock lock(mutex_);
  return sweeps_;
}

namespace {

std::size_t prompt_bytes(const TextRequest& line) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&line.prompt))
    return ids->size() * sizeof(TokenId);
  if (const auto* text = std::get_if<std::string>(&line.prompt)) return text->size();
  return std::get<nlohmann::json>(line.prompt).dump().size();
}

}  // namespace

BenchRun run_lines(Session& session, SweepMeter& meter, std::span<const TextRequest> lines) {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::size_t begun = 0, ended = 0, bytes = 0;  // of lines that begun and haven't ended
  BenchRun run;
  std::string failure;

  const Lookahead lookahead = session.lookahead();
  const auto wants_more = [&] {
    return begun < lines.size() && lookahead.wants_more(static_cast<int>(begun - ended), bytes);
  };
  const auto done = [&](std::size_t line_bytes, const TextResult& result) {
    const std::scoped_lock lock(mutex);
    if (!result.error.empty() && failure.empty()) failure = result.error;
    run.prompt_tokens += static_cast<std::size_t>(result.prompt_tokens);
    ++ended;
    bytes -= line_bytes;
    changed.notify_all();
  };
  const std::size_t tokens_before = session.engine->stats().generated_tokens;
  double wanted = 0;
  for (const TextRequest& line : lines) wanted += line.max_tokens.value_or(0);
  Progress progress("bench", [](double n) { return concat(std::llround(n), " tokens"); });

  const Clock& clock = session.machine.device().clock();
  meter.begin();
  const Seconds begin = clock.now();
  std::unique_lock lock(mutex);
  while (ended < lines.size()) {
    while (wants_more()) {
      const TextRequest& line = lines[begun++];
      const std::size_t line_bytes = prompt_bytes(line);
      bytes += line_bytes;
      lock.unlock();
      session.text->submit(line, {}, std::bind_front(done, line_bytes));
      lock.lock();
    }
    changed.wait_for(lock, std::chrono::milliseconds(500),
                     [&] { return ended == lines.size() || wants_more(); });
    progress.update(static_cast<double>(session.engine->stats().generated_tokens - tokens_before),
                    wanted);
  }
  run.seconds = (clock.now() - begin).count();
  run.sweeps = meter.sweeps();
  if (!failure.empty()) throw Error(failure);
  return run;
}

}  // namespace barge
