// Files and batches: what Api says of what is in the store.
#include <algorithm>
#include <charconv>
#include <system_error>

#include "jobs/completion_response.h"
#include "server/api.h"
#include "server/batches.h"
#include "server/file_upload.h"

namespace barge {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxBatchesListed = 100, kMaxFilesListed = 10'000;

// The page of `records` behind the one named `after`. `limit` may be 0: an empty page.
template <typename Record, typename Print>
Json page(const std::vector<Record>& records, const std::string* after, std::int64_t limit,
          const Print& print) {
  auto begin = records.begin();
  if (after) {
    begin = std::ranges::find(records, *after, &Record::id);
    if (begin == records.end())
      throw RequestError(concat("No such object: ", *after), "after", "", 404);
    ++begin;
  }
  const auto end = begin + std::min<std::ptrdiff_t>(records.end() - begin, limit);
  Json data = Json::array();
  for (auto at = begin; at != end; ++at) data.push_back(print(*at));
  const Json first = data.empty() ? Json() : data.front()["id"];
  const Json last = data.empty() ? Json() : data.back()["id"];
  return {{"object", "list"},
          {"data", std::move(data)},
          {"first_id", first},
          {"last_id", last},
          {"has_more", end != records.end()}};
}

const std::string* find(const std::map<std::string, std::string>& query, const char* name) {
  const auto found = query.find(name);
  return found == query.end() ? nullptr : &found->second;
}

}  // namespace

std::optional<std::int64_t> Api::Call::limit() const {
  const std::string* text = find(query, "limit");
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size())
    throw RequestError("Invalid type for 'limit': expected an integer.", "limit", "invalid_type");
  return value;
}

FileRecord Api::find_file(const Call& call) {
  const std::string& id = call.captures[0];
  auto file = store_.file(id);
  if (!file || !call.may_see(file->owner))
    throw RequestError(concat("No such File object: ", id), "id", "", 404);
  return *file;
}

JobRecord Api::find_batch(const Call& call) {
  const std::string& id = call.captures[0];
  auto job = store_.job(id);
  if (!job || !call.may_see(job->owner))
    throw RequestError(concat("No batch found with id '", id, "'."), "", "", 404);
  return *job;
}

ApiReply Api::delete_file(const Call& call) {
  const std::string id = find_file(call).id;
  if (const auto batch = store_.reader_of(id))
    throw RequestError(concat("Cannot delete file ", id, ": batch ", *batch, " is using it."), "id",
                       "", 409);
  store_.remove_file(id);
  std::error_code ignored;  // who is reading it reads on; bytes that stay do no harm
  std::filesystem::remove(directory_.file(id), ignored);
  quota_.refresh();
  return ok({{"id", id}, {"object", "file"}, {"deleted", true}});
}

ApiReply Api::list_files(const Call& call) {
  const std::int64_t limit = call.limit().value_or(kMaxFilesListed);
  if (limit < 1 || limit > kMaxFilesListed)
    throw RequestError(concat("limit must be between 1 and ", kMaxFilesListed, '.'), "limit");
  auto files = store_.files();
  std::erase_if(files, [&](const FileRecord& file) { return !call.may_see(file.owner); });
  if (const std::string* purpose = find(call.query, "purpose"))
    std::erase_if(files, [&](const FileRecord& file) { return file.purpose != *purpose; });
  if (const std::string* order = find(call.query, "order")) {
    if (*order != "asc" && *order != "desc")
      throw RequestError(
          concat("Invalid value: '", *order, "'. Supported values are: 'asc' and 'desc'."), "order",
          "invalid_value");
    if (*order == "asc") std::ranges::reverse(files);
  }
  return ok(page(files, find(call.query, "after"), limit, file_json));
}

ApiReply Api::create_batch(const Call& call) {
  JobRecord job = parse_batch(parse_json(call.request.body), options_.now());
  if (options_.batch_expiry_seconds > 0)
    job.expires_at = job.created_at + options_.batch_expiry_seconds;
  job.owner = call.owner;
  store_.add_job(job);
  worker_.enqueue(job.id);
  return ok(batch_json(job));
}

ApiReply Api::list_batches(const Call& call) {
  const std::int64_t limit = call.limit().value_or(20);
  if (limit < 0 || limit > kMaxBatchesListed)
    throw RequestError(concat("Invalid 'limit': integer ",
                              limit < 0 ? "below minimum value. Expected a value >= 0"
                                        : "above maximum value. Expected a value <= 100",
                              ", but got ", limit, " instead."),
                       "limit", limit < 0 ? "integer_below_min_value" : "integer_above_max_value");
  auto jobs = store_.jobs();
  std::erase_if(jobs, [&](const JobRecord& job) { return !call.may_see(job.owner); });
  return ok(page(jobs, find(call.query, "after"), limit, batch_json));
}

ApiReply Api::cancel_batch(const Call& call) {
  find_batch(call);
  const JobRecord job = *store_.cancel_job(call.captures[0], options_.now());
  if (job.status == JobStatus::kCancelling)
    worker_.cut_short(job.id);
  else if (job.status != JobStatus::kCancelled)
    throw RequestError(concat("Cannot cancel a batch with status '", status_name(job.status), "'."),
                       "", "", 409);
  return ok(batch_json(job));
}

}  // namespace barge
