#include "jobs/sqlite.h"

#include <utility>

#include "core/errors.h"
#include "core/io_error.h"
#include "jobs/wal_check.h"

namespace barge {
namespace {

constexpr const char* kWritable = "; are the file and its directory writable?";

}  // namespace

Sqlite::Sqlite(std::filesystem::path path) : path_(std::move(path)) {
  check_wal(path_.string() + "-wal");
  if (sqlite3_open_v2(path_.c_str(), &db_,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                      nullptr) != SQLITE_OK) {
    const std::string reason = sqlite3_errmsg(db_);
    sqlite3_close(db_);
    throw IoError(concat("cannot open the job store ", path_.string(), ": ", reason, kWritable));
  }
  try {
    if (sqlite3_db_readonly(db_, "main") == 1)
      throw IoError(concat("cannot write the job store ", path_.string(), kWritable));
    // The lock is the connection's for good, so that two processes never work on one job; the
    // kernel takes it back when a process is killed.
    execute("PRAGMA locking_mode = EXCLUSIVE");
    execute("PRAGMA journal_mode = WAL");
    execute("PRAGMA synchronous = FULL");
    execute("PRAGMA cache_size = -1024");  // KiB
    execute("BEGIN EXCLUSIVE");
    execute("COMMIT");
    check_pages();
  } catch (...) {
    sqlite3_close(db_);
    throw;
  }
}

void Sqlite::check_pages() {
  Statement row(*this, "PRAGMA quick_check(1)");
  if (row.step(); row.text(0) != "ok") fail_damaged(row.text(0));
}

void Sqlite::fail_damaged(const std::string& how) const {
  throw IoError(concat("the job store ", path_.string(), " is damaged: ", how,
                       ". Restore it from a copy, together with its -wal file, or move it away; ",
                       "answers stay in the files beside it"));
}

Sqlite::~Sqlite() { sqlite3_close(db_); }

void Sqlite::execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail(sql);
}

void Sqlite::fail(const char* attempted) const {
  const int code = sqlite3_errcode(db_);
  if (code == SQLITE_BUSY)
    throw IoError(concat("the job store ", path_.string(),
                         " is in use by another process; wait for it or stop it"));
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) fail_damaged(sqlite3_errmsg(db_));
  const std::string message = concat("the job store ", path_.string(), " failed at \"", attempted,
                                     "\": ", sqlite3_errmsg(db_));
  if (code == SQLITE_FULL) throw DiskFull(message + "; free some disk space");
  throw IoError(message + (code == SQLITE_READONLY || code == SQLITE_CANTOPEN ? kWritable : ""));
}

Sqlite::Transaction::~Transaction() {
  if (open_) sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Sqlite::Transaction::commit() {
  db_.execute("COMMIT");
  open_ = false;
}

Statement::Statement(Sqlite& db, const char* sql) : db_(db) {
  if (sqlite3_prepare_v2(db.handle(), sql, -1, &statement_, nullptr) != SQLITE_OK) db.fail(sql);
}

bool Statement::step() {
  const int result = sqlite3_step(statement_);
  if (result == SQLITE_ROW) return true;
  if (result != SQLITE_DONE) db_.fail(sqlite3_sql(statement_));
  return false;
}

std::string Statement::text(int column) {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes ? std::string(bytes, sqlite3_column_bytes(statement_, column)) : std::string();
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  bound_ = 0;
}

void Statement::check(int result) {
  if (result != SQLITE_OK) db_.fail(sqlite3_sql(statement_));
}

}  // namespace barge
