#pragma once

#include <filesystem>

namespace barge {

/// Refuses a write-ahead log of SQLite that is damaged before its last commits: SQLite would take
/// it to end there and forget, without a word, what was committed behind. What a crash leaves, an
/// unfinished last commit, is no damage; nor can damage within the very last commit be told from
/// that. Call it before SQLite opens the file; no log, no complaint. Internal to jobs. Throws
/// IoError.
void check_wal(const std::filesystem::path& wal);

}  // namespace barge
