#pragma once

#include "cli/session.h"
#include "jobs/job_store.h"

namespace barge {

/// All that changes a job's answers, and nothing else: budgets and placement may differ.
Identity identity_of(const Session& session, const Options& options);

}  // namespace barge
