#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace barge {

class Statement;

/// One connection to a SQLite file, which nobody else may open meanwhile. Internal to jobs. For one
/// thread at a time. Everything throws IoError, naming the file and what SQLite says.
class Sqlite {
 public:
  /// Opens or creates `path`, write-ahead log, each commit on the disk before it returns. Refuses
  /// what is damaged.
  explicit Sqlite(std::filesystem::path path);
  ~Sqlite();
  Sqlite(const Sqlite&) = delete;
  Sqlite& operator=(const Sqlite&) = delete;

  void execute(const char* sql);
  std::int64_t last_row_id() { return sqlite3_last_insert_rowid(db_); }
  [[noreturn]] void fail(const char* attempted) const;
  sqlite3* handle() { return db_; }
  const std::filesystem::path& path() const { return path_; }

  /// Commits when `commit` is called; rolls back if it is destroyed before.
  class Transaction {
   public:
    explicit Transaction(Sqlite& db) : db_(db) { db_.execute("BEGIN IMMEDIATE"); }
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit();

   private:
    Sqlite& db_;
    bool open_ = true;
  };

 private:
  void check_pages();
  [[noreturn]] void fail_damaged(const std::string& how) const;

  std::filesystem::path path_;
  sqlite3* db_ = nullptr;
};

/// A prepared statement: bind everything in order, then step.
class Statement {
 public:
  Statement(Sqlite& db, const char* sql);
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  template <typename... Values>
  Statement& bind(const Values&... values) {
    reset();
    (bind_one(values), ...);
    return *this;
  }
  /// True while there is a row.
  bool step();
  /// For statements without rows.
  void run() {
    while (step()) {
    }
    reset();
  }

  bool is_null(int column) { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::int64_t integer(int column) { return sqlite3_column_int64(statement_, column); }
  std::string text(int column);
  std::optional<std::int64_t> maybe_integer(int column) {
    return is_null(column) ? std::nullopt : std::optional(integer(column));
  }
  std::optional<std::string> maybe_text(int column) {
    return is_null(column) ? std::nullopt : std::optional(text(column));
  }

 private:
  void reset();
  void check(int result);
  template <std::integral Integer>
  void bind_one(Integer value) {
    check(sqlite3_bind_int64(statement_, ++bound_, static_cast<std::int64_t>(value)));
  }
  void bind_one(const std::string& value) {
    check(sqlite3_bind_text64(statement_, ++bound_, value.data(), value.size(), SQLITE_TRANSIENT,
                              SQLITE_UTF8));
  }
  template <typename Value>
  void bind_one(const std::optional<Value>& value) {
    if (value)
      bind_one(*value);
    else
      check(sqlite3_bind_null(statement_, ++bound_));
  }

  Sqlite& db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

}  // namespace barge
