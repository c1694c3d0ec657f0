#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "cli/session.h"
#include "engine/engine_stats.h"

namespace barge {

/// What had been done when a run began.
struct ReportStart {
  EngineStats stats;
  std::size_t read_bytes = 0, write_bytes = 0;  // of the disk, by this process
};
ReportStart start_report(const Session& session);

/// What an engine did in so many seconds: tokens, tiers, traffic, waits, memory; with the keys of
/// `barge bench --json`.
nlohmann::json report(const EngineStats& now, const EngineStats& before, Budgets& budgets,
                      const Plan& plan, double seconds);
/// The same of a session, and what the process did. Peaks and homes are those
/// since the process began.
nlohmann::json report(Session& session, double seconds, const ReportStart& start = {});

}  // namespace barge
